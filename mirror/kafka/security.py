"""Java client properties mapped to kafka-python's keyword arguments: addresses, TLS and SASL."""

from __future__ import annotations

import base64
import http.client
import importlib.util
import json
import os
import re
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from mirror.config.secret_rules import HIDDEN
from mirror.config.secrets import shown, without_secrets
from mirror.kafka.credentials import NoCredentials
from mirror.kafka.jaas import BadJaas, Login, login_in_file, parse_login
from mirror.kafka.java_options import JAAS_FILE, system_property
from mirror.kafka.kerberos import KerberosLogin


class UnsupportedSetting(ValueError):
    """A client property that this engine cannot honour; ignoring it would weaken or break the connection.

    Attributes
    ----------
    alias
        the cluster whose it is; empty until who connects to one says so.
    problem
        what is wrong, without the key; what is secret of it is left out.
    """

    def __init__(self, key: str, value: str, remedy: str) -> None:
        self.key, self.alias = key, ""
        open_value = shown(key, value)
        self.problem = remedy if open_value in ("", HIDDEN) else f"{open_value!r}: {remedy}"
        super().__init__(f"{key}={open_value}: {remedy}")


def _login_of(address: str) -> str:
    """Return the password of an address, or who logs in there without one; empty: nobody."""
    try:
        parts = urllib.parse.urlsplit(address)
    except ValueError:
        return ""
    return parts.password or parts.username or ""


class NoToken(NoCredentials):
    """The OAuth server gives no token."""

    def __init__(self, endpoint: str, client: str, reason: str) -> None:
        # An address may bear a login, or a secret in its query; who cannot use it as it is repeats some of it.
        secret = _login_of(endpoint)
        for written in filter(None, (secret, urllib.parse.unquote(secret))):
            reason = reason.replace(written, HIDDEN)
        told = without_secrets(reason)
        super().__init__(f"no token from {without_secrets(endpoint)} for client {client}: {told}")


def arguments_of(alias: str, properties: Mapping[str, str]) -> dict[str, Any]:
    """Return :func:`client_arguments` for the cluster ``alias``.

    Raises
    ------
    UnsupportedSetting
        naming the key and the cluster.
    """
    try:
        return client_arguments(properties)
    except UnsupportedSetting as problem:
        problem.alias = alias
        raise


