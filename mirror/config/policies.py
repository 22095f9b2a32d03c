"""Which naming convention, and which filters, properties ask for (CFG-005 to CFG-007, CFG-022, CFG-042)."""

from __future__ import annotations

from collections.abc import Mapping

from mirror.config.connector_keys import IDENTITY_CLASSES
from mirror.config.definition import own_class
from mirror.model.plugins import CustomFilter, CustomReplicationPolicy
from mirror.model.topics import DefaultReplicationPolicy, Generation, IdentityReplicationPolicy, ReplicationPolicy


def replication_policy(values: Mapping[str, str], class_name: str, generation: Generation) -> ReplicationPolicy:
    """Make the policy from the untrimmed values, as Java does; without a separator CFG-007 is not looked at.

    Parameters
    ----------
    values
        the properties of a connector, or of a reader of MirrorMaker's side topics
    class_name
        the value of ``replication.policy.class``, one of those known here or a class of one's own (POL-05)
    generation
        whose selection rules hold

    Raises
    ------
    Unusable
        if a class of one's own is not available, or does not do what it must.
    """
    own = own_class(class_name)
    if own is not None:
        policy = CustomReplicationPolicy(own, tuple(sorted(values.items())), generation)
        policy.require_usable(values.get("source.cluster.alias", "source"))
        return policy
    separator = values.get("replication.policy.separator", ".")
    switch = values.get("replication.policy.internal.topic.separator.enabled", "true")
    internal = "replication.policy.separator" not in values or switch.lower() == "true"
    if class_name in IDENTITY_CLASSES:
        return IdentityReplicationPolicy(separator, internal, values.get("source.cluster.alias"), generation)
    return DefaultReplicationPolicy(separator, internal, generation)


def own_filter(
    values: Mapping[str, str], class_name: str, method: str, *, source_defaults: bool = False
) -> CustomFilter | None:
    """Make a filter of one's own; None if ``class_name`` names none, so that the default one is meant.

    Raises
    ------
    Unusable
        if the class is not available, or has not the method.
    """
    own = own_class(class_name)
    if own is None:
        return None
    found = CustomFilter(own, tuple(sorted(values.items())), method, source_defaults)
    found.require_usable()
    return found
