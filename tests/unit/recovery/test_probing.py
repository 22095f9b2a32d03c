"""A cluster is gone once none of its brokers answers, several times in a row."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.problems import AccessDenied, ClusterError, ClusterUnreachable
from mirror.recovery import probing as probing_module
from mirror.recovery.probing import (
    NOTHING_KNOWN,
    Known,
    Probe,
    ProbeRow,
    Signal,
    StillThere,
    probe_each,
    probing,
    wait_until_gone,
)
from mirror.waiting import wait_until
from tests.certificates import self_signed

THREE = ClusterSettings("east", {"bootstrap.servers": "a:1, b:2,c:3", "client.id": "x"})
ONE = ClusterSettings("east", {"bootstrap.servers": "a:1"})
NOBODY = Signal("nobody is there")


def answering(*rounds: str, brokers: tuple[str, ...] = ()) -> Probe:
    """Answer in each round at the addresses named, in the last for ever."""
    seen: dict[str, int] = {}

    def probe(settings: ClusterSettings, seconds: float, cluster_id: str) -> Signal:
        address = settings.bootstrap_servers
        incarnation = min(seen.get(address, 0), len(rounds) - 1)
        seen[address] = seen.get(address, 0) + 1
        return Signal(None, brokers) if address in rounds[incarnation].split() else NOBODY

    return probe


def test_each_broker_is_asked_by_itself() -> None:
    assert probe_each(THREE, 1.0, answering("b:2")) == {"a:1": NOBODY, "b:2": Signal(None), "c:3": NOBODY}


def test_it_is_gone_when_none_answers_three_times_in_a_row() -> None:
    """One broker of three that comes back in between makes it there again."""
    assert wait_until_gone(THREE, probe=answering("a:1", "", "", "c:3", "")).probes == 7
    assert wait_until_gone(THREE, probe=answering("")).probes == 3


def test_one_that_goes_on_answering_is_named() -> None:
    with pytest.raises(StillThere, match=r"east is not gone: after 0\.2 s it still answers at c:3"):
        wait_until_gone(THREE, timeout_seconds=0.2, probe=answering("c:3"))


def test_a_cluster_that_refuses_the_login_is_told_apart_from_one_that_answers() -> None:
    """It was said to answer still; the login of the file was wrong, and nobody was told."""

    def refuse(settings: ClusterSettings, *_: object) -> Signal:
        is_there = settings.bootstrap_servers != "c:3"
        return Signal(None, refusal="authentication failed for user svc") if is_there else NOBODY

    row = ProbeRow()
    with pytest.raises(StillThere) as there:
        wait_until_gone(THREE, timeout_seconds=0.2, probe=refuse, row=row)
    assert str(there.value).startswith(
        "east is not gone: after 0.2 s it still answers at a:1, b:2; east refuses the login of the file "
        "(a:1, b:2: authentication failed for user svc): that is no outage"
    )
    assert "Correct the login of east in the file (security.protocol, sasl.*, ssl.keystore.*)" in str(there.value)
    row.ask(THREE, 1.0, NOTHING_KNOWN, answering("a:1"))
    assert row.refused == {}, "it lets us in again"


def test_brokers_on_record_are_asked_beside_the_bootstrap_addresses() -> None:
    """The file names one broker, which is dead; two others serve."""
    known = Known(("a:1", "b:2", "c:3"))
    with pytest.raises(StillThere, match="still answers at b:2, c:3"):
        wait_until_gone(ONE, known=known, timeout_seconds=0.2, probe=answering("b:2 c:3"))
    gone = wait_until_gone(ONE, known=known, probe=answering(""))
    assert str(gone) == "asked at a:1, b:2, c:3"


def test_brokers_are_learned_from_one_that_answers_before_it_dies() -> None:
    with pytest.raises(StillThere, match="still answers at b:2"):
        wait_until_gone(ONE, timeout_seconds=0.5, probe=answering("a:1 b:2", "b:2", brokers=("a:1", "b:2")))


class Clock:
    """Stands still unless it is set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_rounds_before_count_as_long_as_they_are_one_row_with_those_that_follow() -> None:
    clock = Clock()
    row = ProbeRow(clock)
    nobody = answering("")
    for seen in (1, 2):
        assert row.is_due
        row.ask(ONE, 1.0, NOTHING_KNOWN, nobody)
        assert (row.failed, row.is_due) == (seen, False)
        clock.now += 0.5
    clock.now += 2.0
    row.ask(ONE, 1.0, NOTHING_KNOWN, nobody)
    assert (row.failed, row.probes) == (1, 1), "nobody has seen what was in between"
    clock.now += 0.5
    row.ask(ONE, 1.0, Known(("b:2",)), nobody)
    assert (row.failed, row.asked) == (1, ("a:1", "b:2")), "the other broker was asked only now"
    clock.now += 0.5
    row.ask(ONE, 1.0, NOTHING_KNOWN, answering("b:2"))
    assert (row.failed, row.answered) == (0, ("b:2",))