def client_arguments(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the connection arguments of kafka-python's clients for resolved Java client ``properties``.

    The keys are ``bootstrap_servers`` (a list of ``host:port``), ``security_protocol``, and where the protocol asks
    for them ``ssl_context`` and ``sasl_*``. Properties that don't concern the connection's security are left alone.
    The result holds an SSL context and perhaps a token provider: make it in the process that connects.

    Raises
    ------
    UnsupportedSetting
        naming the key, when a setting that concerns security cannot be mapped.
    """
    protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        raise UnsupportedSetting(
            "security.protocol", protocol, "expected one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"
        )
    arguments: dict[str, Any] = {
        "bootstrap_servers": _bootstrap_servers(properties),
        "security_protocol": protocol,
    }
    if protocol.endswith("SSL"):
        arguments["ssl_context"] = _ssl_context(properties)
    if protocol.startswith("SASL"):
        arguments |= _sasl_arguments(properties)
    return arguments


def _bootstrap_servers(properties: Mapping[str, str]) -> list[str]:
    servers = [server.strip() for server in properties.get("bootstrap.servers", "").split(",") if server.strip()]
    if not servers:
        raise UnsupportedSetting("bootstrap.servers", "", "missing; give at least one HOST:PORT")
    return servers


# --- TLS ---------------------------------------------------------------------------------------------------------

# The ways of saying "as usual" that Java's defaults spell out; anything else under these keys needs a Java class.
_JAVA_ONLY = {
    "ssl.provider": ("",),
    "ssl.engine.factory.class": ("",),
    "ssl.secure.random.implementation": ("",),
    "ssl.keymanager.algorithm": ("", "SunX509", "PKIX"),
    "ssl.trustmanager.algorithm": ("", "PKIX", "SunX509"),
    "ssl.cipher.suites": ("",),
}
_JAAS_SECTION = "KafkaClient"
_PEM_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
# What Java makes contexts of; which versions are offered ssl.enabled.protocols says, there as here.
_JAVA_CONTEXTS = ("TLS", "TLSv1.3", "TLSv1.2", "TLSv1.1", "TLSv1", "SSL", "SSLv3")
_TLS_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def _ssl_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    for key, usual in _JAVA_ONLY.items():
        value = properties.get(key, "").strip()
        if value not in usual:
            raise UnsupportedSetting(key, value, "only Java's default works here; remove the key")
    if (named := properties.get("ssl.protocol", "TLSv1.3").strip()) not in _JAVA_CONTEXTS:
        raise UnsupportedSetting("ssl.protocol", named, f"expected one of {', '.join(_JAVA_CONTEXTS)}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version, context.maximum_version = _tls_versions(properties)
    identification = properties.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    if identification not in ("", "https"):
        raise UnsupportedSetting("ssl.endpoint.identification.algorithm", identification, "expected https or empty")
    context.check_hostname = identification == "https"
    _load_trust(context, properties)
    _load_identity(context, properties)
    return context


def _tls_versions(properties: Mapping[str, str]) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    named = [name.strip() for name in properties.get("ssl.enabled.protocols", "TLSv1.2,TLSv1.3").split(",")]
    named = [name for name in named if name]
    unknown = [name for name in named if name not in _TLS_VERSIONS]
    if unknown or not named:
        raise UnsupportedSetting(
            "ssl.enabled.protocols",
            ",".join(named),
            "expected TLSv1.2, TLSv1.3 or both; older versions are not offered",
        )
    versions = [_TLS_VERSIONS[name] for name in named]
    return min(versions), max(versions)


def _load_trust(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    """Trust what the trust store holds; without one, what the system trusts, as Java trusts its own list."""
    trusted = trust_pem(properties)
    if trusted is None:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cadata=trusted)
    except (ssl.SSLError, ValueError) as problem:
        inline = "ssl.truststore.certificates"
        key = inline if properties.get(inline) else "ssl.truststore.location"
        value = "" if key == inline else properties[key]
        raise UnsupportedSetting(key, value, f"no certificate can be read from it: {_reason(problem)}") from None


def trust_pem(properties: Mapping[str, str]) -> str | None:
    """Return the certificates that are trusted; None: those that the system trusts.

    Raises
    ------
    UnsupportedSetting
        if the trust store cannot be read.
    """
    inline = properties.get("ssl.truststore.certificates")
    location = properties.get("ssl.truststore.location")
    if inline or not location:
        return inline or None
    kind = _store_type(properties, "ssl.truststore", location)
    if kind == "PEM":
        return _pem_file("ssl.truststore.location", location).replace("\ufffd", "?")
    changed_at = Path(location).stat().st_mtime_ns
    return _certificates_of_java_store(location, kind, properties.get("ssl.truststore.password"), changed_at)


def _load_identity(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    """Present the key store's certificate to brokers that ask for one."""
    identity = identity_pem(properties)
    if identity is None:
        return
    pem, password = identity
    asked: list[bool] = []

    def give_password() -> str:
        # Without an answer OpenSSL would ask at the terminal.
        asked.append(True)
        return password or ""

    try:
        _load_pem_identity(context, pem, give_password)
    except (ssl.SSLError, ValueError) as problem:
        location = properties.get("ssl.keystore.location", "") if not properties.get("ssl.keystore.key") else ""
        whose = f"the private key in {location}" if location else "the private key"
        if asked and not password:
            raise UnsupportedSetting("ssl.key.password", "", f"missing; {whose} is encrypted") from None
        if asked:
            raise UnsupportedSetting("ssl.key.password", "", f"{whose} cannot be opened with it") from None
        message = f"no private key with its certificate can be read from it: {_reason(problem)}"
        key = "ssl.keystore.location" if location else "ssl.keystore.key"
        raise UnsupportedSetting(key, location, message) from None


def _reason(problem: Exception) -> str:
    reason = getattr(problem, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else str(problem)


def _pem_file(key: str, location: str) -> str:
    try:
        return Path(location).read_text("ascii", errors="replace")
    except OSError as problem:
        raise UnsupportedSetting(key, location, f"it cannot be read: {problem.strerror}") from None


def identity_pem(properties: Mapping[str, str]) -> tuple[str, str | None] | None:
    """Return key and certificate chain, and the key's password if it has one; None if there are none.

    Raises
    ------
    UnsupportedSetting
        if the properties do not give them.
    """
    key_password = properties.get("ssl.key.password")
    chain, key = properties.get("ssl.keystore.certificate.chain"), properties.get("ssl.keystore.key")
    location = properties.get("ssl.keystore.location")
    if chain and key:
        return f"{key}\n{chain}\n", key_password
    if chain or key:
        raise UnsupportedSetting(
            "ssl.keystore.certificate.chain" if chain else "ssl.keystore.key",
            "",
            "ssl.keystore.key and ssl.keystore.certificate.chain go together; give both",
        )
    if not location:
        return None
    kind = _store_type(properties, "ssl.keystore", location)
    if kind == "PEM":
        return _pem_file("ssl.keystore.location", location), key_password
    store_password = properties.get("ssl.keystore.password", "")
    changed_at = Path(location).stat().st_mtime_ns
    return _identity_of_java_store(location, kind, store_password, key_password, changed_at), None


def without_files(properties: Mapping[str, str]) -> dict[str, str]:
    """Return client properties that mean the same on another machine: what their stores hold stands in them.

    A key table of Kerberos stays a path. The result holds private keys.

    Raises
    ------
    UnsupportedSetting
        if a store, or the file of logins that ``KAFKA_OPTS`` names, cannot be read.
    """
    stores = ("ssl.truststore.", "ssl.keystore.")
    protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    made = {key: value for key, value in properties.items() if not key.startswith(stores) and key != "ssl.key.password"}
    if protocol.endswith("SSL"):
        if (trusted := trust_pem(properties)) is not None:
            made |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": trusted}
        if (identity := identity_pem(properties)) is not None:
            pem, password = identity
            keys = "\n".join(_PEM_KEY.findall(pem))
            made |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": keys,
                "ssl.keystore.certificate.chain": _PEM_KEY.sub("", pem),
            }
            made |= {} if password is None else {"ssl.key.password": password}
    if protocol.startswith("SASL") and not properties.get("sasl.jaas.config"):
        made["sasl.jaas.config"] = _login(properties).as_text()
    return made


def _load_pem_identity(context: ssl.SSLContext, pem: str, password: Callable[[], str]) -> None:
    # Python's ssl loads a certificate chain from a file only; on Linux that need not be on a disk.
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("identity"), "w") as memory:  # noqa: PTH123 - it has no path
            memory.write(pem)
            memory.flush()
            context.load_cert_chain(f"/proc/self/fd/{memory.fileno()}", password=password)
        return
    # Elsewhere the file is private to this user and gone at once.
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "identity.pem"
        file.touch(mode=0o600)
        file.write_text(pem)
        context.load_cert_chain(file, password=password)


