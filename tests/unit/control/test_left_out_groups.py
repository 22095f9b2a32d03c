"""Which groups a flow leaves out although they read its topics."""

from __future__ import annotations

from pathlib import Path

from mirror.config.resolving import load
from mirror.control.left_out_groups import left_out_groups
from mirror.kafka.answers import Found
from mirror.kafka.cluster_model import GroupPosition
from mirror.model.partition import TopicPartition

ORDERS, BILLS = TopicPartition("orders", 0), TopicPartition("bills", 0)


def test_a_group_is_left_out_that_does_not_pass_the_filters_and_reads_what_is_copied(tmp_path: Path) -> None:
    path = tmp_path / "mirror.properties"
    path.write_text(
        "clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\na->b.enabled=true\na->b.topics=orders\n"
    )
    (flow,) = load(path).enabled_flows
    at = {each: Found({each: GroupPosition(5)}) for each in (ORDERS, BILLS)}
    read = Found({"billing": at[ORDERS], "connect-sink": at[ORDERS], "connect-other": at[BILLS]})
    read.problems |= {"audit": "not told", "connect-untold": "not told"}
    found = left_out_groups(read, flow, flow.replicates)
    assert (found, found.problems) == ({"connect-sink": ("orders",)}, {"connect-untold": "not told"})