def test_what_was_asked_while_the_run_was_planned_counts_and_once_more_is_asked_at_least() -> None:
    row = ProbeRow()
    for _ in range(3):
        row.ask(ONE, 1.0, NOTHING_KNOWN, answering(""))
    assert wait_until_gone(ONE, probe=answering(""), row=row).probes == 4
    with pytest.raises(StillThere, match="still answers at a:1"):
        wait_until_gone(ONE, timeout_seconds=0.5, probe=answering("a:1"), row=row)


def test_it_is_probed_as_long_as_something_else_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ProbeRow()
    monkeypatch.setattr(probing_module, "_ask", lambda *_: NOBODY)
    with probing(row, ONE, 1.0, NOTHING_KNOWN):
        wait_until(lambda: row.failed >= 3, "the third round", timeout_seconds=60.0)


def test_what_goes_wrong_with_a_plan_ends_its_probes_and_what_goes_wrong_with_these_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probing_module, "_ask", lambda *_: NOBODY)
    with pytest.raises(KeyError), probing(ProbeRow(), ONE, 1.0, NOTHING_KNOWN):
        raise KeyError

    def ask(*_: object) -> Signal:
        raise ZeroDivisionError

    monkeypatch.setattr(probing_module, "_ask", ask)
    with pytest.raises(ZeroDivisionError), probing(ProbeRow(), ONE, 1.0, NOTHING_KNOWN):
        pass


def test_that_only_bootstrap_addresses_are_known_is_said() -> None:
    gone = wait_until_gone(ONE, probe=answering(""))
    assert (gone.addresses, gone.others) == (("a:1",), 0)
    assert str(gone) == (
        "asked at the bootstrap addresses alone, a:1: nothing is on record of other brokers, which may be there"
    )


def test_where_the_brokers_on_record_are_the_bootstrap_addresses_no_other_is_supposed() -> None:
    gone = wait_until_gone(ONE, known=Known(("a:1",)), probe=answering(""))
    assert str(gone) == "asked at a:1"


class AnotherCluster:
    cluster_id = "other"

    def __enter__(self) -> AnotherCluster:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def broker_addresses(self) -> tuple[str, ...]:
        return ("a:1", "b:2")


def test_another_cluster_at_an_address_on_record_is_not_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing_module.Cluster, "connect", lambda *_, **__: AnotherCluster())
    (heard,) = probe_each(ONE, 1.0, known=Known(cluster_id="ours")).values()
    assert heard == Signal("another cluster answers there (other)")
    (heard,) = probe_each(ONE, 1.0, known=Known(cluster_id="other")).values()
    assert heard == Signal(None, ("a:1", "b:2"))


def test_who_lets_nobody_in_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object, **__: object) -> None:
        raise problem

    monkeypatch.setattr(probing_module.Cluster, "connect", connect)
    problem: Exception = AccessDenied("east", "describing", "not allowed")
    assert probe_each(ONE, 1.0) == {"a:1": Signal(None, refusal="not allowed")}
    problem = ClusterUnreachable("east", "a:1", "authentication failed", is_refusal=True)
    assert probe_each(ONE, 1.0) == {"a:1": Signal(None, refusal="authentication failed")}
    problem = ClusterError("east", "connecting", "it has another reason")
    assert probe_each(ONE, 1.0) == {"a:1": Signal(None)}
    problem = ClusterUnreachable("east", "a:1", "connection refused")
    (heard,) = probe_each(ONE, 1.0).values()
    assert "connection refused" in str(heard.problem)


