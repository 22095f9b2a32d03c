"""Getting connected: kafka-python's connections that hear the last thing a broker says, and words for failures.

Invariants:

(a) A broker that refuses a login says so and hangs up: kafka-python drops what came along with the end of the stream,
    and starts again until time is up. ``kafka/connecting.py`` hears it, and ends a start by what is refused for good;
    asking again could lock the account.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
import struct
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import kafka.errors
from kafka.net.inet import KafkaNetSocket
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

from mirror.kafka import codes, wire
from mirror.kafka.credentials import NoCredentials

_HUNG_UP = "the broker closed the connection"
#: What :func:`diagnosed` says of an address at which nobody listens.
NOBODY_LISTENS = os.strerror(errno.ECONNREFUSED)[:1].lower() + os.strerror(errno.ECONNREFUSED)[1:]
_PROBE_SECONDS = 1.0
_METADATA_OF_NOTHING = struct.pack(">hhihi?", 3, 4, 2, -1, 0, False)
_TLS_ALERT = b"\x15\x03"
# What alerts say of the client's certificate or of the protocols it offers (RFC 8446, 6.2), by OpenSSL's names.
_TLS_REFUSALS = frozenset(
    {
        "HANDSHAKE_FAILURE",
        "BAD_CERTIFICATE",
        "UNSUPPORTED_CERTIFICATE",
        "CERTIFICATE_REVOKED",
        "CERTIFICATE_EXPIRED",
        "CERTIFICATE_UNKNOWN",
        "CERTIFICATE_REQUIRED",
        "UNKNOWN_CA",
        "ACCESS_DENIED",
        "DECRYPT_ERROR",
        "PROTOCOL_VERSION",
        "INSUFFICIENT_SECURITY",
    }
)
_REFUSALS = (
    kafka.errors.SaslAuthenticationFailedError,
    kafka.errors.UnsupportedSaslMechanismError,
    kafka.errors.IllegalSaslStateError,
)


class TlsFailed(kafka.errors.KafkaConnectionError):  # type: ignore[misc]  # the library has no types
    """A connection on which no TLS came about; the message says why, for people."""


class CertificateRefused(TlsFailed):
    """A broker's certificate is not accepted here."""


class HandshakeRefused(TlsFailed):
    """A broker answers, and does not agree on TLS: it wants another certificate of the client, or another protocol.

    Not where whoever answers has failed itself, as one that stands before brokers which are gone.
    """


class EventLoop(NetworkSelector):  # type: ignore[misc]
    """kafka-python's event loop, which leaves no socket open that has been used in it.

    The library forgets a socket whose last request was not written whole when the loop is closed.
    """

    def __init__(self, **configs: Any) -> None:
        super().__init__(**configs)
        self._used: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    def register_event(self, fileobj: Any, event: Any, task: Any) -> None:
        """Wait for a socket as the library does, and remember it."""
        self._used.add(fileobj)
        super().register_event(fileobj, event, task)

    def close(self) -> None:
        """End the loop and close its sockets."""
        super().close()
        for used in list(self._used):
            used.close()


class _TlsTransport(KafkaSSLTransport):  # type: ignore[misc]
    """kafka-python's connection with TLS, which does not wait for ever for a broker that does not agree on it."""

    async def handshake(self, timeout_at: float | None = None) -> None:
        """Agree on TLS; a broker that is frozen accepts connections, and then says nothing.

        Raises
        ------
        KafkaTimeoutError
            at ``timeout_at``, by ``time.monotonic``.
        """
        while True:
            try:
                self._sock.do_handshake()
                return
            except ssl.SSLWantReadError:
                await self._net.wait_read(self._sock, timeout_at)
            except ssl.SSLWantWriteError:
                await self._net.wait_write(self._sock, timeout_at)


