"""What becomes of one ACL of the source: the ACLs on the target that it gives there, or why it gives none (ACL-01..06).

MirrorMaker's rules are the default, but for a fence: what denies everybody to write, or everything, says that this
cluster is not to be written to, and is left out. Beyond them, where the settings ask for it: prefixed patterns, groups
and transactional ids. ACLs on ``*`` are not taken for a topic of that name, as MirrorMaker does: under its default
naming they would mean nothing, and with unchanged names open every topic of the target (ACL-06).

Invariants:

(a) ``*`` is not a topic's name. On the target it becomes the prefix of the copies, or each copy by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from mirror.config.engine_keys import WildcardAcls
from mirror.config.settings import FlowSettings
from mirror.model.acl import Acl, Operation, Pattern, Permission, Resource

# Something that a name may go on with, to see what a policy does to all names with a prefix.
_MORE = "x"


@dataclass(frozen=True, slots=True)
class Names:
    """What the source has: its topics that the flow copies, and its groups that the flow follows."""

    topics: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Carried:
    """The ACLs on the target that one of the source gives.

    Attributes
    ----------
    acls
        none, if it gives none.
    reason
        why these, or why none.
    key
        the setting with which it would give some.
    is_of_flow
        whether it is about anything that the flow copies at all.
    """

    acls: tuple[Acl, ...]
    reason: str
    key: str | None = None
    is_of_flow: bool = True


def resources(settings: FlowSettings) -> tuple[Resource, ...]:
    """Return the kinds of resources whose ACLs the flow carries over."""
    chosen = settings.acls
    return (
        Resource.TOPIC,
        *((Resource.GROUP,) if chosen.groups else ()),
        *((Resource.TRANSACTIONAL_ID,) if chosen.transactional_ids else ()),
    )


def carry(acl: Acl, names: Names, settings: FlowSettings) -> Carried:
    """Return what an ACL of the source, of one of the flow's kinds of resources, gives on the target."""
    is_topic = acl.resource is Resource.TOPIC
    if is_topic and acl.permission is Permission.ALLOW and acl.operation is Operation.WRITE:
        return Carried((), "copies are written by the mirror alone (ACL-01)")
    if acl.is_fence:
        # It would fence the copies too, which applications are to write to after a failover.
        prefix = _prefix(acl)
        is_of_flow = (
            settings.replicates(acl.name)
            if not _is_open(acl)
            else any(name.startswith(prefix) for name in names.topics)
        )
        return Carried((), f"it fences the writers of {settings.flow.source}, not those of the copy", None, is_of_flow)
    if acl.is_wildcard:
        return _wildcard(acl, names, settings)
    if acl.pattern is Pattern.PREFIXED:
        return _prefixed(acl, names, settings)
    if is_topic:
        if not settings.replicates(acl.name):
            return Carried((), "the flow does not copy this topic", is_of_flow=False)
        remote = settings.policy.format_remote_topic(settings.flow.source, acl.name)
        return Carried((_named(acl, remote),), f"{acl} on {settings.flow.source}")
    if acl.resource is Resource.GROUP and not settings.group_filter.matches(acl.name):
        return Carried((), "the flow does not follow this group", is_of_flow=False)
    return Carried((acl,), f"{acl} on {settings.flow.source}")


def could_give(origin: Acl, created: Acl, settings: FlowSettings) -> bool:
    """Tell whether ``origin``, on the source, gives ``created`` whatever the settings select: it was not revoked."""
    if _lowered(origin) != replace(created, pattern=origin.pattern, name=origin.name):
        return False
    if origin.resource is not Resource.TOPIC:
        return (origin.pattern, origin.name) == (created.pattern, created.name)
    if created.pattern is Pattern.PREFIXED:
        return _is_open(origin) and _mapped_prefix(_prefix(origin), settings) == created.name
    if not _is_open(origin):
        return settings.policy.format_remote_topic(settings.flow.source, origin.name) == created.name
    original = settings.policy.upstream_topic(created.name)
    return original is not None and original.startswith(_prefix(origin))