def _store_type(properties: Mapping[str, str], prefix: str, location: str) -> str:
    kind = properties.get(f"{prefix}.type", "JKS").strip().upper()
    if kind not in ("PEM", "JKS", "PKCS12"):
        raise UnsupportedSetting(f"{prefix}.type", kind, "expected PEM, JKS or PKCS12")
    if not Path(location).is_file():
        raise UnsupportedSetting(f"{prefix}.location", location, "no such file")
    return kind


# Reading a Java store starts a JVM or two; a process that connects often does it once per change of the file.
@lru_cache(maxsize=16)
def _certificates_of_java_store(location: str, kind: str, password: str | None, changed_at: int) -> str:  # noqa: ARG001
    """Return the certificates of a JKS or PKCS12 store as PEM, read by the JDK's keytool."""
    key = "ssl.truststore.location"
    argv = ["keytool", "-list", "-rfc", "-keystore", location, "-storetype", kind]
    if password is not None:
        argv += ["-storepass:env", "STORE_PASSWORD"]
    listing = _run_tool(argv, key, location, {"STORE_PASSWORD": password or ""})
    certificates = re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", listing, re.DOTALL)
    if not certificates:
        raise UnsupportedSetting(key, location, "the store holds no certificate")
    return "\n".join(certificates)


