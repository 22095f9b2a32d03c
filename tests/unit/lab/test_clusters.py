"""What a lab remembers, and what it refuses."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mirror.lab import clusters, commands, containers, holder, processes
from mirror.lab.brokers import LinkPorts, Node
from mirror.lab.clusters import ClusterRecord, Provider
from mirror.lab.errors import BadRequest, ClusterRefusal, LabError, ProviderUnavailable
from mirror.lab.existing import ExistingCluster, parse_address
from mirror.model.progress import Watch, nobody


def plan(
    *aliases: str,
    known: Mapping[str, ClusterRecord] | None = None,
    brokers: int = 1,
    provider: Provider = Provider.EMBEDDED,
    bootstrap: Mapping[str, str] | None = None,
    linked: Collection[str] = (),
    secured: Collection[str] = (),
    for_load: bool = False,
) -> dict[str, ClusterRecord]:
    """Plan a lab whose free ports are counted from 20001 on."""

    def choose(count: int) -> tuple[int, ...]:
        return tuple(range(20_001, 20_001 + count))

    return clusters.plan_records(
        known or {}, aliases, brokers, provider, bootstrap or {}, choose, linked, secured, for_load=for_load
    )


@pytest.fixture
def listening() -> Iterator[str]:
    """An address at which something listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_every_cluster_has_its_own_id_and_ports() -> None:
    layouts = [record.layout for record in plan("east", "west", brokers=3).values() if record.layout]

    assert len({layout.cluster_id for layout in layouts}) == 2
    ports = [port for layout in layouts for node in layout.nodes for port in (node.port, node.controller_port)]
    assert sorted(map(int, filter(None, ports))) == list(range(20_001, 20_013))


def test_known_clusters_stay_as_they_are_and_new_ones_are_added() -> None:
    before = plan("east")

    after = plan("east", "west", known=before)

    assert after["east"] == before["east"]
    assert set(plan("south", known=after)) == {"east", "west", "south"}


def test_records_survive_writing_and_reading() -> None:
    records = plan("east", "west", "north", brokers=2, bootstrap={"west": "kafka:9092"}, linked=["north"])

    written = json.loads(json.dumps([clusters.encode_record(record) for record in records.values()]))

    assert [clusters.decode_record(data) for data in written] == list(records.values())


def test_a_linked_cluster_has_ports_for_its_links_and_cannot_be_linked_later() -> None:
    records = plan("east", "west", linked=["west"])
    east, west = (record.layout for record in records.values())

    assert east is not None
    assert west is not None
    assert east.nodes[0].link is None
    assert west.nodes == (Node(1, 20_003, 20_004, LinkPorts(20_005, 20_006, 20_007)),)
    assert plan("west", known=records)["west"].layout == west
    with pytest.raises(BadRequest, match="east is known here without links"):
        plan("east", known=records, linked=["east"])


def test_a_secured_cluster_has_a_port_for_those_who_log_in_and_cannot_be_secured_later() -> None:
    records = plan("east", "west", secured=["west"], linked=["west"])
    east, west = (record.layout for record in records.values())

    assert east is not None
    assert west is not None
    assert east.nodes[0].secured_port is None
    assert west.nodes == (Node(1, 20_003, 20_004, LinkPorts(20_005, 20_006, 20_007), 20_008),)
    assert clusters.decode_record(json.loads(json.dumps(clusters.encode_record(records["west"])))) == records["west"]
    with pytest.raises(BadRequest, match="east is known here as not secured"):
        plan("east", known=records, secured=["east"])


