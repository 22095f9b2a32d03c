"""Who may not change a cluster at all times is asked right before each request that changes something, and no other."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.config.settings import ClusterSettings
from mirror.control.tick import NotLeading
from mirror.kafka.acls import create_acls, delete_acls
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import ConfigChange, NewTopic
from mirror.kafka.users import alter_client_quotas
from mirror.model.acl import Acl, Operation, Pattern, Permission, QuotaKey, Resource

ACL = Acl(Resource.TOPIC, Pattern.LITERAL, "orders", "User:a", "*", Operation.READ, Permission.ALLOW)


class Library:
    """What sends requests, and what was sent."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def run(self, _: object, request: Any, __: object) -> Any:
        self.sent.append(type(request).__name__)
        return SimpleNamespace(cluster_id="an id", controller_id=1, brokers=(), topics=())

    def send(self) -> None:
        """Is run."""


@pytest.mark.parametrize(
    "change",
    [
        lambda cluster: cluster.create_topics([NewTopic("orders", 1, 1)]),
        lambda cluster: cluster.grow_partitions({"orders": 2}),
        lambda cluster: cluster.alter_configs({"orders": ConfigChange({"retention.ms": "5"})}),
        lambda cluster: cluster.delete_topics(["orders"]),
        lambda cluster: create_acls(cluster, [ACL]),
        lambda cluster: delete_acls(cluster, [ACL]),
        lambda cluster: alter_client_quotas(cluster, {QuotaKey((("user", "a"),), "producer_byte_rate"): 5.0}),
    ],
    ids=["topics", "partitions", "settings", "no topics", "ACLs", "no ACLs", "quotas"],
)
def test_nothing_is_changed_behind_the_end_of_the_right_to(change: Callable[[Cluster], object]) -> None:
    library = Library()
    cluster = Cluster(ClusterSettings("west", {}), cast(Any, None), cast(Any, library), 5.0)

    def may_not() -> None:
        raise NotLeading

    with pytest.raises(NotLeading):
        change(cluster.asking(may_not))
    assert set(library.sent) == {"MetadataRequest"}, "who is to be asked, and nothing else"
    assert cluster.asking(may_not).topics() == {}