@lru_cache(maxsize=16)
def _identity_of_java_store(
    location: str,
    kind: str,
    store_password: str,
    key_password: str | None,
    changed_at: int,  # noqa: ARG001 - part of the cache's key
) -> str:
    """Return key and certificate chain of a JKS or PKCS12 store as one unencrypted PEM text.

    The JDK's keytool turns JKS into PKCS12, openssl turns PKCS12 into PEM; both read passwords from their environment,
    where other users don't see them.
    """
    key = "ssl.keystore.location"
    passwords = {"STORE_PASSWORD": store_password, "KEY_PASSWORD": key_password or store_password}
    with tempfile.TemporaryDirectory() as directory:
        store = location
        if kind == "JKS":
            store = str(Path(directory) / "identity.p12")
            alias = _key_alias(location, key, passwords)
            _run_tool(
                [
                    *("keytool", "-importkeystore", "-noprompt", "-srckeystore", location, "-destkeystore", store),
                    *("-deststoretype", "PKCS12", "-srcalias", alias, "-srcstorepass:env", "STORE_PASSWORD"),
                    *("-deststorepass:env", "STORE_PASSWORD", "-srckeypass:env", "KEY_PASSWORD"),
                    *("-destkeypass:env", "STORE_PASSWORD"),
                ],
                key,
                location,
                passwords,
            )
        return _run_tool(
            ["openssl", "pkcs12", "-in", store, "-nodes", "-passin", "env:STORE_PASSWORD"], key, location, passwords
        )


def _key_alias(location: str, key: str, passwords: Mapping[str, str]) -> str:
    """Return the name of the store's first private key."""
    listing = _run_tool(
        ["keytool", "-list", "-v", "-keystore", location, "-storepass:env", "STORE_PASSWORD"],
        key,
        location,
        {**passwords, "LC_ALL": "C"},
    )
    aliases: list[str] = re.findall(r"Alias name: (.+)", listing)
    kinds = re.findall(r"Entry type: (\w+)", listing)
    found = next((alias for alias, kind in zip(aliases, kinds, strict=True) if kind == "PrivateKeyEntry"), None)
    if found is None:
        raise UnsupportedSetting(key, location, "the store holds no private key")
    return found.strip()


