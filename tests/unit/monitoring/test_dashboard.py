"""The dashboard and the alert rules: Grafana and Prometheus can load them, and all that they ask for is served."""

from __future__ import annotations

import itertools
import json
import re
from importlib.resources import files
from typing import Any

import pytest
import yaml

from tests.unit.monitoring.views import engine, scraped

ALERTS = {"MirrorLag", "MirrorRetentionCliff", "MirrorGap", "MirrorPartitionStopped", "MirrorEngineSilent"}
_NAME = re.compile(r"\b(?:mirror|kafka)_[a-z_]+")
_FOLDER = files("mirror.monitoring")


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((_FOLDER / "grafana-dashboard.json").read_text())
    return found


@pytest.fixture(scope="module")
def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((_FOLDER / "prometheus-alerts.yaml").read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def queries(dashboard: dict[str, Any]) -> list[str]:
    """What its panels and variables ask for."""
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    variables = [each["query"]["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"]
    return asked + variables


def test_all_that_is_asked_for_is_served(dashboard: dict[str, Any], rules: list[dict[str, Any]]) -> None:
    served = {name for name, _ in scraped(engine())}
    asked = {name for text in (*queries(dashboard), *(rule["expr"] for rule in rules)) for name in _NAME.findall(text)}
    assert asked <= served
    assert len(asked) > 15


def test_labels_that_are_asked_for_are_there(dashboard: dict[str, Any], rules: list[dict[str, Any]]) -> None:
    served = {label for _, labels in scraped(engine()) for label, _ in labels}
    texts = (*queries(dashboard), *(rule["expr"] for rule in rules))
    grouped = {
        label.strip() for text in texts for found in re.findall(r"by \(([^)]*)\)", text) for label in found.split(",")
    }
    selected = {label for text in texts for label in re.findall(r"(\w+)=~", text)}
    shown = {
        label
        for rule in rules
        for text in rule["annotations"].values()
        for label in re.findall(r"\$labels\.(\w+)", text)
    }
    assert grouped | selected | shown <= served


def test_brackets_are_closed(dashboard: dict[str, Any], rules: list[dict[str, Any]]) -> None:
    for text in (*queries(dashboard), *(rule["expr"] for rule in rules)):
        assert [text.count(each) for each in "({["] == [text.count(each) for each in ")}]"], text


def test_panels_are_numbered_and_do_not_overlap(dashboard: dict[str, Any]) -> None:
    panels = dashboard["panels"]
    assert len({each["id"] for each in panels}) == len(panels)
    places = [each["gridPos"] for each in panels]
    assert all(each["x"] + each["w"] <= 24 for each in places)
    for one, other in itertools.combinations(places, 2):
        apart = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        assert apart or one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]


def test_every_alert_says_what_is_wrong_and_what_to_do(rules: list[dict[str, Any]]) -> None:
    assert {rule["alert"] for rule in rules} >= ALERTS
    for rule in rules:
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert all(rule["annotations"][each] for each in ("summary", "description"))
