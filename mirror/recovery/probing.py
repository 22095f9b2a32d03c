"""Noticing that a cluster is gone: every broker is probed from outside, until none has answered several times.

Brokers are known by the bootstrap addresses of the file, by what an engine has put on record on the target, and by what
those tell that answer while this goes on. A broker that refuses a login is there. It can begin while something else is
done, since most of it is waiting.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.problems import AccessDenied, ClusterError, ClusterUnreachable
from mirror.recovery.step_facts import by_reason
from mirror.waiting import WaitTimeout, wait_until

PROBES = 3
PROBE_SECONDS = 0.5
DETECT_SECONDS = 300.0
# Where somebody listens: over a long line a login takes many round trips, and a broker under load takes its time. Three
# rounds of these have to fit into the time that a failover gives them (30 s).
_LISTENED_SECONDS = 5.0
# Who refuses connections says so at once: three refusals in a moment would be one.
_PAUSE_SECONDS = 0.3
# Rounds that are further apart are no row: nobody has seen what was in between.
_IN_A_ROW_SECONDS = 2.0
_AT_ONCE = 64
REFUSES_LOGIN = "refuses the login"


class StillThere(WaitTimeout):
    """A cluster that was to be gone answers; the message says where."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a cluster's brokers beside the bootstrap addresses of the file.

    Attributes
    ----------
    addresses
        host and port of each, as clients of the file reach them.
    cluster_id
        of another cluster at one of these addresses nothing is to be held; empty if it is not known.
    """

    addresses: tuple[str, ...] = ()
    cluster_id: str = ""


NOTHING_KNOWN = Known()


@dataclass(frozen=True, slots=True)
class Signal:
    """What came of asking one address.

    Attributes
    ----------
    problem
        why it does not answer; None if it does.
    brokers
        the addresses of all brokers of the cluster, as the one that answers tells them.
    refusal
        why it lets nobody in, although it answers; None if it does.
    """

    problem: str | None
    brokers: tuple[str, ...] = ()
    refusal: str | None = None


Probe: TypeAlias = Callable[[ClusterSettings, float, str], Signal]
"""Asks the one address of the settings for so many seconds; the last is the cluster's id, empty if it is not known."""


@dataclass(frozen=True, slots=True)
class Gone:
    """That no broker of a cluster answers.

    Attributes
    ----------
    probes
        how many times that took.
    addresses
        where each broker was asked, in order.
    others
        how many of these are no bootstrap addresses.
    are_on_record
        whether the brokers are on record, so that these are all there are.
    """

    probes: int
    addresses: tuple[str, ...]
    others: int
    are_on_record: bool = False

    def __str__(self) -> str:
        """Return, for people, who was asked."""
        if self.others or self.are_on_record:
            return f"asked at {', '.join(self.addresses)}"
        return (
            f"asked at the bootstrap addresses alone, {', '.join(self.addresses)}: nothing is on record of other "
            "brokers, which may be there"
        )