class Connections(KafkaConnectionManager):  # type: ignore[misc]
    """kafka-python's connections, with a refused login and a failed handshake told as such.

    A broker that refuses a login says so and hangs up. The library drops what it has read when the end of the stream
    comes along with it, so that all there was to know is "socket disconnected"; and its start tries again whatever
    the reason was, until time is up.
    """

    _refused: dict[Any, BaseException] | None = None
    #: Why the last connection that was tried had nothing to log in with; None if it had one, or needed none.
    lacking: NoCredentials | None = None

    def bootstrap(self, timeout_ms: float | None = None, refresh: bool = True) -> None:
        """Connect as the library does; what is refused for good ends it at once.

        Raises
        ------
        KafkaError
            when time is up, or with the refusal.
        """
        self._refused = {}
        try:
            super().bootstrap(timeout_ms, refresh)
        finally:
            # Later a refusal is tried again: the password may have been changed back, the certificate renewed.
            self._refused = None

    def get_connection(self, node_id: Any, *args: Any, **kwargs: Any) -> Any:
        """Return a connection; while this starts, none to a broker that has refused one."""
        if self._refused is not None and node_id in self._refused:
            raise self._refused[node_id]
        return super().get_connection(node_id, *args, **kwargs)

    async def ready(self, node_id: Any) -> Any:
        """Return a connection over which a request goes out when it is sent, and is not kept until there is one.

        Raises
        ------
        KafkaError
            if there is none.
        """
        connection = self.get_connection(node_id)
        await connection
        if connection._reauth.is_reauthenticating:
            raise kafka.errors.NodeNotReadyError(node_id)
        return connection

    async def _connect(self, node: Any, conn: Any, *args: Any, **kwargs: Any) -> None:
        def failed(error: BaseException) -> None:
            self.lacking = error if isinstance(error, NoCredentials) else None
            # A handshake that only broke off may be a broker that is just starting.
            if self._refused is not None and (
                is_refusal(error) or isinstance(error, CertificateRefused | NoCredentials)
            ):
                self._refused[node.node_id] = error

        def connected(_: Any) -> None:
            self.lacking = None

        conn.init_future.add_callback(connected)
        conn.init_future.add_errback(failed)
        await super()._connect(node, conn, *args, **kwargs)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        # As the library does, which leaves a socket open on which no TLS comes about.
        plain = await self._opened(node, timeout_at)
        if self.ssl_enabled:
            transport = _TlsTransport(self._net, plain, host=node.host, ssl_context=self.config["ssl_context"])
            handshake = transport.handshake(timeout_at)
        else:
            transport = KafkaTCPTransport(self._net, plain, host=node.host)
            handshake = transport.handshake()
        try:
            await handshake
        except BaseException as error:
            transport.close()
            if isinstance(error, OSError) and self.ssl_enabled:
                raise _tls_failure(error) from error
            raise
        transport._sock_recv = _all_that_came(transport._sock_recv)
        return transport

    async def _opened(self, node: Any, timeout_at: float | None) -> socket.socket:
        """Connect to the first address of a node that accepts it; the library leaves the sockets open that fail."""
        factory = KafkaNetSocket(self.config["proxy_url"])
        failure = kafka.errors.KafkaConnectionError("DNS Resolution failure")
        for family, kind, protocol, _, address in factory.dns_lookup(node.host, node.port):
            plain: socket.socket = factory.socket(family, kind, protocol)
            try:
                plain.setblocking(False)
                for option in self.config["socket_options"]:
                    plain.setsockopt(*option)
                await factory.sock_connect(self._net, plain, address, timeout_at=timeout_at)
                return plain
            except BaseException as error:
                plain.close()
                if isinstance(error, kafka.errors.KafkaTimeoutError):
                    raise kafka.errors.KafkaConnectionError("Connection timed out") from error
                if isinstance(error, OSError):
                    failure = kafka.errors.KafkaConnectionError(f"unable to connect: {error}")
                elif isinstance(error, kafka.errors.KafkaConnectionError):
                    failure = error
                else:
                    raise
        raise failure


def _all_that_came(
    receive: Callable[[], tuple[bytes, BaseException | None]],
) -> Callable[[], tuple[bytes, BaseException | None]]:
    """Hand out what was received before the error that came with it."""
    held: list[BaseException] = []

    def received() -> tuple[bytes, BaseException | None]:
        if held:
            return b"", held[0]
        content, error = receive()
        if error is not None and error.args and isinstance(error.args[0], ssl.SSLError):
            # With TLS 1.3 a broker looks at the client's certificate after the handshake.
            error = _tls_failure(error.args[0])
        if content and error is not None:
            held.append(error)
            return content, None
        return content, error

    return received


