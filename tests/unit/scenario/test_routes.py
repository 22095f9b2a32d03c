"""Where records belong, by what the properties file of a scenario says."""

from __future__ import annotations

from pathlib import Path

from mirror.config.resolving import load
from mirror.config.settings import FlowSettings
from mirror.model.flow import Flow
from mirror.proof.delivery import Place
from mirror.scenario.declaration import Scenario, Site
from mirror.scenario.properties import properties_text
from mirror.scenario.routes import copy_routes, names_on
from tests.unit.scenario.builders import small

RING = small(
    sites=(Site("east"), Site("west"), Site("north")),
    flows=(Flow("east", "west"), Flow("west", "north"), Flow("north", "east")),
)


def flows_of(scenario: Scenario, directory: Path) -> tuple[FlowSettings, ...]:
    file = directory / "mirror.properties"
    file.write_text(properties_text(scenario, {site.alias: "localhost:1" for site in scenario.sites}))
    return load(file).flows


def test_in_a_ring_a_record_reaches_every_cluster_once_and_not_its_own(tmp_path: Path) -> None:
    routes = copy_routes(flows_of(RING, tmp_path), [Place("east", "orders")])

    assert [(each.route.kept, len(each.over)) for each in routes] == [
        (Place("west", "east.orders"), 1),
        (Place("north", "west.east.orders"), 2),
    ]


def test_with_unchanged_names_the_copy_is_the_topic_itself(tmp_path: Path) -> None:
    policy = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    scenario = small(properties={"replication.policy.class": policy})
    routes = copy_routes(flows_of(scenario, tmp_path), [Place("east", "orders")])

    assert [each.route.kept for each in routes] == [Place("west", "orders")]


def test_a_group_that_moves_reads_the_topics_there_and_the_copies(tmp_path: Path) -> None:
    own = [Place("east", "orders"), Place("west", "orders")]
    routes = copy_routes(flows_of(small(), tmp_path), own)

    assert names_on("west", ["orders"], routes, own) == ["orders", "east.orders"]
    assert names_on("east", ["orders"], routes, own) == ["orders"]


def test_the_file_has_one_factor_for_all_clusters_that_the_smallest_can_hold(tmp_path: Path) -> None:
    mixed = small(sites=(Site("east", brokers=3), Site("west")))
    flow = flows_of(mixed, tmp_path)[0]

    assert flow.replication_factor == 1