@contextmanager
def tls_at(context: ssl.SSLContext, certificate: Path) -> Iterator[dict[str, str]]:
    """Shake hands with all who come, and say nothing more; yield the properties of a client."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                plain, _ = server.accept()
                with context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False) as tls:
                    with suppress(ssl.SSLError):
                        tls.do_handshake()
                    # What is left unread would cut the connection before the alert is read.
                    while socket.socket.recv(tls, 1 << 12):
                        pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield {
            "bootstrap.servers": f"127.0.0.1:{server.getsockname()[1]}",
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificate),
        }
        server.shutdown(socket.SHUT_RDWR)


def tls_of(directory: Path) -> tuple[ssl.SSLContext, Path]:
    key, certificate = self_signed(directory, "broker", "-addext", "subjectAltName=IP:127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate


def demanding(context: ssl.SSLContext, certificate: Path) -> None:
    """Have a certificate asked for that nobody shows."""
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(certificate)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_broker_that_asks_for_another_certificate_is_there(tmp_path: Path, version: ssl.TLSVersion) -> None:
    """It was taken for gone: a failover would have begun while its applications wrote."""
    context, certificate = tls_of(tmp_path)
    context.minimum_version = context.maximum_version = version
    demanding(context, certificate)
    with tls_at(context, certificate) as client:
        (heard,) = probe_each(ClusterSettings("east", client), 2.0).values()
    assert heard.problem is None
    assert "TLS: the broker refuses the handshake" in str(heard.refusal)


def test_who_ends_a_handshake_for_a_failure_of_its_own_is_no_broker_that_refuses_the_login(tmp_path: Path) -> None:
    """As what stands before brokers does once these are gone: their cluster was said to be there."""
    context, certificate = tls_of(tmp_path)
    context.sni_callback = lambda *_: ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
    with tls_at(context, certificate) as client:
        (heard,) = probe_each(ClusterSettings("east", client), 2.0).values()
    assert heard.refusal is None
    assert "whoever answers there ends the handshake: tlsv1 alert internal error" in str(heard.problem)


def test_one_address_that_refuses_beside_one_that_is_closed_is_waited_for(tmp_path: Path) -> None:
    """An engine that was started meanwhile ended: one broker has the new certificates, the others are restarted."""
    context, certificate = tls_of(tmp_path)
    demanding(context, certificate)
    with tls_at(context, certificate) as client, socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{unused.getsockname()[1]}"
        for addresses, is_refusal in (
            (client["bootstrap.servers"], True),
            (f"{client['bootstrap.servers']},{closed}", False),
        ):
            with pytest.raises(ClusterUnreachable, match="refuses the handshake") as failed:
                Cluster.connect(ClusterSettings("east", client | {"bootstrap.servers": addresses}), timeout_seconds=2.0)
            assert (failed.value.is_refusal, failed.value.is_for_people) == (is_refusal, is_refusal)


def test_an_address_that_refuses_connections_is_not_asked_until_the_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody listens there, and its machine says so at once; a client would go on trying."""

    def connect(*_: object, **__: object) -> None:
        raise AssertionError("no client is needed")

    monkeypatch.setattr(probing_module.Cluster, "connect", connect)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        gone = wait_until_gone(ClusterSettings("east", {"bootstrap.servers": address}), probe_seconds=60.0)
    assert gone.probes == 3


def test_an_address_that_takes_connections_has_longer_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster at the other end of a long line, or under heavy load, was taken for gone while it served."""
    given: list[float] = []

    def connect(settings: ClusterSettings, *, client_id: str, timeout_seconds: float) -> None:
        given.append(timeout_seconds)
        raise ClusterUnreachable("east", settings.bootstrap_servers, "no answer in time")

    monkeypatch.setattr(probing_module.Cluster, "connect", connect)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        probe_each(ClusterSettings("east", {"bootstrap.servers": address}), 1.0)
        probe_each(ClusterSettings("east", {"bootstrap.servers": address}), 60.0)
    assert given == [5.0, 60.0]


def test_an_address_where_connections_are_swallowed_is_not_asked_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that is cut off swallows them: that is noticed as soon as before."""
    given: list[float] = []

    def connect(settings: ClusterSettings, *, client_id: str, timeout_seconds: float) -> None:
        given.append(timeout_seconds)
        raise ClusterUnreachable("east", settings.bootstrap_servers, "no answer in time")

    def swallow(*_: object, **__: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(probing_module.Cluster, "connect", connect)
    monkeypatch.setattr(probing_module.socket, "create_connection", swallow)
    probe_each(ONE, 1.0)
    assert given == [1.0]
