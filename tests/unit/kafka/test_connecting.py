"""What a broker says last is heard, and said on; a frozen broker is not taken for one of another protocol."""

from __future__ import annotations

import gc
import logging
import socket
import ssl
import struct
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import cast

import kafka.errors
import pytest

from mirror.config.settings import ClusterSettings
from mirror.kafka import connecting
from mirror.kafka.cluster_connection import _errors_of
from mirror.kafka.connecting import Connections, EventLoop, TlsFailed, diagnosed, explained, in_words, is_nobodys_name
from mirror.kafka.problems import ClusterUnreachable
from mirror.kafka.security import NoToken

# Of the real time: a thread that does not get there.
_STUCK_SECONDS = 60.0


def test_what_came_along_with_the_end_of_the_stream_is_heard_before_the_end() -> None:
    end = kafka.errors.KafkaConnectionError("socket disconnected")
    received = connecting._all_that_came(lambda: (b"refused", end))
    assert received() == (b"refused", None)
    assert received() == (b"", end)
    assert received() == (b"", end)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "connection refused"),
        (ConnectionResetError(104, "Connection reset by peer"), "the broker closed the connection"),
        (ConnectionResetError("the broker closed the connection"), "the broker closed the connection"),
        (socket.gaierror(-2, "Name or service not known"), "the host's name is not found: name or service not known"),
        (TimeoutError("timed out"), "no answer in time"),
        (FileNotFoundError(2, "No such file or directory", "ca.pem"), "no such file or directory: ca.pem"),
        (kafka.errors.KafkaConnectionError("111 ECONNREFUSED"), "connection refused"),
        (kafka.errors.KafkaConnectionError("socket disconnected"), "the broker closed the connection"),
        (kafka.errors.KafkaConnectionError(), "the broker closed the connection"),
        (kafka.errors.NodeNotReadyError("No node_id provided"), "no broker of it is connected"),
        (kafka.errors.NodeNotReadyError(2), "its broker 2 is not connected"),
        (
            kafka.errors.UnknownBrokerIdError(2),
            "its cluster does not list broker 2 now: it is down, or has no connection to the controller",
        ),
        (kafka.errors.UnknownBrokerIdError(None), "no broker of it is connected"),
        (kafka.errors.KafkaTimeoutError("Failed to bootstrap within 2000 ms"), "no answer in time"),
        (kafka.errors.TopicAuthorizationFailedError("orders"), "TopicAuthorizationFailed: orders"),
        (kafka.errors.NotEnoughReplicasError(), "NotEnoughReplicas"),
        (ValueError("no port"), "no port"),
    ],
)
def test_people_read_words_and_no_names_of_classes(error: Exception, said: str) -> None:
    assert in_words(error) == said


def test_what_came_without_an_end_is_handed_on() -> None:
    answers = iter([(b"one", None), (b"", None), (b"two", None)])
    received = connecting._all_that_came(lambda: next(answers))
    assert [received() for _ in range(3)] == [(b"one", None), (b"", None), (b"two", None)]


def test_a_refusal_names_user_and_mechanism_and_other_errors_are_left_alone() -> None:
    arguments = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "ann", "sasl_plain_password": "s3cret"}
    refused = explained(kafka.errors.SaslAuthenticationFailedError("SaslAuthenticationFailedError: no"), arguments)
    assert refused == "authentication failed for user ann with PLAIN: no"
    token = explained(NoToken("http://x", "c", "503"), {"sasl_mechanism": "OAUTHBEARER"})
    assert token == "authentication failed with OAUTHBEARER: no token from http://x for client c: 503"
    assert explained(kafka.errors.KafkaTimeoutError("late"), arguments) is None


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("https://ann:s3cret@there/token", "nonnumeric port: 's3cret@there'"),
        ("https://s3cret@there/token", "503"),
        ("https://ann:s3%63ret@there/token", "nobody is called ann:s3cret"),
        ("https://[ann:s3cret@there/token", "Invalid IPv6 URL"),
        ("https://there/token?client_secret=s3cret&x=1", "503"),
        ("https://there/token?client_secret=s3cret", "bad URL 'https://there/token?client_secret=s3cret'"),
    ],
)
def test_where_tokens_are_asked_for_is_named_without_who_logs_in_there(endpoint: str, reason: str) -> None:
    """It goes to the log of an engine with every attempt."""
    message = str(NoToken(endpoint, "shop", reason))
    assert "s3cret" not in message
    assert "there/token" in message


