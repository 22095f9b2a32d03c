"""When a broker is ready: it answers, and counts itself among the living."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from mirror.lab.errors import BrokerError
from mirror.waiting import WaitTimeout, wait_until

# It connects as soon as it can; a broker on a busy machine may take long to answer.
_METADATA_SECONDS = 3.0


def wait_for_broker(
    name: str,
    address: str,
    node_id: int,
    cluster_id: str,
    *,
    is_alive: Callable[[], bool],
    log_tail: Callable[[], str],
    timeout_seconds: float,
) -> None:
    """Wait until a broker answers a metadata request in which it is itself a living broker.

    An open port is not enough: a broker listens before the controller lets it in, and who listens there may be another.

    Parameters
    ----------
    name
        for messages.
    address, node_id, cluster_id
        where it listens, and the number and cluster that it must announce.
    is_alive
        tells whether waiting still makes sense.
    log_tail
        returns the last lines of its log.

    Raises
    ------
    BrokerError
        if it ended or was not ready in time, with what it said last.
    """
    # librdkafka would print every refused connection
    quiet = {"log_level": 0, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}
    admin = AdminClient({"bootstrap.servers": address, "allow.auto.create.topics": False, **quiet})

    def state() -> str:
        if not is_alive():
            return "ended"
        try:
            found = admin.list_topics(timeout=_METADATA_SECONDS)
        except KafkaException as problem:
            return problem.args[0].str() if problem.args else repr(problem)
        if found.cluster_id != cluster_id:
            return f"a broker of cluster {found.cluster_id} listens there"
        return "ready" if node_id in found.brokers else "not let in by the controller yet"

    try:
        seen = wait_until(
            state,
            f"{name} to serve {address}",
            timeout_seconds=timeout_seconds,
            until=lambda state: state in {"ready", "ended"},
            longest_pause_seconds=0.1,
        )
    except WaitTimeout as waited:
        raise BrokerError(f"{waited}; it logged last:\n{log_tail()}") from None
    if seen == "ended":
        raise BrokerError(f"{name} ended while it started; it logged last:\n{log_tail()}")
