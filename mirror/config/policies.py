"""Which naming convention properties ask for (section 2.2)."""

from __future__ import annotations

from collections.abc import Mapping

from mirror.model.topics import DefaultReplicationPolicy, Generation, IdentityReplicationPolicy, ReplicationPolicy


def replication_policy(values: Mapping[str, str], class_name: str, generation: Generation) -> ReplicationPolicy:
    """Make the policy from the untrimmed values, as Java does; without a separator CFG-007 is not looked at.

    Parameters
    ----------
    values
        the properties of a connector, or of a reader of MirrorMaker's side topics
    class_name
        the value of ``replication.policy.class``, one of those known here
    generation
        whose selection rules hold
    """
    separator = values.get("replication.policy.separator", ".")
    switch = values.get("replication.policy.internal.topic.separator.enabled", "true")
    internal = "replication.policy.separator" not in values or switch.lower() == "true"
    if class_name.endswith(".IdentityReplicationPolicy"):
        return IdentityReplicationPolicy(separator, internal, values.get("source.cluster.alias"), generation)
    return DefaultReplicationPolicy(separator, internal, generation)
