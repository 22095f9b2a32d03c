"""Config providers: section 1.8."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.config.connector_keys import Connector
from mirror.config.errors import ConfigError
from mirror.config.mirror_maker import MirrorMakerConfig
from mirror.config.properties import PropertiesFile
from mirror.config.resolving import engine_settings, flow_settings
from mirror.model.flow import Flow

A_TO_B = Flow("A", "B")
CLASSES = "org.apache.kafka.common.config.provider."


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "file.properties").write_text("password = é, ${file:x:y}\ninterval = 7\n", encoding="utf-8")
    (folder / "word").write_text("of mouth\n", encoding="utf-8")
    return folder


def config(values: dict[str, str], *, providers: str = "file,dir,env") -> MirrorMakerConfig:
    given = {
        "clusters": "A,B",
        "config.providers": providers,
        "config.providers.file.class": f"{CLASSES}FileConfigProvider",
        "config.providers.dir.class": f"{CLASSES}DirectoryConfigProvider",
        "config.providers.env.class": f"{CLASSES}EnvVarConfigProvider",
    }
    return MirrorMakerConfig.of(PropertiesFile.of(given | values))


def in_worker(value: str, values: dict[str, str] | None = None) -> str:
    return config({"B.x": value, **(values or {})}).worker(A_TO_B)["x"]


def test_placeholders_are_replaced_several_to_a_value(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """CFG-100 to CFG-102."""
    monkeypatch.setenv("USER_NAME", "ann")
    value = f"${{env:USER_NAME}}:${{file:{secrets}/file.properties:password}}/${{dir:{secrets}:word}}"
    assert in_worker(value) == "ann:é, ${file:x:y}/of mouth\n"


@pytest.mark.parametrize("value", ["${vault:a:b}", "${env:NOBODY_SETS_THIS}", "${env}", "a${", "${file::key}", "$"])
def test_what_no_provider_answers_stays_as_it_is(value: str) -> None:
    """CFG-100."""
    assert in_worker(value) == value


def test_connector_settings_keep_their_placeholders_until_they_are_used(secrets: Path) -> None:
    """CFG-103."""
    value = f"${{file:{secrets}/file.properties:interval}}"
    given = config({"refresh.topics.interval.seconds": value})
    assert given.connector(A_TO_B, Connector.SOURCE)["refresh.topics.interval.seconds"] == value
    assert flow_settings(given, A_TO_B, engine_settings(given)).refresh_topics_interval_seconds == 7


def test_a_switch_of_a_flow_may_be_a_placeholder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCH", "true")
    given = config({"A->B.enabled": "${env:SWITCH}", "emit.heartbeats.enabled": "false"})
    assert given.flows == (A_TO_B,)


def test_a_blank_after_the_comma_hides_a_provider_from_connectors_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAG", "5")
    given = config({"offset.lag.max": "${env:LAG}", "B.x": "${env:LAG}"}, providers="file, env")
    assert given.worker(A_TO_B)["x"] == "5"
    assert flow_settings(given, A_TO_B, engine_settings(given)).offset_lag_max == 5
    with pytest.raises(ConfigError, match="not a number"):
        flow_settings(given, A_TO_B, engine_settings(given), inside_worker=False)


def test_only_allowed_paths_are_read(secrets: Path, tmp_path: Path) -> None:
    value = f"${{file:{secrets}/../secrets/file.properties:interval}}"
    allowed = "config.providers.file.param.allowed.paths"
    assert in_worker(value, {allowed: f"{tmp_path}/other,{secrets}"} | _made(tmp_path / "other")) == "7"
    assert in_worker(value, {allowed: f"{tmp_path}/other"}) == value


def test_only_allowed_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MM_A", "a")
    monkeypatch.setenv("OTHER", "b")
    allowed = {"config.providers.env.param.allowlist.pattern": "MM_.*"}
    assert in_worker("${env:MM_A} ${env:OTHER}", allowed) == "a ${env:OTHER}"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("topics", "${file:/nowhere/at/all:key}"),
        ("topics", "${env:path:KEY}"),
        ("config.providers.file.class", "org.example.Vault"),
        ("config.providers.file.param.allowed.paths", "relative"),
        ("config.providers.file.param.allowed.paths", "/nowhere/at/all"),
        ("config.providers.env.param.allowlist.pattern", "["),
    ],
)
def test_what_cannot_be_had_is_refused_naming_the_key(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        config({key: value})
    assert refusal.value.key == key
    assert refusal.value.line is not None


def _made(folder: Path) -> dict[str, str]:
    folder.mkdir()
    return {}
