"""Rules about rights, logins and quotas: whether applications may do on the target what they may do on the source."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from mirror.control.users import missing_users
from mirror.kafka.acls import NoAuthorizer
from mirror.model.acl import EVERY_NAME, EVERYBODY, Acl, Operation, Pattern, Permission, QuotaKey, Resource
from mirror.model.acl_check import AclCheck
from mirror.model.counts import counted, first_of
from mirror.model.state_record import state_topic
from mirror.recovery.differences import Difference, Impact, Rule
from mirror.recovery.readiness_facts import Facts, NotLookedAt, NotSeen, Side, seen
from mirror.recovery.readiness_rules import mends

# Below so many bytes a second, or this share of a thread, a client stands still.
_STANDSTILL = {"producer_byte_rate": 1024.0, "consumer_byte_rate": 1024.0, "request_percentage": 0.1}
_NAMED = 3
_MORE = "x"
_READS = frozenset({Operation.READ, Operation.ALL})
_WRITES = frozenset({Operation.WRITE, Operation.ALL})
_OPTION = {Resource.TOPIC: "--topic", Resource.GROUP: "--group", Resource.TRANSACTIONAL_ID: "--transactional-id"}


def authorizer_on_one_side(facts: Facts) -> Iterator[Difference]:
    """Where only one side looks up who may do what, the other side's answer is another (ACL-07)."""
    source, target = seen(facts.source), seen(facts.target)
    here, there = _acls(source), _acls(target)
    if here is not None and there is None:
        yield Difference(
            Impact.BLOCKS,
            "the target has no authorizer: everybody may do everything there",
            target.alias,
            counted(len(here), "ACL"),
            "no authorizer",
            mends.set_brokers(
                target, "authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            ),
        )
    elif here is None and there is not None:
        check = _check(target, there)
        wanted = [*((copy, Operation.READ) for copy in facts.copies.values())]
        wanted += [(name, Operation.WRITE) for name in facts.originals.values()]
        if all(check.allows(EVERYBODY, EVERY_NAME, operation, Resource.TOPIC, name) for name, operation in wanted):
            return
        yield Difference(
            Impact.BLOCKS,
            "the target has an authorizer and the source has none: nobody is known to have the rights he needs",
            target.alias,
            "no authorizer",
            counted(len(there), "ACL"),
            f"grant the applications what they need on {target.alias}, or set allow.everyone.if.no.acl.found=true",
        )


def rights_missing(facts: Facts) -> Iterator[Difference]:
    """What principals may do on the source and not on the target; MM2 never carries WRITE, groups or transactional
    ids over (ACL-01, ACL-05), and of ALL only READ (ACL-02).
    """
    source, target = seen(facts.source), seen(facts.target)
    here, there = _acls(source), _acls(target)
    if here is None or there is None:
        return
    # A fence of the source says nothing of what its applications need.
    now, then = _check(source, [each for each in here if not each.is_fence]), _check(target, there)
    mirrors = _mirrors(facts)
    named: set[tuple[str, str, Operation, Resource, tuple[str, ...]]] = set()
    for acl in sorted(here):
        if acl.permission is Permission.DENY or acl.principal in mirrors:
            continue
        for operation, names in _wanted(facts, acl, now):
            missing = tuple(
                each for each in names if not then.allows(acl.principal, acl.host, operation, acl.resource, each)
            )
            key = acl.principal, acl.host, operation, acl.resource, missing
            if missing and key not in named:
                named.add(key)
                yield _right_missing(target, acl, operation, missing)


def denials_missing(facts: Facts) -> Iterator[Difference]:
    """What the source forbids somebody and the target does not."""
    source, target = seen(facts.source), seen(facts.target)
    here, there = _acls(source), _acls(target)
    if here is None or there is None:
        return
    then = _check(target, there)
    for acl in sorted(here):
        if acl.permission is Permission.ALLOW or acl.is_fence or acl.resource not in _OPTION:
            continue
        operation = Operation.READ if acl.operation is Operation.ALL else acl.operation
        names = _names(facts, acl)
        opened = [each for each in names if then.allows(acl.principal, acl.host, operation, acl.resource, each)]
        if opened:
            yield Difference(
                Impact.DEGRADES,
                "the source forbids what the target allows",
                f"{acl.principal}: {operation.name} on {_spelled(acl.resource, opened)}",
                str(acl),
                "allowed",
                _command(target, acl, operation, opened[0], denies=True),
            )


def target_fenced(facts: Facts) -> Iterator[Difference]:
    """A fence that was left from a drill or a failback keeps every producer out."""
    target = seen(facts.target)
    for acl in sorted(each for each in _acls(target) or () if each.is_fence):
        fenced = [name for name in facts.originals.values() if _is_about(acl, name)]
        if fenced:
            yield Difference(
                Impact.BLOCKS,
                "the target is fenced: nobody may write there",
                _spelled(Resource.TOPIC, fenced),
                None,
                str(acl),
                _removal(target, acl),
            )


def throttled(facts: Facts) -> Iterator[Difference]:
    """A quota so small that clients stand still: a fence made of quotas, or a mistake."""
    source, target = seen(facts.source), seen(facts.target)
    here, there = seen(source.quotas), seen(target.quotas)
    for key, limit in sorted(there.items(), key=lambda each: str(each[0])):
        if limit <= _STANDSTILL.get(key.limit, -1.0) and limit < here.get(key, float("inf")):
            yield Difference(
                Impact.BLOCKS,
                "a quota of the target lets clients stand still",
                str(key),
                _value(here.get(key)),
                _value(limit),
                _quota(target, key, here.get(key)),
            )


def quotas_differ(facts: Facts) -> Iterator[Difference]:
    """Limits of clients (ACL-05): without them one may take the room of all, with other ones some are slower."""
    source, target = seen(facts.source), seen(facts.target)
    here, there = seen(source.quotas), seen(target.quotas)
    for key in sorted({*here, *there}, key=str):
        upstream, downstream = here.get(key), there.get(key)
        stands_still = downstream is not None and downstream <= _STANDSTILL.get(key.limit, -1.0)
        if upstream != downstream and not stands_still:
            yield Difference(
                Impact.DEGRADES,
                "a client quota of the source is missing on the target"
                if downstream is None
                else "a client quota differs",
                str(key),
                _value(upstream),
                _value(downstream),
                _quota(target, key, upstream) + (", or mirror.acls.client.quotas = true" if downstream is None else ""),
            )


def logins_missing(facts: Facts) -> Iterator[Difference]:
    """Users that log in with SCRAM on the source and cannot on the target (ACL-05); Kafka tells no passwords."""
    source, target = seen(facts.source), seen(facts.target)
    missing = missing_users(seen(source.users), seen(target.users))
    mirrors = _mirrors(facts) if missing else frozenset()
    for each in missing:
        if f"User:{each.name}" not in mirrors:
            yield Difference(
                Impact.DEGRADES,
                "a user of the source cannot log in on the target",
                each.name,
                each.mechanism,
                "no credentials",
                f"kafka-configs.sh --bootstrap-server {target.bootstrap} --alter --entity-type users --entity-name "
                f"{each.name} --add-config '{each.mechanism}=[password=...]'",
            )


RULES = (
    Rule("authorizer", Impact.BLOCKS, authorizer_on_one_side),
    Rule("rights", Impact.BLOCKS, rights_missing),
    Rule("denials", Impact.DEGRADES, denials_missing),
    Rule("fenced", Impact.BLOCKS, target_fenced),
    Rule("standstill", Impact.BLOCKS, throttled),
    Rule("quotas", Impact.DEGRADES, quotas_differ),
    Rule("logins", Impact.DEGRADES, logins_missing),
)


def _acls(side: Side) -> frozenset[Acl] | None:
    """Return the ACLs of a cluster, None if it has no authorizer."""
    if isinstance(side.acls, NotSeen):
        raise NotLookedAt(side.acls)
    return None if isinstance(side.acls, NoAuthorizer) else side.acls.acls


def _mirrors(facts: Facts) -> frozenset[str]:
    """Return the principals of mirrors, whose rights are no application's: who is let in to their side topics by name.

    A principal that logs in by certificate does not show in the settings.
    """
    settings = facts.settings
    found = {facts.own_principal} if facts.own_principal else set()
    for side, topics in (
        (seen(facts.source), (settings.offset_syncs_topic,)),
        (seen(facts.target), (state_topic(settings.flow.source), settings.checkpoints_topic)),
    ):
        found |= {
            acl.principal
            for acl in _acls(side) or ()
            if acl.permission is Permission.ALLOW
            and acl.resource is Resource.TOPIC
            and acl.operation in _WRITES
            and not acl.is_wildcard
            and any(_is_about(acl, topic) for topic in topics)
        }
    return frozenset(found)


def _check(side: Side, acls: Collection[Acl]) -> AclCheck:
    """Return the check of a cluster; what its brokers do not tell of super users gives no right."""
    settings = seen(side.settings)
    supers = {
        each.strip() for value in settings.get("super.users", frozenset()) for each in value.split(";") if each.strip()
    }
    opens = settings.get("allow.everyone.if.no.acl.found", frozenset()) == {"true"}
    return AclCheck(acls, supers, allows_if_none=opens)


def _wanted(facts: Facts, acl: Acl, now: AclCheck) -> Iterator[tuple[Operation, tuple[str, ...]]]:
    """Yield the operations that an ACL allows and applications need, with the names of the target they need them on."""

    def is_allowed(operation: Operation, name: str) -> bool:
        return now.allows(acl.principal, acl.host, operation, acl.resource, name)

    if acl.resource is Resource.TOPIC:
        named = _matching(acl, facts.copies)
        if acl.operation in _READS:
            readable = [name for name in named if is_allowed(Operation.READ, name)]
            # Who read the topic goes on with its copy, and with what producers write after the failover.
            both = [facts.copies[name] for name in readable]
            both += [facts.originals[name] for name in readable if name in facts.originals]
            yield Operation.READ, tuple(dict.fromkeys(both))
        if acl.operation in _WRITES:
            yield (
                Operation.WRITE,
                tuple(
                    facts.originals[name]
                    for name in named
                    if name in facts.originals and is_allowed(Operation.WRITE, name)
                ),
            )
    elif acl.resource is Resource.GROUP and acl.operation in _READS:
        yield Operation.READ, tuple(each for each in _names(facts, acl) if is_allowed(Operation.READ, each))
    elif acl.resource is Resource.TRANSACTIONAL_ID and acl.operation in _WRITES:
        yield Operation.WRITE, tuple(each for each in _names(facts, acl) if is_allowed(Operation.WRITE, each))


def _names(facts: Facts, acl: Acl) -> tuple[str, ...]:
    """Return the names of the target that an ACL of the source is about, as far as the flow has to do with them."""
    if acl.resource is Resource.TOPIC:
        twins = facts.originals if acl.operation is Operation.WRITE else facts.copies
        return tuple(twins[name] for name in _matching(acl, twins))
    if acl.resource is Resource.GROUP:
        groups = [each.group for each in seen(seen(facts.source).groups) if each.is_consumer_group]
        followed = [each for each in groups if _is_about(acl, each) and facts.settings.group_filter.matches(each)]
        if followed or acl.is_wildcard or acl.pattern is Pattern.PREFIXED:
            return tuple(followed)
        return (acl.name,) if facts.settings.group_filter.matches(acl.name) else ()
    if acl.resource is Resource.TRANSACTIONAL_ID:
        return (f"{acl.name}{_MORE}",) if acl.pattern is Pattern.PREFIXED else (acl.name,)
    return ()


def _matching(acl: Acl, names: Collection[str]) -> list[str]:
    """Return those of many names that an ACL is about."""
    if acl.pattern is Pattern.LITERAL and not acl.is_wildcard:
        return [acl.name] if acl.name in names else []
    return [name for name in names if _is_about(acl, name)]


def _is_about(acl: Acl, name: str) -> bool:
    if acl.is_wildcard:
        return True
    return name.startswith(acl.name) if acl.pattern is Pattern.PREFIXED else name == acl.name


def _right_missing(target: Side, acl: Acl, operation: Operation, missing: tuple[str, ...]) -> Difference:
    return Difference(
        Impact.BLOCKS,
        f"a principal may {operation.name} on the source and not on the target",
        f"{acl.principal}: {_spelled(acl.resource, missing)}",
        str(acl),
        "no ACL allows it",
        _command(target, acl, operation, missing[0]) + (" (and so on)" if len(missing) > 1 else ""),
    )


def _command(target: Side, acl: Acl, operation: Operation, name: str, *, denies: bool = False) -> str:
    whom = "--deny" if denies else "--allow"
    host = "" if acl.host == EVERY_NAME else f" {whom}-host {acl.host}"
    prefixed = ""
    if acl.resource is Resource.TRANSACTIONAL_ID and acl.pattern is Pattern.PREFIXED:
        name, prefixed = acl.name, " --resource-pattern-type prefixed"
    return (
        f"kafka-acls.sh --bootstrap-server {target.bootstrap} --add {whom}-principal {acl.principal}{host} "
        f"--operation {operation.name.replace('_', '').title()} {_OPTION[acl.resource]} '{name}'{prefixed}"
    )


def _removal(target: Side, acl: Acl) -> str:
    prefixed = " --resource-pattern-type prefixed" if acl.pattern is Pattern.PREFIXED else ""
    return (
        f"kafka-acls.sh --bootstrap-server {target.bootstrap} --remove --deny-principal '{acl.principal}' "
        f"--operation {acl.operation.name.title()} --topic '{acl.name}'{prefixed}"
    )


def _spelled(resource: Resource, names: Iterable[str]) -> str:
    return f"{resource.name.lower().replace('_', ' ')} {first_of(list(names), _NAMED)}"


def _quota(target: Side, key: QuotaKey, value: float | None) -> str:
    entities = " ".join(
        f"--entity-type {kind}s " + ("--entity-default" if name is None else f"--entity-name '{name}'")
        for kind, name in key.entity
    )
    change = f"--delete-config {key.limit}" if value is None else f"--add-config {key.limit}={value:g}"
    return f"kafka-configs.sh --bootstrap-server {target.bootstrap} --alter {entities} {change}"


def _value(limit: float | None) -> str:
    return "none" if limit is None else f"{limit:g}"