def is_refusal(error: BaseException) -> bool:
    """Tell whether an error comes of credentials or the way of logging in: who tries again may lock an account."""
    return isinstance(error, _REFUSALS)


def is_nobodys_name(host: str) -> bool:
    """Tell whether the name service says that there is no such host; not if it does not answer, as without a line."""
    try:
        socket.getaddrinfo(host, None)
    except socket.gaierror as error:
        return error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
    except OSError:
        return False
    return False


def _tls_failure(error: OSError) -> TlsFailed:
    if isinstance(error, ssl.SSLCertVerificationError):
        return CertificateRefused(tls_problem(error))
    return (HandshakeRefused if _alert_of(error) in _TLS_REFUSALS else TlsFailed)(tls_problem(error))


def _alert_of(error: OSError) -> str:
    """Return why the other side says that it hangs up, by OpenSSL's name; empty: it has said nothing."""
    return (getattr(error, "reason", None) or "").partition("ALERT_")[2]


def tls_problem(error: OSError) -> str:
    """Return why a TLS handshake failed, in words for people."""
    if isinstance(error, ssl.SSLCertVerificationError):
        # OpenSSL: 62 a name, 64 an address that the certificate does not bear; 9, 10 its time; the others trust.
        advice = {
            62: "the certificate must name the host that bootstrap.servers and advertised.listeners name",
            64: "the certificate must name the address that bootstrap.servers and advertised.listeners name",
            9: "look at the clocks",
            10: "renew it, or look at the clocks",
        }.get(error.verify_code, "is the authority that signed it in the trust store (ssl.truststore.*)?")
        message = error.verify_message.rstrip(".")
        return f"TLS: the broker's certificate is not accepted: {message}; {advice}"
    reason = (getattr(error, "reason", None) or "").replace("_", " ").lower()
    alert = _alert_of(error)
    if alert and alert not in _TLS_REFUSALS:
        return f"TLS: whoever answers there ends the handshake: {reason}; its log, or that of the broker, may say why"
    if alert:
        return (
            f"TLS: the broker refuses the handshake: {reason}; "
            "does it ask for a certificate (ssl.keystore.*), or for other ssl.enabled.protocols?"
        )
    return (
        f"TLS: no handshake ({reason or error}); does this address speak TLS at all? "
        "Without it, security.protocol is PLAINTEXT or SASL_PLAINTEXT"
    )


def explained(error: BaseException, arguments: Mapping[str, Any]) -> str | None:
    """Return why a broker let nobody in with connection ``arguments``; None for errors that do not tell.

    Passwords and tokens are never part of it.
    """
    mechanism = arguments.get("sasl_mechanism")
    if isinstance(error, kafka.errors.SaslAuthenticationFailedError):
        user = arguments.get("sasl_plain_username")
        message = str(error.args[0]) if error.args else ""
        message = message.removeprefix("SaslAuthenticationFailedError: ")
        return f"authentication failed{f' for user {user}' if user else ''} with {mechanism}: {message}"
    if isinstance(error, kafka.errors.UnsupportedSaslMechanismError):
        return f"the broker does not let anybody log in with sasl.mechanism={mechanism}"
    if isinstance(error, kafka.errors.IllegalSaslStateError):
        plain = str(arguments.get("security_protocol")).removeprefix("SASL_")
        return f"nobody logs in at this address; should security.protocol be {plain}?"
    if isinstance(error, NoCredentials):
        return f"authentication failed with {mechanism}: {error}"
    return str(error.args[0]) if isinstance(error, TlsFailed) else None


def _of_a_broker(error: BaseException) -> str:
    """Say which broker is meant: while one is down the others of its cluster may well be connected."""
    node = error.args[0] if error.args else None
    if not isinstance(node, int):
        return "no broker of it is connected"
    if isinstance(error, kafka.errors.UnknownBrokerIdError):
        return f"its cluster does not list broker {node} now: it is down, or has no connection to the controller"
    return f"its broker {node} is not connected"