def test_that_a_cluster_is_for_load_is_remembered() -> None:
    records = plan("east", for_load=True)
    assert records["east"].layout is not None
    assert records["east"].layout.for_load
    assert clusters.decode_record(json.loads(json.dumps(clusters.encode_record(records["east"])))) == records["east"]
    more = plan("west", known=records)
    assert more["west"].layout is not None
    assert not more["west"].layout.for_load


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aliases": ["east"], "secured": ["west"]}, "only embedded clusters that are named can be secured, not west"),
        ({"aliases": ["east"], "linked": ["west"]}, "only embedded clusters that are named can have links, not west"),
        ({"aliases": []}, "name at least one cluster"),
        ({"aliases": ["east", "east"]}, "the cluster east is named 2 times"),
        ({"aliases": ["../east"]}, "'../east' is no alias"),
        ({"aliases": ["east"], "brokers": 0}, "at least one broker, not 0"),
        ({"aliases": ["east"], "bootstrap": {"west": "a:1"}}, "west has an address but is not among the clusters east"),
        ({"aliases": ["east"], "bootstrap": {"east": "kafka"}}, "the address of east: .* HOST:PORT, got 'kafka'"),
        ({"aliases": ["east"], "provider": Provider.EXISTING}, "Give --bootstrap east=HOST:PORT"),
        ({"aliases": ["east"], "provider": Provider.CONTAINERS, "brokers": 2}, "a container has one broker"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(options: dict[str, object], message: str) -> None:
    aliases = options.pop("aliases")
    with pytest.raises(BadRequest, match=message):
        plan(*aliases, **options)  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"brokers": 3}, "known here with 1 broker, not 3: take it down and discard"),
        ({"provider": Provider.CONTAINERS}, "known here as embedded, not as containers"),
        ({"bootstrap": {"east": "a:1"}}, "known here as embedded, not as existing"),
    ],
)
def test_a_known_cluster_cannot_become_another(options: dict[str, object], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        plan("east", known=plan("east"), **options)  # type: ignore[arg-type]


def test_an_existing_cluster_cannot_move_unnoticed() -> None:
    known = plan("east", bootstrap={"east": "a:1"})

    with pytest.raises(BadRequest, match="known here at a:1, not b:1"):
        plan("east", known=known, bootstrap={"east": "b:1"})


def test_a_directory_without_a_lab_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"there is no lab in .*: start one with `mirror lab up`"):
        clusters.load(tmp_path)


def test_a_damaged_state_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "lab.json").write_text('{"clusters": [{}]}')

    with pytest.raises(LabError, match=r"lab\.json is not what a lab writes"):
        clusters.load(tmp_path)


@pytest.mark.parametrize(("text", "parsed"), [("a:1", ("a", 1)), ("[::1]:9092", ("::1", 9092))])
def test_addresses_are_host_and_port(text: str, parsed: tuple[str, int]) -> None:
    assert parse_address(text) == parsed