@pytest.mark.parametrize("arguments", [{}, {"ssl_context": ssl.create_default_context()}])
def test_who_accepts_and_says_nothing_is_not_told_to_speak_something_else(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, object]
) -> None:
    monkeypatch.setattr(connecting, "_PROBE_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        told = diagnosed(server, {"security_protocol": "PLAINTEXT", **arguments})
    assert told is not None
    assert told.startswith("accepts connections but did not answer as a Kafka broker in time")


def test_of_brokers_that_answer_and_not_this_request_it_is_not_said_that_they_are_none() -> None:
    """What changes topics waits for the controller: without one nothing is wrong with network, TLS or login."""
    with socket.create_server(("127.0.0.1", 0)) as broker:
        host, port = broker.getsockname()
        answering = threading.Thread(target=_answer_as_a_broker, args=(broker,))
        answering.start()
        settings = ClusterSettings("west", {"bootstrap.servers": f"{host}:{port}"})
        asked = cast(Connections, SimpleNamespace(lacking=None))
        with (
            pytest.raises(ClusterUnreachable) as unanswered,
            _errors_of(settings, asked, "sending CreateTopicsRequest"),
        ):
            raise kafka.errors.RequestTimedOutError("late")
        answering.join()
    assert "is security.protocol" not in str(unanswered.value)
    assert "sending CreateTopicsRequest" in str(unanswered.value)
    assert "has it an active controller" in str(unanswered.value)


def _answer_as_a_broker(server: socket.socket) -> None:
    """Answer two requests of one client, each with four bytes."""
    client, _ = server.accept()
    with client:
        for _ in range(2):
            (size,) = struct.unpack(">i", client.recv(4, socket.MSG_WAITALL))
            client.recv(size, socket.MSG_WAITALL)
            client.sendall(struct.pack(">ii", 4, 0))


def test_a_connection_on_which_no_tls_comes_about_is_closed() -> None:
    """kafka-python leaves it to the garbage collector, which says so at some other time."""
    with socket.create_server(("127.0.0.1", 0)) as server, leaks() as found:
        net = EventLoop()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        context = ssl.create_default_context()
        answering = threading.Thread(target=_answer_in_plain_words, args=(server,))
        answering.start()
        manager = Connections(net, bootstrap_servers=[address], security_protocol="SSL", ssl_context=context)
        with pytest.raises(TlsFailed, match="no handshake"):
            manager.run(_connect, manager)
        manager.close()
        net.close()
        answering.join()
    assert found == []


def test_a_broker_that_accepts_and_does_not_agree_on_tls_is_given_up_in_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One that is frozen; who waits for it would wait for as long as it is, without a word, and ask no other."""
    caplog.set_level(logging.CRITICAL + 1, "kafka")
    failures: list[BaseException] = []
    with socket.create_server(("127.0.0.1", 0)) as silent, leaks() as found:

        def connect() -> None:
            net = EventLoop()
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            context = ssl.create_default_context()
            manager = Connections(net, bootstrap_servers=[address], security_protocol="SSL", ssl_context=context)
            try:
                manager.bootstrap(200)
            except kafka.errors.KafkaTimeoutError as failure:
                failures.append(failure)
            manager.close()
            net.close()

        connecting_to_it = threading.Thread(target=connect, daemon=True)
        connecting_to_it.start()
        connecting_to_it.join(_STUCK_SECONDS)
    assert len(failures) == 1
    assert found == []


def test_connections_that_are_refused_until_time_is_up_are_closed(caplog: pytest.LogCaptureFixture) -> None:
    # A log record that is kept would keep the socket with its error.
    caplog.set_level(logging.CRITICAL + 1, "kafka")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with leaks() as found:
        net = EventLoop()
        manager = Connections(net, bootstrap_servers=[address])
        with pytest.raises(kafka.errors.KafkaTimeoutError):
            manager.bootstrap(200)
        net.close()
        del net, manager
    assert found == []


def test_what_is_still_connecting_when_its_loop_ends_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, leaks() as found:
        net, manager = _half_connected(server)
        manager.close()
        net.close()
        del net, manager
    assert found == []


def test_what_has_something_unsent_when_its_loop_ends_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, leaks() as found:
        net, manager = _half_connected(server)
        (connection,) = manager._conns.values()
        while connection.transport is None:
            net._poll_once(1)
        connection.transport.write(b"x" * (64 << 20))
        net._poll_once(1)
        assert connection.transport._write_buffer
        # What a connection does at its end that is not just being opened.
        connection.transport.close()
        net.close()
        del net, manager, connection
    assert found == []


def _half_connected(server: socket.socket) -> tuple[EventLoop, Connections]:
    """Begin to connect: the kernel has done so, the loop does not know it yet."""
    net = EventLoop()
    manager = Connections(net, bootstrap_servers=[f"127.0.0.1:{server.getsockname()[1]}"])
    (broker,) = manager.cluster.bootstrap_brokers()
    manager.get_connection(broker.node_id, refresh_metadata_on_err=False)
    net._poll_once(0)
    return net, manager


@contextmanager
def leaks() -> Iterator[list[str]]:
    """Collect what is told of sockets that nobody has closed."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        yield found
        gc.collect()
    found += (str(each.message) for each in told)


async def _connect(manager: Connections) -> None:
    (broker,) = manager.cluster.bootstrap_brokers()
    await manager.get_connection(broker.node_id, refresh_metadata_on_err=False)


def _answer_in_plain_words(server: socket.socket) -> None:
    with server.accept()[0] as one:
        one.recv(1 << 12)
        one.sendall(b"what?")


@pytest.mark.parametrize(("code", "is_nobodys"), [(socket.EAI_NONAME, True), (socket.EAI_AGAIN, False), (None, False)])
def test_a_name_is_nobodys_if_the_name_service_says_so_not_if_it_is_away(
    monkeypatch: pytest.MonkeyPatch,
    code: int | None,
    is_nobodys: bool,  # as in the table above
) -> None:
    def look_up(*_: object) -> list[object]:
        if code is None:
            return []
        raise socket.gaierror(code, "what it says")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert is_nobodys_name("west") is is_nobodys
