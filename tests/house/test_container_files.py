"""The image and the containers beside it: ports, addresses, jobs and paths that one file names are there in the other."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from mirror.config.resolving import load
from mirror.lab.jars import KAFKA_VERSION

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
PROMETHEUS: dict[str, Any] = yaml.safe_load((ROOT / "container" / "prometheus.yml").read_text())


def instruction(name: str) -> str:
    """The last one of that name in the Dockerfile."""
    return re.findall(rf"^{name} (?:.*\\\n +CMD )?(.*)$", DOCKERFILE, re.MULTILINE)[-1]


COMMAND: list[str] = json.loads(instruction("CMD"))
PORT = COMMAND[COMMAND.index("--status-port") + 1]


def mounted(service: str) -> dict[str, str]:
    """The files and folders of this checkout that a container sees, by their places there."""
    volumes = (each.split(":") for each in SERVICES[service].get("volumes", []))
    return {place: source for source, place, _ in volumes}


def seen(service: str, place: str) -> Path:
    """The file of this checkout that a container sees at a place."""
    for folder, source in mounted(service).items():
        if PurePosixPath(place).is_relative_to(folder):
            return ROOT / source / PurePosixPath(place).relative_to(folder)
    raise AssertionError(f"{service} sees nothing at {place}")


@pytest.mark.parametrize("service", SERVICES)
def test_what_is_mounted_is_there(service: str) -> None:
    assert [source for source in mounted(service).values() if not (ROOT / source).exists()] == []


@pytest.mark.parametrize("service", SERVICES)
def test_ports_are_open_to_this_machine_alone(service: str) -> None:
    assert all(re.fullmatch(r"127\.0\.0\.1:(\d+):\1", each) for each in SERVICES[service]["ports"])


@pytest.mark.parametrize(
    "image",
    sorted({each["image"] for each in SERVICES.values()} | set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE))),
)
def test_images_are_named_without_the_host_of_a_registry_and_with_a_version(image: str) -> None:
    assert "." not in image.rpartition("/")[0]
    assert ":" in image or image == SERVICES["mirror"]["image"]


def test_the_brokers_are_of_the_version_that_is_tested() -> None:
    assert {SERVICES[alias]["image"] for alias in ("east", "west")} == {f"apache/kafka:{KAFKA_VERSION}"}


def test_the_image_is_built_of_what_is_there_and_is_let_through() -> None:
    parts = [
        part.removesuffix("/")
        for line in re.findall(r"^COPY (?!--)(.*) \S+$", DOCKERFILE, re.MULTILINE)
        for part in line.split()
    ]
    let_through = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert sorted(parts) == sorted(let_through)
    assert [part for part in parts if not (ROOT / part).exists()] == []
    assert re.search(r"^uv==[\d.]+ ", (ROOT / "requirements.lock").read_text(), re.MULTILINE)


def test_the_engine_serves_where_health_and_figures_are_asked_for() -> None:
    assert instruction("EXPOSE") == PORT
    assert f"'127.0.0.1', {PORT}, " in json.loads(instruction("HEALTHCHECK"))[2]
    assert SERVICES["mirror"]["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    (job,) = PROMETHEUS["scrape_configs"]
    assert [each["targets"] for each in job["static_configs"]] == [[f"mirror:{PORT}"]]


def test_the_engines_file_is_where_its_command_looks_and_names_the_brokers_by_their_listeners() -> None:
    settings = load(seen("mirror", COMMAND[1]))
    assert settings.engine.status_address == "0.0.0.0"
    assert settings.ignored == ()
    for alias, cluster in settings.clusters.items():
        environment = SERVICES[alias]["environment"]
        advertised = dict(each.split("://") for each in environment["KAFKA_ADVERTISED_LISTENERS"].split(","))
        assert cluster.bootstrap_servers == advertised["INSIDE"] == f"{alias}:9092"
        listening = dict(each.split("://") for each in environment["KAFKA_LISTENERS"].split(","))
        ports = {name: address.partition(":")[2] for name, address in advertised.items()}
        assert ports.items() <= {name: address.partition(":")[2] for name, address in listening.items()}.items()
        assert SERVICES[alias]["ports"] == [f"127.0.0.1:{ports['OUTSIDE']}:{ports['OUTSIDE']}"]
        assert (
            f"1@localhost:{listening['CONTROLLER'].partition(':')[2]}" == environment["KAFKA_CONTROLLER_QUORUM_VOTERS"]
        )
        assert listening.keys() <= set(
            re.findall(r"(\w+):PLAINTEXT", environment["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"])
        )


def test_prometheus_finds_the_rules_and_has_every_job_that_is_asked_for() -> None:
    (rules,) = PROMETHEUS["rule_files"]
    assert "MirrorLag" in seen("prometheus", rules).read_text()
    assert yaml.safe_load(seen("prometheus", "/etc/prometheus/prometheus.yml").read_text()) == PROMETHEUS
    folder = ROOT / "mirror" / "monitoring"
    asked = {job for each in folder.glob("*.[jy]*") for job in re.findall(r'job=~?\\?"(\w+)', each.read_text())}
    assert asked <= {each["job_name"] for each in PROMETHEUS["scrape_configs"]}


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    provisioning = "/etc/grafana/provisioning"
    (source,) = yaml.safe_load(seen("grafana", f"{provisioning}/datasources/mirror.yml").read_text())["datasources"]
    host, port = source["url"].removeprefix("http://").split(":")
    assert SERVICES[host]["ports"] == [f"127.0.0.1:{port}:{port}"]
    (provider,) = yaml.safe_load(seen("grafana", f"{provisioning}/dashboards/mirror.yml").read_text())["providers"]
    dashboard = f"{provider['options']['path']}/mirror.json"
    assert SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == dashboard
    asked = {each["query"] for each in json.loads(seen("grafana", dashboard).read_text())["templating"]["list"][:1]}
    assert asked == {source["type"]}
