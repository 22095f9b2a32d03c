"""One Kafka cluster: its topics, settings, offsets and groups, read and changed through the admin protocols.

Answers are values. What is asked for many items comes back as `Found`, the answers beside the problems, or as one
`ItemResult` an item; an exception means that the cluster as a whole did not answer, or refuses everything.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from itertools import zip_longest
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, TypeVar

from kafka import errors as client_errors
from kafka.protocol.admin import (
    AlterClientQuotasRequest,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteGroupsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    IncrementalAlterConfigsRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest
from tenacity import RetryCallState, Retrying, retry_if_exception, retry_if_result, stop_after_delay, wait_exponential

from mirror.config.settings import ClusterSettings
from mirror.kafka import topic_ids
from mirror.kafka.channel import EARLIEST, LATEST, View, offsets_answered, offsets_request
from mirror.kafka.client_logging import keep_client_quiet
from mirror.kafka.connecting import (
    NOBODY_LISTENS,
    CertificateRefused,
    Connections,
    EventLoop,
    diagnosed,
    explained,
    in_words,
    is_nobodys_name,
    is_refusal,
)
from mirror.kafka.security import arguments_of, client_arguments
from mirror.kafka.versions import ALWAYS, FIND_COORDINATOR, FIND_COORDINATORS, OFFSET_COMMIT, OFFSET_FETCH, misfit
from mirror.model.counts import counted
from mirror.model.partition import TopicPartition, by_topic
from mirror.model.portable import Portable

K = TypeVar("K")
V = TypeVar("V")

_RECEIVE_LIMIT_BYTES = 100_000_000
_ITEMS_PER_REQUEST = 500
_REQUESTS_AT_ONCE = 100
# A broker that was restarted may listen again in a moment; one that is dead does not in ten seconds either.
_NOBODY_LISTENS_SECONDS = 2.0
# The library refuses requests to a broker that has five to answer.
_UNDER_WAY = 4


class ClusterError(Portable):
    """A cluster refused a request as a whole."""

    def __init__(self, alias: str, doing: str, reason: str) -> None:
        self.alias = alias
        self.doing = doing
        self.reason = reason
        super().__init__(f"cluster {alias}: {doing}: {reason}")


class ClusterUnreachable(ClusterError):
    """Nobody answered at a cluster's addresses, or not in time, or not as is needed, or the connection was refused.

    Attributes
    ----------
    is_for_people
        whether waiting does not help, as far as can be told: nobody has such a host's name, the login or the broker's
        certificate is refused, the broker is of a version that cannot be used.
    """

    def __init__(self, alias: str, bootstrap: str, reason: str, *, is_for_people: bool = False) -> None:
        # Reasons name their addresses; one needs no second mention.
        super().__init__(alias, f"connecting to {bootstrap}", reason.removeprefix(f"{bootstrap}: "))
        self.bootstrap, self.reason, self.is_for_people = bootstrap, reason, is_for_people


class AccessDenied(ClusterError):
    """The cluster knows who asks and does not allow it."""


class Found(dict[K, V]):
    """The answers by item, as a dict, and beside them the problem of every item that has no answer."""

    def __init__(self, answers: Mapping[K, V] | None = None, problems: Mapping[K, str] | None = None) -> None:
        super().__init__(answers or {})
        self.problems: dict[K, str] = dict(problems or {})

    def __repr__(self) -> str:
        """Show both halves."""
        return f"Found({super().__repr__()}, problems={self.problems!r})"


@dataclass(frozen=True, slots=True)
class ItemResult:
    """What came of a change to one item.

    Attributes
    ----------
    item
        the topic, group or partition (``orders-3``) that was to be changed.
    problem
        why it was not, None if it was or if there was nothing left to do.
    existed
        whether it was there before: the topic to create or to delete, the partitions to add.
    """

    item: str
    problem: str | None = None
    existed: bool = False


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition as the cluster's metadata tells it; ``leader`` is -1 while it has none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic; ``topic_id`` in Kafka's own spelling (22 characters, all A on clusters that know no topic ids)."""

    name: str
    topic_id: str
    partitions: tuple[Partition, ...]
    is_internal: bool = False

    @property
    def topic_partitions(self) -> tuple[TopicPartition, ...]:
        """The addresses of its partitions, in order."""
        return tuple(TopicPartition(self.name, partition.partition) for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting of a topic or broker; ``source`` in Kafka's words: ``DYNAMIC_TOPIC_CONFIG``, ``DEFAULT_CONFIG``, …"""

    name: str
    value: str | None
    source: str
    is_read_only: bool
    is_sensitive: bool

    @property
    def is_default(self) -> bool:
        """Whether nobody set it: the value is the one built into the broker."""
        return self.source == "DEFAULT_CONFIG"


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created; a replication factor of -1 leaves it to the cluster."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """What to change in one topic's settings; a deleted setting falls back to the cluster's default."""

    set: Mapping[str, str] = field(default_factory=dict)
    delete: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One group of the list; ``protocol_type`` is ``consumer`` for consumers, empty for who only commits."""

    group: str
    protocol_type: str
    state: str
    group_type: str

    @property
    def is_consumer_group(self) -> bool:
        """Whether its positions are those of consumers (GOS-09): no Connect workers, no share or streams groups."""
        return self.protocol_type in ("consumer", "") and self.group_type.lower() in ("", "classic", "consumer")


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """State and number of members; of a group of the new protocol the number is only known to be 0 or at least 1."""

    state: str
    members: int

    @property
    def is_active(self) -> bool:
        """Whether somebody is in the group, or just joining or leaving, so that its positions are not ours to write."""
        return self.members > 0 or self.state not in ("Empty", "Dead")


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """A group's position in one partition and the text committed with it.

    ``leader_epoch`` is that of the last record that was read, as consumers commit it (KIP-320); -1 where it was not
    told: by tools that set positions, by mirrors, and by older clients.
    """

    position: int
    metadata: str = ""
    leader_epoch: int = field(default=-1, compare=False)


class _ConfigSource(IntEnum):
    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class _Answer:
    """A broker's answer for one item: an error code (0 for none), its message, and the value."""

    code: int
    message: str | None = None
    value: Any = None

    @property
    def is_transient(self) -> bool:
        return self.code in _TRANSIENT

    @property
    def problem(self) -> str | None:
        return None if self.code == 0 else _spelled(self.code, self.message)


_LEFT_OUT = _Answer(-1, "the broker's answer leaves it out")

# Errors that pass by themselves: elections, coordinators that load or move, throttling. By number, because the
# library's own notion of "retriable" includes a topic that does not exist.
_TRANSIENT = frozenset((5, 6, 7, 8, 13, 14, 15, 16, 41, 74, 75, 78, 88, 89))
_UNKNOWN_TOPIC_OR_PARTITION = 3
# Not one of those that are asked again.
_UNKNOWN_SERVER_ERROR = -1
_COORDINATOR_NOT_AVAILABLE = 15
_TOPIC_ALREADY_EXISTS = 36
_INVALID_PARTITIONS = 37
_GROUP_ID_NOT_FOUND = 69
_CHANGES = (
    AlterClientQuotasRequest,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
)
_TOPIC_RESOURCE = 2
_SET, _DELETE = 0, 1
_GROUP_COORDINATOR = 0


def _spelled(code: int, message: str | None) -> str:
    error = client_errors.for_code(code)
    name = getattr(error, "message", None) or f"error {code}"
    text = message or " ".join((getattr(error, "description", None) or "").split())
    return f"{name}: {text}" if text else str(name)


class Cluster:
    """A connection to one cluster for administration; safe to use from several threads."""

    def __init__(self, settings: ClusterSettings, net: EventLoop, manager: Connections, timeout_seconds: float) -> None:
        self._settings = settings
        self._net = net
        self._manager = manager
        self._timeout_seconds = timeout_seconds
        self._before_changes: Callable[[], None] = lambda: None
        self.alias = settings.alias
        self.cluster_id = str(self._metadata([]).cluster_id)

    @classmethod
    def connect(cls, settings: ClusterSettings, *, client_id: str = "mirror", timeout_seconds: float = 10.0) -> Cluster:
        """Connect to the cluster of ``settings``; no later call waits much longer than ``timeout_seconds`` either.

        Raises
        ------
        ClusterUnreachable
            within about ``timeout_seconds``, with the reason; sooner where nobody listens at any of the addresses.
        UnsupportedSetting
            if a security setting cannot be honoured.
        """
        keep_client_quiet()
        timeout_ms = int(timeout_seconds * 1000)
        arguments = arguments_of(settings.alias, settings.client) | {
            "client_id": client_id,
            "request_timeout_ms": timeout_ms,
            "socket_connection_setup_timeout_ms": timeout_ms,
            "reconnect_backoff_max_ms": 1000,
            "receive_message_max_bytes": _RECEIVE_LIMIT_BYTES,
        }
        deadline = time.monotonic() + timeout_seconds
        net = EventLoop(**arguments)
        net.start()
        manager = Connections(net, **arguments)
        try:
            with _errors_of(settings, manager, "connecting"):
                answering, failed = _greet(settings, manager, deadline)
            if answering is not None:
                manager.close()
                manager = Connections(net, **arguments | {"bootstrap_servers": [answering]})
            elif all(each.is_closed for each in failed):
                deadline = min(deadline, time.monotonic() + _NOBODY_LISTENS_SECONDS)
            try:
                manager.bootstrap(_ms_until(deadline))
            except (client_errors.KafkaError, OSError) as error:
                said = "; ".join(each.reason for each in failed)
                reason = said or _why_unreachable(settings, manager) or in_words(error)
                is_for_people = answering is None and all(each.is_for_people for each in failed)
                raise ClusterUnreachable(
                    settings.alias, settings.bootstrap_servers, reason, is_for_people=is_for_people and bool(failed)
                ) from error
            return cls(settings, net, manager, timeout_seconds)
        except BaseException:
            manager.close()
            net.close()
            raise

    def asking(self, before_changes: Callable[[], None]) -> Cluster:
        """Return the same cluster, over the same connections, for who may not change it at all times.

        ``before_changes`` is called right before each request of :meth:`send` that changes topics, settings, ACLs or
        quotas; what it raises keeps that from being sent.
        """
        other = copy(self)
        other._before_changes = before_changes
        return other

    def close(self) -> None:
        """Close all connections; calling it again does nothing."""
        self._manager.close()
        self._net.close()

    def __enter__(self) -> Self:
        """Return itself; leaving the block closes it."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        self.close()

    # --- brokers and raw requests --------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The addresses it was connected by."""
        return self._settings.bootstrap_servers

    def broker_ids(self) -> tuple[int, ...]:
        """Return the ids of the brokers that are up, in order."""
        return tuple(sorted(broker.node_id for broker in self._metadata([]).brokers))

    def broker_addresses(self) -> tuple[str, ...]:
        """Return host and port of each broker that is up, in the order of their ids, as clients reach them."""
        brokers = sorted(self._metadata([]).brokers, key=lambda each: int(each.node_id))
        return tuple(
            f"[{each.host}]:{each.port}" if ":" in each.host else f"{each.host}:{each.port}" for each in brokers
        )

    def controller_id(self) -> int:
        """Return the id of the broker that takes changes (in KRaft clusters any one that forwards them)."""
        return int(self._metadata([]).controller_id)

    def send(self, request: Any, node_id: int | None = None) -> Any:
        """Send a request of kafka-python's protocol classes to one broker, or to any, and return the response.

        Error codes within the response are the caller's to read.

        Raises
        ------
        ClusterError
            if no response came.
        """

        def ask() -> Any:
            if isinstance(request, _CHANGES):
                self._before_changes()
            return self._run(self._manager.send, request, node_id)

        with _errors_of(self._settings, self._manager, f"sending {type(request).__name__}"):
            return self._patiently(ask, retry=retry_if_exception(_is_unconnected))

    def _run(self, coroutine: Callable[..., Any], *arguments: Any) -> Any:
        """Run what sends requests in the library's thread, and return what it returns."""
        try:
            return self._manager.run(coroutine, *arguments)
        except client_errors.UnknownBrokerIdError:
            self._manager.cluster.request_update()
            raise

    def _patiently(
        self, ask: Callable[[], V], *, retry: Any, give_up: Callable[[RetryCallState], V] | None = None
    ) -> V:
        return Retrying(
            retry=retry,
            stop=stop_after_delay(self._timeout_seconds),
            wait=wait_exponential(multiplier=0.05, max=1.0),
            reraise=True,
            retry_error_callback=give_up,
        )(ask)

    def _settle(
        self, doing: str, items: Iterable[K], ask: Callable[[Sequence[K]], Mapping[K, _Answer]]
    ) -> dict[K, _Answer]:
        """Ask for all items, and again for those whose error may pass, until the timeout; return the last answers."""
        answers: dict[K, _Answer] = {}
        pending = list(items)

        def round_trip() -> list[K]:
            nonlocal pending
            for start in range(0, len(pending), _ITEMS_PER_REQUEST):
                asked = pending[start : start + _ITEMS_PER_REQUEST]
                answered = ask(asked)
                answers.update({item: answered.get(item, _LEFT_OUT) for item in asked})
            pending = [item for item in pending if answers[item].is_transient]
            return pending

        with _errors_of(self._settings, self._manager, doing):
            if pending:
                self._patiently(round_trip, retry=retry_if_result(bool), give_up=lambda _: pending)
        return answers

    def ask_each(
        self, doing: str, items: Iterable[K], ask: Callable[[Sequence[K]], Mapping[K, tuple[int, str | None, V]]]
    ) -> Found[K, V]:
        """Ask for many items what there is no method for here, again for those whose error may pass, until the timeout.

        Parameters
        ----------
        ask
            :meth:`send` for some of the items; returns of each the error code (0 for none), message and value.
        """
        answers = self._settle(
            doing, items, lambda asked: {item: _Answer(*answer) for item, answer in ask(asked).items()}
        )
        return _found(answers)

    def _settle_one(self, doing: str, ask: Callable[[], _Answer]) -> Any:
        """Return the value of the one answer, raising if it is an error."""
        answer = self._settle(doing, [None], lambda _: {None: ask()})[None]
        if answer.code:
            raise _refusal(self.alias, doing, answer)
        return answer.value

    # --- topics --------------------------------------------------------------------------------------------------

    def topics(self, names: Collection[str] | None = None, *, include_internal: bool = False) -> Found[str, Topic]:
        """Return the topics by name: all of them, or those of ``names`` that exist.

        The cluster's own topics (``__consumer_offsets`` and its like) are left out unless asked for. Of ``names``,
        those that don't exist are simply absent; those that may not be seen are among the problems.
        """
        metadata = self._metadata(None if names is None else list(names))
        found: Found[str, Topic] = Found()
        for topic in metadata.topics:
            if topic.error_code == _UNKNOWN_TOPIC_OR_PARTITION or (topic.is_internal and not include_internal):
                continue
            if topic.error_code and not topic.partitions:
                found.problems[topic.name] = _spelled(topic.error_code, None)
                continue
            found[topic.name] = Topic(
                topic.name,
                topic_ids.spell(topic.topic_id),
                tuple(
                    Partition(
                        each.partition_index,
                        each.leader_id,
                        each.leader_epoch,
                        tuple(each.replica_nodes),
                        tuple(each.isr_nodes),
                    )
                    for each in sorted(topic.partitions, key=lambda each: int(each.partition_index))
                ),
                bool(topic.is_internal),
            )
        return found

    def _metadata(self, names: list[str] | None) -> Any:
        asked = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        return self.send(MetadataRequest(topics=asked, allow_auto_topic_creation=False))

    def topic_configs(self, names: Collection[str]) -> Found[str, tuple[ConfigEntry, ...]]:
        """Return every setting of each topic, with where its value comes from."""

        def ask(asked: Sequence[str]) -> dict[str, _Answer]:
            resources = [
                DescribeConfigsRequest.DescribeConfigsResource(
                    resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=None
                )
                for name in asked
            ]
            response = self.send(DescribeConfigsRequest(resources=resources))
            return {
                result.resource_name: _Answer(result.error_code, result.error_message, config_entries(result))
                for result in response.results
            }

        return _found(self._settle("reading the settings of topics", names, ask))

    def create_topics(self, topics: Sequence[NewTopic]) -> list[ItemResult]:
        """Create topics; a created one is visible, with leaders, on return. One that exists already is not changed."""
        by_name = {topic.name: topic for topic in topics}

        def ask(names: Sequence[str]) -> dict[str, _Answer]:
            creatable = CreateTopicsRequest.CreatableTopic
            response = self.send(
                CreateTopicsRequest(
                    topics=[
                        creatable(
                            name=name,
                            num_partitions=by_name[name].partitions,
                            replication_factor=by_name[name].replication_factor,
                            assignments=[],
                            configs=[
                                creatable.CreatableTopicConfig(name=key, value=value)
                                for key, value in by_name[name].configs.items()
                            ],
                        )
                        for name in names
                    ],
                    timeout_ms=self._timeout_ms,
                    validate_only=False,
                ),
                self.controller_id(),
            )
            return {topic.name: _Answer(topic.error_code, topic.error_message) for topic in response.topics}

        answers = self._settle("creating topics", by_name, ask)
        created = {name: by_name[name].partitions for name, answer in answers.items() if answer.code == 0}
        invisible = self._await_leaders(created)
        return [
            ItemResult(name, existed=True)
            if answer.code == _TOPIC_ALREADY_EXISTS
            else ItemResult(name, answer.problem or invisible.get(name))
            for name, answer in answers.items()
        ]

    def _await_leaders(self, partitions: Mapping[str, int]) -> dict[str, str]:
        """Wait until every topic shows so many partitions, all with leaders that know it; return why others don't."""

        def ask(names: Sequence[str]) -> dict[str, _Answer]:
            seen = self.topics(names, include_internal=True)
            return {name: _leaders_of(seen.get(name), partitions[name]) for name in names}

        answers = self._settle("waiting for leaders of new partitions", partitions, ask)
        led = [name for name, answer in answers.items() if not answer.code]
        # Who leads is known before those who lead know: for some ms they refuse whoever comes.
        self.offsets([TopicPartition(name, number) for name in led for number in range(partitions[name])], "latest")
        return {name: str(answer.problem) for name, answer in answers.items() if answer.code}

    def grow_partitions(self, counts: Mapping[str, int]) -> list[ItemResult]:
        """Raise topics to so many partitions; the new ones have leaders on return. ``existed``: it had them already."""

        def ask(names: Sequence[str]) -> dict[str, _Answer]:
            growing = CreatePartitionsRequest.CreatePartitionsTopic
            response = self.send(
                CreatePartitionsRequest(
                    topics=[growing(name=name, count=counts[name], assignments=None) for name in names],
                    timeout_ms=self._timeout_ms,
                    validate_only=False,
                ),
                self.controller_id(),
            )
            return {result.name: _Answer(result.error_code, result.error_message) for result in response.results}

        answers = self._settle("adding partitions", counts, ask)
        invisible = self._await_leaders({name: counts[name] for name, answer in answers.items() if answer.code == 0})
        refused = [name for name, answer in answers.items() if answer.code == _INVALID_PARTITIONS]
        present = self.topics(refused, include_internal=True) if refused else {}
        return [
            ItemResult(name, existed=True)
            if name in present and len(present[name].partitions) == counts[name]
            else ItemResult(name, answer.problem or invisible.get(name))
            for name, answer in answers.items()
        ]

    def alter_configs(self, changes: Mapping[str, ConfigChange]) -> list[ItemResult]:
        """Change settings of topics incrementally: what is not named stays as it is (TCS-01)."""

        def ask(names: Sequence[str]) -> dict[str, _Answer]:
            resource = IncrementalAlterConfigsRequest.AlterConfigsResource
            response = self.send(
                IncrementalAlterConfigsRequest(
                    resources=[
                        resource(
                            resource_type=_TOPIC_RESOURCE,
                            resource_name=name,
                            configs=[
                                *(
                                    resource.AlterableConfig(name=key, config_operation=_SET, value=value)
                                    for key, value in changes[name].set.items()
                                ),
                                *(
                                    resource.AlterableConfig(name=key, config_operation=_DELETE, value=None)
                                    for key in changes[name].delete
                                ),
                            ],
                        )
                        for name in names
                    ],
                    validate_only=False,
                ),
                self.controller_id(),
            )
            return {each.resource_name: _Answer(each.error_code, each.error_message) for each in response.responses}

        return _item_results(self._settle("changing settings of topics", changes, ask))

    def delete_topics(self, names: Collection[str]) -> list[ItemResult]:
        """Delete topics with all their records; one that was not there is no problem, but did not exist."""

        def ask(asked: Sequence[str]) -> dict[str, _Answer]:
            response = self.send(
                DeleteTopicsRequest(
                    topics=[DeleteTopicsRequest.DeleteTopicState(name=name) for name in asked],
                    topic_names=list(asked),
                    timeout_ms=self._timeout_ms,
                ),
                self.controller_id(),
            )
            return {
                each.name: _Answer(each.error_code, getattr(each, "error_message", None)) for each in response.responses
            }

        answers = self._settle("deleting topics", names, ask)
        absent = {item for item, answer in answers.items() if answer.code == _UNKNOWN_TOPIC_OR_PARTITION}
        return [
            ItemResult(item, None if item in absent else answer.problem, existed=item not in absent)
            for item, answer in answers.items()
        ]

    # --- offsets -------------------------------------------------------------------------------------------------

    def offsets(
        self, partitions: Collection[TopicPartition], at: Literal["earliest", "latest", "written"]
    ) -> Found[TopicPartition, int]:
        """Return the start offset, or the end offset (the high watermark: open transactions are counted), of each.

        ``written`` is the end of all that its leader has written: what readers do not see yet, since a replica in sync
        lacks it, was acknowledged to producers with acks=1.
        """
        wanted = EARLIEST if at == "earliest" else LATEST
        view = View.WRITTEN if at == "written" else View.VISIBLE

        def ask(asked: Sequence[TopicPartition]) -> dict[TopicPartition, _Answer]:
            answers, by_leader = self._leaders(asked)
            for leader, led in by_leader.items():
                for partition, code, offset in offsets_answered(self.send(offsets_request(led, wanted, view), leader)):
                    answers[partition] = _Answer(code, None, offset)
            return answers

        return _found(self._settle("asking for offsets", partitions, ask))

    def _leaders(
        self, partitions: Sequence[TopicPartition]
    ) -> tuple[dict[TopicPartition, _Answer], dict[int, list[TopicPartition]]]:
        """Return the answers for partitions that have no leader to ask, and the others by leader."""
        answers: dict[TopicPartition, _Answer] = {}
        by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        known = self.topics({partition.topic for partition in partitions}, include_internal=True)
        leaders = {
            TopicPartition(topic.name, each.partition): each.leader
            for topic in known.values()
            for each in topic.partitions
        }
        for partition in partitions:
            leader = leaders.get(partition)
            if leader is None:
                reason = known.problems.get(partition.topic, "the topic has no such partition")
                answers[partition] = _Answer(_UNKNOWN_TOPIC_OR_PARTITION, reason)
            elif leader < 0:
                answers[partition] = _Answer(5, "no broker leads this partition at the moment")
            else:
                by_leader[leader].append(partition)
        return answers, by_leader

    # --- groups --------------------------------------------------------------------------------------------------

    def groups(self) -> list[GroupListing]:
        """Return all groups of all brokers, consumers' and others', by name.

        Raises
        ------
        ClusterError
            if one broker does not answer: a list that could be short is not given.
        """
        listed: dict[str, GroupListing] = {}
        for broker in self.broker_ids():
            for group in self._settle_one("listing groups", partial(self._list_groups, broker)):
                listed[group.group] = group
        return [listed[name] for name in sorted(listed)]

    def _list_groups(self, broker: int) -> _Answer:
        response = self.send(ListGroupsRequest(states_filter=[], types_filter=[]), broker)
        groups = [
            GroupListing(
                each.group_id,
                each.protocol_type,
                getattr(each, "group_state", None) or "Unknown",
                getattr(each, "group_type", None) or "",
            )
            for each in response.groups
        ]
        return _Answer(response.error_code, None, groups)

    def describe_groups(self, names: Collection[str]) -> Found[str, GroupDescription]:
        """Return state and number of members of each group; of a group that does not exist, ``Dead`` and 0."""
        answers = self._of_coordinators("describing groups", names, self._describe_groups)
        unseen = [
            name
            for name, answer in answers.items()
            if answer.code == _GROUP_ID_NOT_FOUND or (answer.code == 0 and answer.value.state == "Dead")
        ]
        found: Found[str, GroupDescription] = _found(
            {name: answer for name, answer in answers.items() if name not in unseen}
        )
        if unseen:
            # Groups of the new protocol are not shown by this request, but they are listed, with their state.
            listed = {group.group: group for group in self.groups()}
            for name in unseen:
                state = listed[name].state if name in listed else "Dead"
                found[name] = GroupDescription(state, 0 if state in ("Empty", "Dead") else 1)
        return found

    def _describe_groups(self, groups: Sequence[str], coordinator: int) -> dict[str, _Answer]:
        request = DescribeGroupsRequest(groups=groups, include_authorized_operations=False)
        return {
            group.group_id: _Answer(
                group.error_code,
                getattr(group, "error_message", None),
                GroupDescription(group.group_state, len(group.members)),
            )
            for group in self.send(request, coordinator).groups
        }

    def _of_coordinators(
        self, doing: str, names: Collection[str], ask: Callable[[Sequence[str], int], Mapping[str, _Answer]]
    ) -> dict[str, _Answer]:
        """Ask each coordinator for its groups; those of one that does not answer fail alone, and it is asked once.

        Raises
        ------
        ClusterError
            if no coordinator answers.
        """
        silent: dict[int, ClusterError] = {}
        of_silent: set[str] = set()

        def round_trip(asked: Sequence[str]) -> dict[str, _Answer]:
            answers, by_coordinator = self._coordinators(asked)
            for coordinator, groups in by_coordinator.items():
                if coordinator not in silent:
                    try:
                        answers |= ask(groups, coordinator)
                        continue
                    except ClusterError as error:
                        silent[coordinator] = error
                why = f"no answer from the group coordinator, broker {coordinator}: {silent[coordinator].reason}"
                answers |= {group: _Answer(_UNKNOWN_SERVER_ERROR, why) for group in groups}
                of_silent.update(groups)
            return answers

        answers = self._settle(doing, names, round_trip)
        if silent and of_silent >= set(answers):
            raise next(iter(silent.values()))
        return answers

    def group_positions(self, group: str) -> Found[TopicPartition, GroupPosition]:
        """Return the positions one group has committed; of an unknown group, none.

        Raises
        ------
        ClusterError
            if the group as a whole could not be read.
        """
        positions = self.positions_of_groups([group])
        if group in positions.problems:
            raise ClusterError(self.alias, f"reading the positions of group {group}", positions.problems[group])
        return positions[group]

    def positions_of_groups(self, names: Collection[str]) -> Found[str, Found[TopicPartition, GroupPosition]]:
        """Return the committed positions of many groups, with one request to each of their coordinators."""
        return _found(self._of_coordinators("reading positions of groups", names, self._fetch_positions))

    def _fetch_positions(self, groups: Sequence[str], coordinator: int) -> dict[str, _Answer]:
        # Version 10 speaks of topic ids; version 8 is the first to take many groups at once.
        if self._manager.broker_version_data.api_version(OffsetFetchRequest) >= OFFSET_FETCH.newest:
            asked = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
            response = self.send(
                OffsetFetchRequest(groups=asked, require_stable=False, max_version=OFFSET_FETCH.newest), coordinator
            )
            return {each.group_id: _positions(each.error_code, each.topics) for each in response.groups}
        answers = {}
        for group in groups:
            response = self.send(OffsetFetchRequest(group_id=group, topics=None, max_version=7), coordinator)
            answers[group] = _positions(response.error_code, response.topics)
        return answers

    def write_group_positions(self, group: str, positions: Mapping[TopicPartition, GroupPosition]) -> list[ItemResult]:
        """Commit positions for a group, as nobody's member: the broker refuses it while the group has members."""
        return self.write_positions_of_groups({group: positions})[group]

    def write_positions_of_groups(
        self,
        wanted: Mapping[str, Mapping[TopicPartition, GroupPosition]],
        before: Callable[[], None] = lambda: None,
    ) -> dict[str, list[ItemResult]]:
        """Commit positions for many groups, a request each, several of them under way to every coordinator.

        As nobody's member: the broker refuses it while a group has members. ``before`` is called right before each
        request is sent; what it raises keeps that from being sent, and all behind it. It must not wait: it is called
        in the thread that sends, and what was handed over just before would go out behind the wait.
        """
        items = [(group, partition) for group, positions in wanted.items() for partition in positions]

        def ask(asked: Sequence[tuple[str, TopicPartition]]) -> dict[tuple[str, TopicPartition], _Answer]:
            partitions: dict[str, list[TopicPartition]] = defaultdict(list)
            for group, partition in asked:
                partitions[group].append(partition)
            unknown, by_coordinator = self._coordinators(list(partitions))
            answers = {(group, each): answer for group, answer in unknown.items() for each in partitions[group]}
            commits = [
                (coordinator, group, _commit(group, {each: wanted[group][each] for each in partitions[group]}))
                # In turns, so that all coordinators are at work.
                for row in zip_longest(*([(node, group) for group in led] for node, led in by_coordinator.items()))
                for coordinator, group in filter(None, row)
            ]
            responses = self._send_each([(coordinator, request) for coordinator, _, request in commits], before)
            for (_, group, _), response in zip(commits, responses, strict=True):
                if isinstance(response, client_errors.KafkaError):
                    failed = _Answer(_COORDINATOR_NOT_AVAILABLE, f"no answer: {response}")
                    answers |= {(group, each): failed for each in partitions[group]}
                    continue
                answers |= {
                    (group, TopicPartition(topic.name, each.partition_index)): _Answer(each.error_code)
                    for topic in response.topics
                    for each in topic.partitions
                }
            return answers

        what = f"group {next(iter(wanted))}" if len(wanted) == 1 else counted(len(wanted), "group")
        answers = self._settle(f"writing positions of {what}", items, ask)
        return {
            group: _item_results({each: answers[group, each] for each in positions})
            for group, positions in wanted.items()
        }

    def _send_each(self, requests: Sequence[tuple[int, Any]], before: Callable[[], None]) -> list[Any]:
        """Send requests to brokers by their ids, several at a time; return each response, or the library's error.

        ``before`` is called right before each request is sent, over a connection that is there.

        Raises
        ------
        KafkaError
            if some of them had no response at all until the timeout.
        """

        async def ask(share: Sequence[tuple[int, Any]]) -> list[Any]:
            told: list[Any] = [None] * len(share)
            by_node: dict[int, list[int]] = defaultdict(list)
            for place, (node, _) in enumerate(share):
                by_node[node].append(place)

            async def serve(node: int, places: Sequence[int]) -> None:
                under_way: deque[tuple[int, Any]] = deque()

                async def take() -> None:
                    place, coming = under_way.popleft()
                    try:
                        told[place] = await coming
                    except client_errors.KafkaError as error:
                        told[place] = error

                for number, place in enumerate(places):
                    if len(under_way) == _UNDER_WAY:
                        await take()
                    try:
                        connection = await self._manager.ready(node)
                    except client_errors.UnknownBrokerIdError:
                        raise
                    except client_errors.KafkaError as error:
                        for left in places[number:]:
                            told[left] = error
                        break
                    before()
                    under_way.append((place, connection.send_request(share[place][1])))
                while under_way:
                    await take()

            failures = []
            for served in [self._manager.call_soon(serve, node, places) for node, places in by_node.items()]:
                try:
                    await served
                except Exception as failure:  # noqa: BLE001  # raised below: nobody is left behind who still sends
                    failures.append(failure)
            if failures:
                raise failures[0]
            if all(isinstance(each, client_errors.KafkaError) for each in told):
                raise told[0]
            return told

        responses: list[Any] = []
        for first in range(0, len(requests), _REQUESTS_AT_ONCE):
            asked = partial(self._run, ask, requests[first : first + _REQUESTS_AT_ONCE])
            responses += self._patiently(asked, retry=retry_if_exception(_is_unconnected))
        return responses

    def delete_group_positions(self, group: str, partitions: Collection[TopicPartition]) -> list[ItemResult]:
        """Delete positions of a group; the broker refuses it while a member of the group subscribes to the topic."""

        def ask(asked: Sequence[TopicPartition]) -> dict[TopicPartition, _Answer]:
            answers, by_coordinator = self._coordinators([group])
            if group in answers:
                return dict.fromkeys(asked, answers[group])
            (coordinator,) = by_coordinator
            deleted = OffsetDeleteRequest.OffsetDeleteRequestTopic
            response = self.send(
                OffsetDeleteRequest(
                    group_id=group,
                    topics=[
                        deleted(
                            name=topic,
                            partitions=[
                                deleted.OffsetDeleteRequestPartition(partition_index=index) for index in indexes
                            ],
                        )
                        for topic, indexes in by_topic(asked).items()
                    ],
                ),
                coordinator,
            )
            if response.error_code:
                return dict.fromkeys(asked, _Answer(response.error_code))
            return {
                TopicPartition(topic.name, each.partition_index): _Answer(each.error_code)
                for topic in response.topics
                for each in topic.partitions
            }

        return _item_results(self._settle(f"deleting positions of group {group}", partitions, ask))

    def delete_groups(self, names: Collection[str]) -> list[ItemResult]:
        """Delete groups with their positions; the broker refuses it for one with members. ``existed``: it was there."""

        def ask(asked: Sequence[str]) -> dict[str, _Answer]:
            answers, by_coordinator = self._coordinators(asked)
            for coordinator, coordinated in by_coordinator.items():
                response = self.send(DeleteGroupsRequest(groups_names=coordinated), coordinator)
                answers |= {each.group_id: _Answer(each.error_code) for each in response.results}
            return answers

        answers = self._settle("deleting groups", names, ask)
        absent = {name for name, answer in answers.items() if answer.code == _GROUP_ID_NOT_FOUND}
        return [
            ItemResult(name, None if name in absent else answer.problem, existed=name not in absent)
            for name, answer in answers.items()
        ]

    def _coordinators(self, groups: Sequence[str]) -> tuple[dict[str, _Answer], dict[int, list[str]]]:
        """Return the answers for groups whose coordinator cannot be told, and the others by coordinator."""
        many = FIND_COORDINATORS.oldest
        if self._manager.broker_version_data.api_version(FindCoordinatorRequest) >= many:
            request = FindCoordinatorRequest(
                key_type=_GROUP_COORDINATOR, coordinator_keys=list(groups), min_version=many
            )
            told = [(each.key, each) for each in self.send(request).coordinators]
        else:
            told = [
                (
                    group,
                    self.send(
                        FindCoordinatorRequest(
                            key=group, key_type=_GROUP_COORDINATOR, max_version=FIND_COORDINATOR.newest
                        )
                    ),
                )
                for group in groups
            ]
        answers: dict[str, _Answer] = {}
        by_coordinator: dict[int, list[str]] = defaultdict(list)
        for group, coordinator in told:
            if coordinator.error_code:
                answers[group] = _Answer(coordinator.error_code, coordinator.error_message)
            else:
                by_coordinator[coordinator.node_id].append(group)
        return answers, by_coordinator

    @property
    def _timeout_ms(self) -> int:
        return int(self._timeout_seconds * 1000)


def _is_unconnected(error: BaseException) -> bool:
    """Whether a request did not get through, so that it can be sent again once there is a connection."""
    return isinstance(
        error,
        client_errors.NodeNotReadyError | client_errors.UnknownBrokerIdError | client_errors.KafkaConnectionError,
    )


class _Failed(NamedTuple):
    """Why an address did not answer, whether waiting does not help (:class:`ClusterUnreachable`), or nobody listens."""

    reason: str
    is_for_people: bool
    is_closed: bool


def _greet(settings: ClusterSettings, manager: Connections, deadline: float) -> tuple[str | None, list[_Failed]]:
    """Connect to the addresses in turn until one answers; return that one, and why those before it did not.

    The library's own start picks an address at random, gives it all the time there is, repeats every failure until the
    timeout and keeps the reasons to its log. A refused login is raised at once: repeating it may lock the account. So
    is what a broker does not offer: it would hang up without a word later.
    """
    failed = []
    brokers = manager.cluster.bootstrap_brokers()
    for left, broker in zip(range(len(brokers), 0, -1), brokers, strict=True):

        async def greet(node: str = broker.node_id, share_ms: float = _ms_until(deadline) / (left + 1)) -> Any:
            connection = manager.get_connection(node, share_ms, refresh_metadata_on_err=False)
            await connection
            connection.close()
            return connection.broker_version_data.api_versions

        address = f"[{broker.host}]:{broker.port}" if ":" in broker.host else f"{broker.host}:{broker.port}"
        try:
            offered = manager.run(greet)
        except client_errors.KafkaError as error:
            if is_refusal(error):
                raise
            reason = explained(error, manager.config) or diagnosed(address, manager.config) or str(error)
            is_for_people = isinstance(error, CertificateRefused) or is_nobodys_name(broker.host)
            failed.append(_Failed(f"{address}: {reason}", is_for_people, reason == NOBODY_LISTENS))
        else:
            wrong = misfit(offered, ALWAYS)
            if wrong:
                reason = f"{address}: {wrong}"
                raise ClusterUnreachable(settings.alias, settings.bootstrap_servers, reason, is_for_people=True)
            return address, failed
    return None, failed


def _ms_until(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic()) * 1000


def _leaders_of(topic: Topic | None, partitions: int) -> _Answer:
    leaderless = 5
    if topic is None:
        return _Answer(leaderless, "created, but not visible yet")
    missing = sum(each.leader < 0 for each in topic.partitions) + max(0, partitions - len(topic.partitions))
    return (
        _Answer(leaderless, f"created, but {counted(missing, 'partition')} without a leader yet")
        if missing
        else _Answer(0)
    )


def _commit(group: str, positions: Mapping[TopicPartition, GroupPosition]) -> Any:
    """Return the request that commits positions for a group, as nobody's member."""
    committed = OffsetCommitRequest.OffsetCommitRequestTopic
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        retention_time_ms=-1,
        topics=[
            committed(
                name=topic,
                partitions=[
                    committed.OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=positions[TopicPartition(topic, index)].position,
                        committed_leader_epoch=-1,
                        committed_metadata=positions[TopicPartition(topic, index)].metadata,
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(positions).items()
        ],
        max_version=OFFSET_COMMIT.newest,
    )


def _positions(code: int, topics: Iterable[Any]) -> _Answer:
    found: Found[TopicPartition, GroupPosition] = Found()
    codes = [code]
    for topic in topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            codes.append(each.error_code)
            if each.error_code:
                found.problems[partition] = _spelled(each.error_code, None)
            elif each.committed_offset >= 0:
                epoch = getattr(each, "committed_leader_epoch", None)
                found[partition] = GroupPosition(
                    each.committed_offset, each.metadata or "", -1 if epoch is None else epoch
                )
    # One partition that is unstable for a moment makes the whole answer worth asking for again.
    passing = next((each for each in codes if each in _TRANSIENT), code)
    return _Answer(passing, None, found)


def _found(answers: Mapping[K, _Answer]) -> Found[K, Any]:
    return Found(
        {item: answer.value for item, answer in answers.items() if answer.code == 0},
        {item: str(answer.problem) for item, answer in answers.items() if answer.code},
    )


def _item_results(answers: Mapping[Any, _Answer]) -> list[ItemResult]:
    return [ItemResult(str(item), answer.problem) for item, answer in answers.items()]


def config_entries(result: Any) -> tuple[ConfigEntry, ...]:
    """Return what one result of a response to DescribeConfigs says."""
    return tuple(
        ConfigEntry(
            entry.name,
            entry.value,
            _config_source(entry.config_source),
            bool(entry.read_only),
            bool(entry.is_sensitive),
        )
        for entry in result.configs
    )


def _config_source(number: int) -> str:
    try:
        return _ConfigSource(number).name
    except ValueError:
        return _ConfigSource.UNKNOWN.name


# --- errors ------------------------------------------------------------------------------------------------------


@contextmanager
def _errors_of(settings: ClusterSettings, manager: Connections, doing: str) -> Iterator[None]:
    """Turn the library's errors into this module's, with the cluster and what was being done."""
    try:
        yield
    except ClusterError:
        raise
    except client_errors.AuthorizationError as error:
        raise AccessDenied(settings.alias, doing, str(error)) from error
    except (
        client_errors.KafkaTimeoutError,
        client_errors.RequestTimedOutError,
        client_errors.KafkaConnectionError,
        client_errors.NodeNotReadyError,
        client_errors.UnknownBrokerIdError,
    ) as error:
        reason = _why_unreachable(settings, manager) or f"{doing}: {in_words(error)}"
        raise ClusterUnreachable(settings.alias, settings.bootstrap_servers, reason) from error
    except client_errors.KafkaError as error:
        if is_refusal(error):
            reason = explained(error, client_arguments(settings.client)) or in_words(error)
            raise ClusterUnreachable(settings.alias, settings.bootstrap_servers, reason, is_for_people=True) from error
        raise ClusterError(settings.alias, doing, in_words(error)) from error
    except OSError as error:
        # An OAuth server that gives no token, a KDC that gives no ticket, too many open files.
        reason = explained(error, manager.config) or in_words(error)
        raise ClusterUnreachable(settings.alias, settings.bootstrap_servers, reason) from error


def _refusal(alias: str, doing: str, answer: _Answer) -> ClusterError:
    error = client_errors.for_code(answer.code)
    kind = AccessDenied if issubclass(error, client_errors.AuthorizationError) else ClusterError
    return kind(alias, doing, str(answer.problem))


def _why_unreachable(settings: ClusterSettings, manager: Connections) -> str | None:
    """Try each address once, plainly, for a reason that the library only logs; None if there is none."""
    if manager.lacking is not None:
        return explained(manager.lacking, manager.config)
    arguments = client_arguments(settings.client)
    reasons = ((server, diagnosed(server, arguments)) for server in arguments["bootstrap_servers"])
    return "; ".join(f"{server}: {reason}" for server, reason in reasons if reason) or None
