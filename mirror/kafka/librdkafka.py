"""Java client properties mapped to librdkafka's settings: addresses, TLS and SASL, as `security` maps them."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any

from kafka.net.sasl.oauth import AbstractTokenProvider

from mirror.kafka.security import UnsupportedSetting, client_arguments, identity_pem, trust_pem

_TLS_VERSIONS = "ssl.enabled.protocols"
_IDENTIFICATION = "ssl.endpoint.identification.algorithm"
# A token is asked for again so soon; who gives them knows how long each is good for.
_TOKEN_SECONDS = 60.0


def connection_settings(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return librdkafka's settings of the connection for resolved Java client ``properties``.

    With OAUTHBEARER there is a function among them: make them in the process that connects.

    Raises
    ------
    UnsupportedSetting
        naming the key, when a setting that concerns security cannot be mapped.
    """
    arguments = client_arguments(properties)
    protocol = arguments["security_protocol"]
    settings: dict[str, Any] = {
        "bootstrap.servers": ",".join(arguments["bootstrap_servers"]),
        "security.protocol": protocol,
    }
    if protocol.endswith("SSL"):
        settings |= _tls(properties, arguments["ssl_context"])
    if protocol.startswith("SASL"):
        settings |= _sasl(arguments)
    return settings


def _tls(properties: Mapping[str, str], context: ssl.SSLContext) -> dict[str, str]:
    if context.minimum_version is context.maximum_version:
        raise UnsupportedSetting(_TLS_VERSIONS, properties[_TLS_VERSIONS], "here both TLSv1.2 and TLSv1.3 are offered")
    settings = {_IDENTIFICATION: "https" if context.check_hostname else "none"}
    if (trusted := trust_pem(properties)) is not None:
        settings["ssl.ca.pem"] = trusted
    if (identity := identity_pem(properties)) is not None:
        pem, password = identity
        settings |= {"ssl.key.pem": pem, "ssl.certificate.pem": pem}
        settings |= {} if password is None else {"ssl.key.password": password}
    return settings


def _sasl(arguments: Mapping[str, Any]) -> dict[str, Any]:
    mechanism = arguments["sasl_mechanism"]
    if mechanism == "OAUTHBEARER":
        return {"sasl.mechanism": mechanism, "oauth_cb": _tokens(arguments["sasl_oauth_token_provider"])}
    if mechanism == "GSSAPI":
        raise UnsupportedSetting(
            "sasl.mechanism",
            mechanism,
            "confluent-kafka's packages are built without Kerberos; another is needed here, or `mirror run` with "
            "IdentityReplicationPolicy, which has it",
        )
    return {
        "sasl.mechanism": mechanism,
        "sasl.username": arguments["sasl_plain_username"],
        "sasl.password": arguments["sasl_plain_password"],
    }


def _tokens(provider: AbstractTokenProvider) -> Callable[[str], tuple[str, float]]:
    return lambda _: (provider.token(), time.time() + _TOKEN_SECONDS)