def in_words(error: BaseException) -> str:
    """Return what an error of the network or of the library says, in words for people: no class names, no numbers."""
    text = " ".join(str(error).split())
    if isinstance(error, socket.gaierror):
        return f"the host's name is not found: {(error.strerror or text).lower()}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError):
        words = _of_the_system(error.errno) or error.strerror or text or "the connection failed"
        return f"{words}: {error.filename}" if error.filename else words
    if isinstance(error, kafka.errors.NodeNotReadyError | kafka.errors.UnknownBrokerIdError):
        return _of_a_broker(error)
    if not isinstance(error, kafka.errors.KafkaError):
        return text or type(error).__name__
    message = " ".join(map(str, error.args))
    message = message.removeprefix(type(error).__name__).removeprefix(": ")
    if isinstance(error, kafka.errors.KafkaTimeoutError | kafka.errors.RequestTimedOutError):
        return "no answer in time"
    if isinstance(error, kafka.errors.KafkaConnectionError):
        number = re.match(r"(?:\[Errno )?(\d+)\b", message)
        if message in ("", "socket disconnected"):
            return _HUNG_UP
        return (number and _of_the_system(int(number[1]))) or message
    if (code := getattr(error, "errno", None)) is not None and code != -1:
        return f"{codes.name(code)}: {message}" if message else codes.name(code)
    return message or "the connection failed"


def _of_the_system(number: int | None) -> str | None:
    """Return the system's words for one of its errors; None if it has none."""
    if number is None:
        return None
    if number in (errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED):
        return _HUNG_UP
    message = os.strerror(number)
    return None if message.startswith("Unknown error") else message[:1].lower() + message[1:]


def diagnosed(server: str, arguments: Mapping[str, Any], *, was_connected: bool = False) -> str | None:
    """Try an address once, plainly, for a reason that the library does not tell; None if there is nothing to say.

    ``was_connected``: whether the library was, with these arguments, so that who agrees on TLS speaks the protocol.

    It logs in nowhere. With TLS only the handshake is tried; without, two requests that every broker answers, unless
    it speaks TLS or wants a login first.
    """
    host, _, port = server.rpartition(":")
    host, context = host.strip("[]"), arguments.get("ssl_context")
    protocol = arguments["security_protocol"]
    try:
        with socket.create_connection((host, int(port)), timeout=_PROBE_SECONDS) as plain:
            try:
                if context is None:
                    return _asked(plain, protocol)
                context.wrap_socket(plain, server_hostname=host).close()
                if was_connected:
                    return None
            except TimeoutError:
                pass
            except OSError as error:
                return in_words(error) if context is None else tls_problem(error)
    except (OSError, ValueError) as error:
        return in_words(error)
    return (
        "accepts connections but did not answer as a Kafka broker in time; "
        f"is security.protocol={protocol} right for this address?"
    )


def _asked(plain: socket.socket, protocol: str) -> str | None:
    """Return what the answers to two requests say about a listener; None if they are those of a broker.

    Raises
    ------
    TimeoutError
        if it does not answer in time.
    """
    plain.sendall(wire.ping_request(1))
    head = plain.recv(4, socket.MSG_WAITALL)
    if head.startswith(_TLS_ALERT):
        over_tls = "SASL_SSL" if protocol.startswith("SASL") else "SSL"
        return f"this address speaks TLS; should security.protocol be {over_tls}?"
    if len(head) < 4:
        return f"hung up at the first request; is security.protocol={protocol} right for this address?"
    if protocol.startswith("SASL"):
        return None
    (size,) = struct.unpack(">i", head)
    plain.recv(min(size, 1 << 16), socket.MSG_WAITALL)
    try:
        plain.sendall(struct.pack(">i", len(_METADATA_OF_NOTHING)) + _METADATA_OF_NOTHING)
        answer = plain.recv(4, socket.MSG_WAITALL)
    except ConnectionError:
        answer = b""
    if not answer:
        return "hung up on who has not logged in; should security.protocol be SASL_PLAINTEXT, with sasl.mechanism?"
    return None