class ProbeRow:
    """Rounds of probes of one cluster, one after the other; not for several threads at once.

    A round that asks a broker for the first time, or comes long after the one before, begins it anew.

    Attributes
    ----------
    probes
        how many rounds there were.
    failed
        in how many of them, up to the last, nobody has answered.
    asked, answered
        the addresses, in order: of all that were asked, and of those that answered in the last round.
    refused
        why those of them let nobody in that do not, by their addresses.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.probes = self.failed = 0
        self.asked: tuple[str, ...] = ()
        self.answered: tuple[str, ...] = ()
        self.refused: Mapping[str, str] = {}
        self._monotonic = monotonic
        self._ended_at = -math.inf

    @property
    def is_due(self) -> bool:
        """Whether the next round is not too soon after the last."""
        return self._monotonic() - self._ended_at >= _PAUSE_SECONDS

    def ask(self, settings: ClusterSettings, seconds: float, known: Known, probe: Probe | None = None) -> None:
        """Ask every broker that is known, at once."""
        asked = _joined(self.asked, _addresses(settings, known))
        if asked != self.asked or self._monotonic() - self._ended_at > _IN_A_ROW_SECONDS:
            self.probes = self.failed = 0
        found = probe_each(settings, seconds, probe, known=replace(known, addresses=asked))
        self._ended_at = self._monotonic()
        self.answered = tuple(address for address, heard in found.items() if heard.problem is None)
        self.refused = {address: heard.refusal for address, heard in found.items() if heard.refusal is not None}
        self.asked = _joined(asked, (each for heard in found.values() for each in heard.brokers))
        self.probes += 1
        self.failed = 0 if self.answered else self.failed + 1


@contextmanager
def probing(row: ProbeRow, settings: ClusterSettings, seconds: float, known: Known) -> Iterator[None]:
    """Ask round after round meanwhile, in another thread; the last round has ended when this does."""
    over = threading.Event()

    def go_on() -> None:
        row.ask(settings, seconds, known)
        while not over.wait(_PAUSE_SECONDS):
            row.ask(settings, seconds, known)

    with ThreadPoolExecutor(1, "probing") as pool:
        asking = pool.submit(go_on)
        try:
            yield
        finally:
            over.set()
        asking.result()


def wait_until_gone(
    settings: ClusterSettings,
    *,
    known: Known = NOTHING_KNOWN,
    probe_seconds: float = PROBE_SECONDS,
    timeout_seconds: float = DETECT_SECONDS,
    probe: Probe | None = None,
    row: ProbeRow | None = None,
) -> Gone:
    """Probe every broker at once until none has answered three times in a row.

    Each address is asked by itself, since asked one after the other they would share the time that there is; one that
    answers is enough for the cluster to be there.

    Parameters
    ----------
    known
        brokers beside the bootstrap addresses.
    probe
        for tests.
    row
        what was asked before, which counts; at least one round is made here.

    Raises
    ------
    StillThere
        if one answers until the time is over.
    """
    rounds = row or ProbeRow()
    has_asked = False

    def look() -> int:
        nonlocal has_asked
        if rounds.is_due:
            rounds.ask(settings, probe_seconds, known, probe)
            has_asked = True
        return rounds.failed if has_asked else 0

    what = f"{PROBES} failed probes of {settings.alias} in a row"
    try:
        wait_until(
            look,
            what,
            timeout_seconds=timeout_seconds,
            until=lambda count: count >= PROBES,
            longest_pause_seconds=_PAUSE_SECONDS,
        )
    except WaitTimeout:
        where = ", ".join(rounds.answered) or ", ".join(rounds.asked)
        message = f"{settings.alias} is not gone: after {timeout_seconds:g} s it still answers at {where}"
        refused = refused_words(settings.alias, rounds.refused)
        raise StillThere(f"{message}; {refused}" if refused else message) from None
    others = len(rounds.asked) - len(_addresses(settings, NOTHING_KNOWN))
    return Gone(rounds.probes, rounds.asked, others, bool(known.addresses))


def refused_words(alias: str, refused: Mapping[str, str]) -> str | None:
    """Return, for people, that a cluster answers and lets nobody in, and what to do; None where it does not.

    ``refused`` says why, by the address.
    """
    if not refused:
        return None
    reasons = "; ".join(by_reason(refused))
    return (
        f"{alias} {REFUSES_LOGIN} of the file ({reasons}): that is no outage, and applications may still write there. "
        f"Correct the login of {alias} in the file (security.protocol, sasl.*, ssl.keystore.*), or have {alias} let it "
        "in, and try again"
    )


def probe_each(
    settings: ClusterSettings,
    probe_seconds: float,
    probe: Probe | None = None,
    *,
    known: Known = NOTHING_KNOWN,
) -> Mapping[str, Signal]:
    """Ask each bootstrap address of a cluster, and each broker that is known, at once."""
    ask = probe or _ask
    addresses = _addresses(settings, known)
    alone = [replace(settings, client={**settings.client, "bootstrap.servers": each}) for each in addresses]
    with ThreadPoolExecutor(min(len(addresses), _AT_ONCE)) as pool:
        heard = pool.map(lambda one: ask(one, probe_seconds, known.cluster_id), alone)
        return dict(zip(addresses, heard, strict=True))


def _addresses(settings: ClusterSettings, known: Known) -> tuple[str, ...]:
    return _joined((), (*(each.strip() for each in settings.bootstrap_servers.split(",")), *known.addresses))


def _joined(before: tuple[str, ...], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for each in (*before, *more) if each))


def _ask(settings: ClusterSettings, seconds: float, cluster_id: str) -> Signal:
    try:
        is_listened = _is_listened_at(settings.bootstrap_servers, seconds)
    except ConnectionRefusedError as problem:
        # A client would go on trying until its time is over.
        return Signal(f"{settings.bootstrap_servers}: {problem.strerror}")
    patience = max(seconds, _LISTENED_SECONDS) if is_listened else seconds
    try:
        with Cluster.connect(settings, client_id="probe", timeout_seconds=patience) as cluster:
            if cluster_id and cluster.cluster_id != cluster_id:
                return Signal(f"another cluster answers there ({cluster.cluster_id})")
            return Signal(None, cluster.broker_addresses())
    except ClusterError as problem:
        if isinstance(problem, ClusterUnreachable) and not problem.is_refusal:
            return Signal(str(problem))
        lets_nobody_in = isinstance(problem, ClusterUnreachable | AccessDenied)
        return Signal(None, refusal=problem.reason if lets_nobody_in else None)


def _is_listened_at(address: str, seconds: float) -> bool:
    """Whether somebody takes connections at an address; False also if nobody can tell.

    Raises
    ------
    ConnectionRefusedError
        if nobody does, as its machine says.
    """
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=seconds).close()
    except ConnectionRefusedError:
        raise
    except (OSError, ValueError):
        return False
    return True
