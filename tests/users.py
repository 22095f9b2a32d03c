"""Users of a secured cluster: they log in with SCRAM-SHA-256 and may do what the cluster's ACLs say."""

from __future__ import annotations

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, though not marked as exported
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)

from mirror.lab.errors import BrokerError

_TIMEOUT_SECONDS = 60.0
_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"


def add_user(
    bootstrap_servers: str, name: str, password: str, mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256
) -> None:
    """Add a user to the cluster at these addresses, the usual ones, or give one that is there another password.

    Raises
    ------
    BrokerError
        if the cluster does not take it.
    """
    credential = ScramCredentialInfo(mechanism, 4096)
    _alter(bootstrap_servers, UserScramCredentialUpsertion(name, credential, password.encode()))


def client_properties(secured_servers: str, name: str, password: str) -> dict[str, str]:
    """Return the Java client properties with which a user logs in at a cluster's ``secured_servers``."""
    return {
        "bootstrap.servers": secured_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{_LOGIN} required username="{name}" password="{password}";',
    }


def _alter(bootstrap_servers: str, change: UserScramCredentialAlteration) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for user, done in admin.alter_user_scram_credentials([change]).items():
        try:
            done.result(_TIMEOUT_SECONDS)
        except KafkaException as problem:
            raise BrokerError(f"the user {user} was not changed at {bootstrap_servers}: {problem}") from problem
