"""Which settings are secret: their values are shown nowhere."""

from __future__ import annotations

HIDDEN = "(hidden)"
_WORDS = ("password", "jaas", "secret", "key", "passphrase", "token")
# What has such a word in its name and is none.
_OPEN = (
    *("key.converter", "key.serializer", "key.deserializer", "token.endpoint.url", "partitioner.ignore.keys"),
    *("keystore.location", "keystore.type", "keymanager.algorithm"),
)


def is_secret(key: str) -> bool:
    """Tell whether the value of a key of a file or client is a secret, or may hold one."""
    name = next((key.replace(each, "") for each in _OPEN if each in key), key)
    return any(word in name for word in _WORDS)


def shown(key: str, value: str) -> str:
    """Return a value for people, hidden if it is secret; a placeholder tells only where the secret is."""
    return HIDDEN if value and is_secret(key) and not (value.startswith("${") and value.endswith("}")) else value
