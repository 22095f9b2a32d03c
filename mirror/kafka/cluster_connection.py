"""One cluster by its bootstrap addresses: connecting, sending, asking again what may pass; errors in words."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self

from kafka import errors as client_errors
from kafka.protocol.admin import (
    AlterClientQuotasRequest,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
)
from tenacity import RetryCallState, Retrying, retry_if_exception, retry_if_result, stop_after_delay, wait_exponential

from mirror.config.settings import ClusterSettings
from mirror.kafka.answers import LEFT_OUT, Answer, Found, K, V, found_of, refusal_of
from mirror.kafka.client_logging import keep_client_quiet
from mirror.kafka.connecting import (
    NOBODY_LISTENS,
    CertificateRefused,
    Connections,
    EventLoop,
    HandshakeRefused,
    diagnosed,
    explained,
    in_words,
    is_nobodys_name,
    is_refusal,
)
from mirror.kafka.metadata import metadata_request
from mirror.kafka.problems import AccessDenied, ClusterError, ClusterUnreachable, KafkaProblem
from mirror.kafka.security import arguments_of, client_arguments
from mirror.kafka.versions import ALWAYS, misfit

_RECEIVE_LIMIT_BYTES = 100_000_000


_ITEMS_PER_REQUEST = 500


_REQUESTS_AT_ONCE = 100


# A broker that was restarted may listen again in a moment; one that is dead does not in ten seconds either.
_NOBODY_LISTENS_SECONDS = 2.0


# The library refuses requests to a broker that has five to answer.
_UNDER_WAY = 4


_CHANGES = (
    AlterClientQuotasRequest,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
)


# A request of which nothing was sent, or may have been; and one that has no answer.
_UNCONNECTED = (
    client_errors.NodeNotReadyError,
    client_errors.UnknownBrokerIdError,
    client_errors.KafkaConnectionError,
)
_OTHERS_ARE_ANSWERED = (
    "its brokers answer other requests: has it an active controller (kafka-metadata-quorum.sh describe --status), and "
    "all its brokers?"
)
_UNANSWERED = (*_UNCONNECTED, client_errors.KafkaTimeoutError, client_errors.RequestTimedOutError)


class ClusterConnection:
    """A connection to one cluster, over which requests are sent and asked again; safe to use from several threads."""

    def __init__(self, settings: ClusterSettings, net: EventLoop, manager: Connections, timeout_seconds: float) -> None:
        self._settings = settings
        self._net = net
        self._manager = manager
        self._timeout_seconds = timeout_seconds
        self._before_changes: Callable[[], None] = lambda: None
        self.alias = settings.alias
        self.cluster_id = str(self._metadata([]).cluster_id)

    @classmethod
    def connect(cls, settings: ClusterSettings, *, client_id: str = "mirror", timeout_seconds: float = 10.0) -> Self:
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
                reasons = "; ".join(each.reason for each in failed)
                reason = reasons or "; ".join(filter(None, _why_unreachable(settings, manager))) or in_words(error)
                # Beside one that lets nobody in others may come back that do.
                told = failed if answering is None else []
                raise ClusterUnreachable(
                    settings.alias,
                    settings.bootstrap_servers,
                    reason,
                    is_for_people=bool(told) and all(each.is_for_people for each in told),
                    is_refusal=is_refusal(error) or (bool(told) and all(each.is_refusal for each in told)),
                ) from error
            return cls(settings, net, manager, timeout_seconds)
        except BaseException:
            manager.close()
            net.close()
            raise

    def asking(self, before_changes: Callable[[], None]) -> Self:
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

    def _metadata(self, names: list[str] | None) -> Any:
        return self.send(metadata_request(names))

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
        self, doing: str, items: Iterable[K], ask: Callable[[Sequence[K]], Mapping[K, Answer]]
    ) -> dict[K, Answer]:
        """Ask for all items, and again for those whose error may pass, until the timeout; return the last answers."""
        answers: dict[K, Answer] = {}
        pending = list(items)

        def round_trip() -> list[K]:
            nonlocal pending
            for start in range(0, len(pending), _ITEMS_PER_REQUEST):
                asked = pending[start : start + _ITEMS_PER_REQUEST]
                answered = ask(asked)
                answers.update({item: answered.get(item, LEFT_OUT) for item in asked})
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
            doing, items, lambda asked: {item: Answer(*answer) for item, answer in ask(asked).items()}
        )
        return found_of(answers)

    def _settle_one(self, doing: str, ask: Callable[[], Answer]) -> Any:
        """Return the value of the one answer, raising if it is an error."""
        answer = self._settle(doing, [None], lambda _: {None: ask()})[None]
        if answer.code:
            raise refusal_of(self.alias, doing, answer)
        return answer.value

    def _send_each(self, requests: Sequence[tuple[int, Any]], before: Callable[[], None]) -> list[Any]:
        """Send requests to brokers by their ids, several at a time; return each response, or the library's error.

        ``before`` is called right before each request is sent, over a connection that is there.

        Raises
        ------
        KafkaError
            if some of them had no response at all until the timeout.
        """

        async def ask(share: Sequence[tuple[int, Any]]) -> list[Any]:
            answers: list[Any] = [None] * len(share)
            by_node: dict[int, list[int]] = defaultdict(list)
            for place, (node, _) in enumerate(share):
                by_node[node].append(place)

            async def serve(node: int, places: Sequence[int]) -> None:
                under_way: deque[tuple[int, Any]] = deque()

                async def take() -> None:
                    place, coming = under_way.popleft()
                    try:
                        answers[place] = await coming
                    except client_errors.KafkaError as error:
                        answers[place] = error

                for number, place in enumerate(places):
                    if len(under_way) == _UNDER_WAY:
                        await take()
                    try:
                        connection = await self._manager.ready(node)
                    except client_errors.UnknownBrokerIdError:
                        raise
                    except client_errors.KafkaError as error:
                        for left in places[number:]:
                            answers[left] = error
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
            if all(isinstance(each, client_errors.KafkaError) for each in answers):
                raise answers[0]
            return answers

        responses: list[Any] = []
        for first in range(0, len(requests), _REQUESTS_AT_ONCE):
            asked = partial(self._run, ask, requests[first : first + _REQUESTS_AT_ONCE])
            responses += self._patiently(asked, retry=retry_if_exception(_is_unconnected))
        return responses

    @property
    def _timeout_ms(self) -> int:
        return int(self._timeout_seconds * 1000)


def _is_unconnected(error: BaseException) -> bool:
    """Whether a request did not get through, so that it can be sent again once there is a connection."""
    return isinstance(error, _UNCONNECTED)


class _Failed(NamedTuple):
    """Why an address did not answer.

    Whether waiting does not help (:class:`ClusterUnreachable`), nobody listens, or somebody does and lets nobody in.
    """

    reason: str
    is_for_people: bool
    is_closed: bool
    is_refusal: bool


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
            is_refused = isinstance(error, HandshakeRefused)
            is_for_people = is_refused or isinstance(error, CertificateRefused) or is_nobodys_name(broker.host)
            failed.append(_Failed(f"{address}: {reason}", is_for_people, reason == NOBODY_LISTENS, is_refused))
        else:
            wrong = misfit(offered, ALWAYS)
            if wrong:
                reason = f"{address}: {wrong}"
                raise ClusterUnreachable(settings.alias, settings.bootstrap_servers, reason, is_for_people=True)
            return address, failed
    return None, failed


def _ms_until(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic()) * 1000


# --- errors ------------------------------------------------------------------------------------------------------


@contextmanager
def _errors_of(settings: ClusterSettings, manager: Connections, doing: str) -> Iterator[None]:
    """Turn the library's errors into this module's, with the cluster and what was being done."""
    try:
        yield
    except KafkaProblem:
        raise
    except client_errors.AuthorizationError as error:
        raise AccessDenied(settings.alias, doing, str(error)) from error
    except _UNANSWERED as error:
        reasons = _why_unreachable(settings, manager, was_connected=True)
        reason = "; ".join(filter(None, reasons))
        if None in reasons:
            reason = f"{doing}: {in_words(error)}; {_OTHERS_ARE_ANSWERED}" + (f" ({reason})" if reason else "")
        raise ClusterUnreachable(settings.alias, settings.bootstrap_servers, reason) from error
    except client_errors.KafkaError as error:
        if is_refusal(error):
            reason = explained(error, client_arguments(settings.client)) or in_words(error)
            raise ClusterUnreachable(settings.alias, settings.bootstrap_servers, reason, is_refusal=True) from error
        raise ClusterError(settings.alias, doing, in_words(error)) from error
    except OSError as error:
        # An OAuth server that gives no token, a KDC that gives no ticket, too many open files.
        reason = explained(error, manager.config) or in_words(error)
        raise ClusterUnreachable(settings.alias, settings.bootstrap_servers, reason) from error


def _why_unreachable(
    settings: ClusterSettings, manager: Connections, *, was_connected: bool = False
) -> list[str | None]:
    """Try each address once, plainly, for a reason that the library only logs; None for one that has none.

    ``was_connected``: whether the library was, so that who agrees on TLS is a broker.
    """
    if manager.lacking is not None:
        return [explained(manager.lacking, manager.config) or str(manager.lacking)]
    arguments = client_arguments(settings.client)
    servers = arguments["bootstrap_servers"]
    reasons = ((server, diagnosed(server, arguments, was_connected=was_connected)) for server in servers)
    return [reason and f"{server}: {reason}" for server, reason in reasons]