@pytest.mark.parametrize("text", ["a", ":1", "a:", "a:x", "a:0", "a:65536"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_address(text)


def test_existing_clusters_are_looked_at_and_never_touched(tmp_path: Path, listening: str) -> None:
    lab = clusters.up(tmp_path, ["prod"], bootstrap={"prod": listening})
    cluster = lab.clusters["prod"]

    assert cluster.is_alive()
    for act in (cluster.kill, cluster.brokers[0].kill):
        with pytest.raises(ClusterRefusal, match=f"{listening} belongs to the existing cluster prod"):
            act()
    assert clusters.down(tmp_path, discard_data=True) == ()
    assert cluster.is_alive()
    assert list(tmp_path.iterdir()) == []


def test_an_existing_cluster_that_is_not_there_is_not_remembered(tmp_path: Path, listening: str) -> None:
    nobody = "127.0.0.1:1"

    with pytest.raises(LabError, match=f"nothing listens at {nobody}, the existing cluster prod"):
        clusters.up(tmp_path, ["prod"], bootstrap={"prod": nobody})
    assert list(tmp_path.iterdir()) == []
    assert ExistingCluster("prod", f"{nobody},{listening}").is_alive()


def test_of_a_cluster_that_runs_already_no_start_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`mirror lab up` said of it, too, that it was begun and done."""

    class Lately:
        def __init__(self, record: ClusterRecord, *_: object) -> None:
            self.alias, self.provider = record.alias, record.provider

        def is_alive(self) -> bool:
            return self.alias == "west"

        def start(self, watch: Watch = nobody) -> None:
            watch(f"cluster {self.alias}", 1, 1)

    monkeypatch.setattr(clusters, "_open", Lately)
    monkeypatch.setattr(clusters.class_archive, "prepare", lambda _: None)
    told = list[str]()
    clusters.up(tmp_path, ["east", "west"], watch=lambda doing, *_: told.append(doing))
    assert told == ["cluster east"]


def test_containers_are_refused_where_docker_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")

    with pytest.raises(ProviderUnavailable, match=r"Docker does not answer .*use embedded clusters"):
        clusters.up(tmp_path / "lab", ["east"], provider=Provider.CONTAINERS)
    assert not (tmp_path / "lab").exists()


def test_a_container_listens_on_the_port_it_is_reached_at() -> None:
    layout = plan("east")["east"].layout
    assert layout is not None

    environment = containers.container_environment(layout)

    assert environment["KAFKA_LISTENERS"] == "PLAINTEXT://:20001,CONTROLLER://127.0.0.1:20002"
    assert environment["KAFKA_ADVERTISED_LISTENERS"] == "PLAINTEXT://127.0.0.1:20001"
    assert environment["CLUSTER_ID"] == layout.cluster_id
    assert environment["KAFKA_TRANSACTION_STATE_LOG_MIN_ISR"] == "1"


@pytest.mark.parametrize(("key", "name"), [("log.dirs", "KAFKA_LOG_DIRS"), ("a_b-c.d", "KAFKA_A___B__C_D")])
def test_broker_properties_have_names_in_the_image(key: str, name: str) -> None:
    assert containers.environment_name(key) == name


def test_status_tells_people_and_programs(tmp_path: Path, listening: str) -> None:
    clusters.up(tmp_path, ["prod"], bootstrap={"prod": listening})

    where = ["--directory", str(tmp_path), "--runs-directory", str(tmp_path / "runs")]
    table = CliRunner().invoke(commands.app, ["status", *where])
    as_json = CliRunner().invoke(commands.app, ["status", "--json", *where])

    assert table.exit_code == as_json.exit_code == 0
    assert "RUNNING" in table.output
    assert json.loads(as_json.output) == {
        "directory": str(tmp_path),
        "spark_master": None,
        "clusters": [
            {
                "alias": "prod",
                "provider": "existing",
                "bootstrap_servers": listening,
                "state": "RUNNING",
                "brokers": [{"address": listening, "alive": True}],
            }
        ],
        "runs": [],
    }


def test_status_and_down_know_the_runs_that_go_on(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "20260101T000000Z-practice"
    run.mkdir(parents=True)
    where = ["--directory", str(tmp_path / "lab"), "--runs-directory", str(tmp_path / "runs")]
    down = ["down", "--run", str(run)]
    owner = holder.hold(run)
    try:
        processes.start(run / "logs", "load-east", ["sleep", "600"], owner_pid=owner.pid)
        table = CliRunner().invoke(commands.app, ["status", *where])
        as_json = CliRunner().invoke(commands.app, ["status", "--json", *where])
        refused = CliRunner().invoke(commands.app, [*down, "--discard"])
        ended, again = CliRunner().invoke(commands.app, down), CliRunner().invoke(commands.app, down)
    finally:
        holder.release(run)

    assert (table.exit_code, as_json.exit_code) == (0, 0)
    # In how many lines of its cell depends on where the temporary directory is.
    assert run.name in re.sub(r"[\s│]", "", table.output)
    (row,) = json.loads(as_json.output)["runs"]
    assert (row["run"], row["processes"]) == (str(run), ["load-east"])
    assert (refused.exit_code, "is its evidence, and stays" in refused.output) == (2, True)
    assert (ended.exit_code, ended.output) == (0, f"{run}: ended\n")
    assert (again.exit_code, "nothing of this run goes on" in again.output) == (2, True)


def test_a_run_that_is_not_there_cannot_be_ended(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    found = CliRunner().invoke(commands.app, ["down", "--run", str(absent)])
    told = f"{absent}: there is no such run; mirror lab status lists the runs that go on\n"
    assert (found.exit_code, found.output) == (2, told)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (["status", "--runs-directory", "nowhere"], 2, "there is no lab in"),
        (["up", "--clusters", "a,a"], 2, "named 2 times"),
        (["up", "--clusters", "a", "--bootstrap", "a"], 2, "--bootstrap is written ALIAS=HOST:PORT"),
        (["up", "--clusters", "a", "--bootstrap", "a=b:1", "--bootstrap", "a=b:2"], 2, "--bootstrap a is there twice"),
        (["up", "--clusters", "a", "--bootstrap", "a=127.0.0.1:1"], 3, "nothing listens at 127.0.0.1:1"),
    ],
)
def test_bad_usage_and_what_cannot_start_have_their_exit_codes(
    tmp_path: Path, arguments: list[str], exit_code: int, message: str
) -> None:
    answer = CliRunner().invoke(commands.app, [*arguments, "--directory", str(tmp_path / "lab")])

    assert (answer.exit_code, message in answer.output) == (exit_code, True)
    assert list(tmp_path.iterdir()) == []