def _wildcard(acl: Acl, names: Names, settings: FlowSettings) -> Carried:
    if acl.permission is Permission.ALLOW and settings.acls.wildcard is WildcardAcls.DENIALS:
        every = acl.resource.name.lower().replace("_", " ")
        reason = f"it allows something on every {every} (*), also on those that are yet to come"
        return Carried((), reason, "mirror.acls.wildcard = all")
    if acl.resource is Resource.TOPIC:
        return _on_copies(acl, names, settings)
    return Carried((acl,), f"{acl} on {settings.flow.source}")


def _prefixed(acl: Acl, names: Names, settings: FlowSettings) -> Carried:
    if acl.resource is Resource.TOPIC:
        is_followed = settings.replicates(acl.name + _MORE) or any(name.startswith(acl.name) for name in names.topics)
    else:
        is_followed = (
            acl.resource is not Resource.GROUP
            or settings.group_filter.matches(acl.name + _MORE)
            or any(name.startswith(acl.name) for name in names.groups)
        )
    if not is_followed:
        return Carried((), "the flow follows nothing that begins so", is_of_flow=False)
    if not settings.acls.prefixed:
        return Carried((), "MirrorMaker carries no prefixed patterns over (ACL-05)", "mirror.acls.prefixed = true")
    if acl.resource is Resource.TOPIC:
        return _on_copies(acl, names, settings)
    return Carried((acl,), f"{acl} on {settings.flow.source}")


def _on_copies(acl: Acl, names: Names, settings: FlowSettings) -> Carried:
    """Put an ACL on many topics on all their copies and, as far as possible, on nothing else.

    One prefixed ACL does where the copies' names have a prefix in common that says where they came from. Otherwise
    each copy that there is gets its own, for the target may have topics like that of its own.
    """
    prefix = _prefix(acl)
    chosen = sorted(name for name in names.topics if name.startswith(prefix))
    copies = [settings.policy.format_remote_topic(settings.flow.source, name) for name in chosen]
    common = _mapped_prefix(prefix, settings)
    reason = f"{acl} on {settings.flow.source}"
    if common and all(copy.startswith(common) for copy in _without_heartbeats(copies, settings)):
        return Carried((replace(_named(acl, common), pattern=Pattern.PREFIXED),), reason)
    return Carried(tuple(_named(acl, copy) for copy in copies), reason if copies else "no such topic is copied yet")


def _without_heartbeats(copies: Iterable[str], settings: FlowSettings) -> Collection[str]:
    """Leave out heartbeats, which are renamed even where nothing else is (POL-01)."""
    return [copy for copy in copies if not settings.policy.is_heartbeats_topic(copy)]


def _mapped_prefix(prefix: str, settings: FlowSettings) -> str | None:
    """Return what the copies of all topics with a prefix begin with, None if the policy gives them nothing such."""
    copy = settings.policy.format_remote_topic(settings.flow.source, prefix + _MORE)
    return copy.removesuffix(_MORE) or None if copy.endswith(_MORE) else None


def _is_open(acl: Acl) -> bool:
    return acl.is_wildcard or acl.pattern is Pattern.PREFIXED


def _prefix(acl: Acl) -> str:
    return "" if acl.is_wildcard else acl.name


def _named(acl: Acl, name: str) -> Acl:
    """Return what ``acl`` gives on a copy called so (ACL-02, ACL-03)."""
    return replace(_lowered(acl), pattern=Pattern.LITERAL, name=name)


def _lowered(acl: Acl) -> Acl:
    """Let who may do everything with a topic read its copy (ACL-02)."""
    is_owner = acl.permission is Permission.ALLOW and acl.operation is Operation.ALL
    return replace(acl, operation=Operation.READ) if is_owner and acl.resource is Resource.TOPIC else acl