def _run_tool(argv: list[str], key: str, location: str, environment: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(argv, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UnsupportedSetting(
            key, location, f"reading it needs {argv[0]}, which is not installed; convert the store to PEM"
        ) from None
    if done.returncode:
        # keytool tells what it is about to do before what went wrong, and to either of its outputs.
        lines = f"{done.stderr}\n{done.stdout}".strip().splitlines() or ["no reason given"]
        reason = next((line for line in lines if line.startswith("keytool error:")), lines[0])
        raise UnsupportedSetting(key, location, f"{argv[0]} cannot read it: {reason.removeprefix('keytool error: ')}")
    return done.stdout


# --- SASL --------------------------------------------------------------------------------------------------------

_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER")


def _sasl_arguments(properties: Mapping[str, str]) -> dict[str, Any]:
    mechanism = properties.get("sasl.mechanism", "GSSAPI").strip()
    for handler in ("sasl.client.callback.handler.class", "sasl.login.class"):
        if properties.get(handler):
            raise UnsupportedSetting(handler, properties[handler], "Java classes cannot be loaded here; remove the key")
    if mechanism not in _MECHANISMS:
        *others, last = _MECHANISMS
        raise UnsupportedSetting("sasl.mechanism", mechanism, f"expected {', '.join(others)} or {last}")
    options = _login(properties).options
    if mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        _refuse_login_handler(properties)
        return {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": _login_option(options, "username"),
            "sasl_plain_password": _login_option(options, "password"),
        }
    if mechanism == "GSSAPI":
        _refuse_login_handler(properties)
        if importlib.util.find_spec("gssapi") is None:
            raise UnsupportedSetting(
                "sasl.mechanism",
                mechanism,
                "this needs the package gssapi, which is not installed: pip install 'mirrorbook[kerberos]'; it is "
                "built from source, which on Debian needs apt-get install gcc libkrb5-dev python3-dev",
            )
        service = properties.get("sasl.kerberos.service.name") or options.get("serviceName", "kafka")
        return {"sasl_mechanism": mechanism, "sasl_kerberos_name": KerberosLogin.of(service, options)}
    return {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": _token_provider(properties, options)}


def _refuse_login_handler(properties: Mapping[str, str]) -> None:
    handler = properties.get("sasl.login.callback.handler.class")
    if handler:
        raise UnsupportedSetting("sasl.login.callback.handler.class", handler, "Java classes cannot be loaded here")


def _login(properties: Mapping[str, str]) -> Login:
    """Read the login module in ``sasl.jaas.config``, else in the file that ``KAFKA_OPTS`` names."""
    key = "sasl.jaas.config"
    text = properties.get(key)
    if not text and (file := system_property(JAAS_FILE)) is not None:
        try:
            return login_in_file(Path(file).read_text(encoding="utf-8"), _JAAS_SECTION)
        except (OSError, UnicodeDecodeError) as problem:
            raise UnsupportedSetting(JAAS_FILE, file, f"cannot be read: {problem}") from None
        except BadJaas as problem:
            raise UnsupportedSetting(JAAS_FILE, file, str(problem)) from None
    if not text:
        raise UnsupportedSetting(
            key,
            "",
            'missing; give LOGIN_MODULE required username="…" password="…"; or the like, or name a file of logins by '
            f"KAFKA_OPTS=-D{JAAS_FILE}=FILE",
        )
    try:
        return parse_login(text)
    except BadJaas as problem:
        raise UnsupportedSetting(key, text, f'{problem}; expected LOGIN_MODULE required KEY="VALUE" …;') from None


def _login_option(options: Mapping[str, str], name: str) -> str:
    if name not in options:
        raise UnsupportedSetting("sasl.jaas.config", "(hidden)", f'the login module lacks {name}="…"')
    return options[name]


def _token_provider(properties: Mapping[str, str], options: Mapping[str, str]) -> AbstractTokenProvider:
    endpoint = properties.get("sasl.oauthbearer.token.endpoint.url")
    if endpoint:
        credentials = "sasl.oauthbearer.client.credentials"
        client = properties.get(f"{credentials}.client.id") or options.get("clientId")
        secret = properties.get(f"{credentials}.client.secret") or options.get("clientSecret")
        if not client or secret is None:
            raise UnsupportedSetting("sasl.jaas.config", "(hidden)", "the login module lacks clientId or clientSecret")
        scope = properties.get("sasl.oauthbearer.scope") or options.get("scope")
        return ClientCredentials(endpoint, client, secret, scope)
    subject = options.get("unsecuredLoginStringClaim_sub")
    if subject:
        return UnsecuredTokens(subject)
    raise UnsupportedSetting(
        "sasl.oauthbearer.token.endpoint.url", "", "missing; where are tokens for clientId and clientSecret given out?"
    )


@dataclass
class ClientCredentials(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens from an OAuth 2 server for a client id and secret, fetched anew when most of their life has passed."""

    endpoint: str
    client: str
    secret: str = field(repr=False)
    scope: str | None = None
    clock: Callable[[], float] = time.monotonic
    _token: str | None = field(default=None, repr=False)
    _renew_at: float = 0.0

    def token(self) -> str:
        """Return a token that is valid for some time yet."""
        if self._token is None or self.clock() >= self._renew_at:
            answer = self._ask()
            self._token = str(answer["access_token"])
            # Java's client renews at 80 % of the life time too (sasl.login.refresh.window.factor).
            self._renew_at = self.clock() + 0.8 * float(answer.get("expires_in", 60))
        return self._token

    def __post_init__(self) -> None:
        """Refuse addresses that are not the web's."""
        if not self.endpoint.startswith(("https://", "http://")):
            raise UnsupportedSetting(
                "sasl.oauthbearer.token.endpoint.url", self.endpoint, "expected an https:// address"
            )

    def _ask(self) -> Mapping[str, Any]:
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        basic = base64.b64encode(f"{self.client}:{self.secret}".encode()).decode()
        request = urllib.request.Request(  # noqa: S310 - an https address, see above
            self.endpoint,
            urllib.parse.urlencode(form).encode(),
            {"Authorization": f"Basic {basic}", "Accept": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310
                answer: Any = json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                raise NoToken(self.endpoint, self.client, str(error)) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoToken(self.endpoint, self.client, str(error) or type(error).__name__) from error
        if not isinstance(answer, dict) or "access_token" not in answer:
            refusal = answer.get("error") if isinstance(answer, dict) else None
            raise NoToken(self.endpoint, self.client, str(refusal or "its answer has no access_token"))
        return answer


@dataclass(frozen=True)
class UnsecuredTokens(AbstractTokenProvider):  # type: ignore[misc]
    """Unsigned tokens, as Kafka's default login makes from ``unsecuredLoginStringClaim_sub``; for tests only."""

    subject: str
    clock: Callable[[], float] = time.time

    def token(self) -> str:
        """Return a token for the subject that is valid for an hour."""
        # Whole seconds: brokers refuse what was issued in a later part of their own millisecond.
        now = int(self.clock())
        parts = ({"alg": "none"}, {"sub": self.subject, "iat": now, "exp": now + 3600})
        header, claims = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
        return f"{header}.{claims}."
