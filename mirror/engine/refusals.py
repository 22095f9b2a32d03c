"""Why an engine does not start, with the place in the file that says so."""

from __future__ import annotations

from pathlib import Path

from mirror.config.errors import ConfigError
from mirror.config.properties import read
from mirror.kafka.problems import ConnectionFailed
from mirror.kafka.security import UnsupportedSetting
from mirror.model.flow import Flow

# What a login that is refused is first looked for in; in this order.
_LOGIN_KEYS = ("sasl.jaas.config", "sasl.mechanism", "ssl.keystore.location", "security.protocol")


class SameCluster(ConfigError):
    """Source and target of a flow are one cluster: replicating would never end."""


class TooFewBrokers(ConfigError):
    """A topic that a flow cannot begin without is to have more replicas than its cluster has brokers."""


class NotReachable(ConfigError):
    """A cluster does not answer at the address that the file gives, or refuses the login that it gives."""


class NotCarriedOut(ConfigError):
    """The file asks for something that is planned and not carried out yet."""


def place_of(path: Path, alias: str, key: str = "bootstrap.servers") -> tuple[int | None, str]:
    """Return the line of a client property of a cluster in the file, and the key as it is written there.

    Raises
    ------
    ConfigError, FileNotFoundError
        if the file cannot be read any more.
    """
    file = read(path)
    forms = (f"{alias}.admin.{key}", f"{alias}.{key}", f"admin.{key}", key)
    given = next((form for form in forms if file.line_of(form) is not None), f"{alias}.{key}")
    return file.line_of(given), given


def not_reachable(path: Path, problem: ConnectionFailed) -> NotReachable:
    """Return that a cluster does not answer, or lets nobody in, with the place of address or login in the file."""
    if not problem.alias:
        return NotReachable(path, None, None, str(problem))
    if not problem.is_refusal:
        return NotReachable(path, *place_of(path, problem.alias), str(problem))
    logins = (place_of(path, problem.alias, key) for key in _LOGIN_KEYS)
    place = next((each for each in logins if each[0] is not None), place_of(path, problem.alias))
    advice = f"{problem.alias} answers, and refuses this login: correct it in the file, or have it let in"
    return NotReachable(path, *place, f"{problem}. {advice}")


def unusable(path: Path, problem: UnsupportedSetting) -> ConfigError:
    """Return what is wrong with a client property of a cluster, with its place in the file."""
    line, key = place_of(path, problem.alias, problem.key) if problem.alias else (None, problem.key)
    if line is None and problem.alias and problem.key.startswith(("sasl.", "ssl.")):
        # A key that is missing is missed by what the protocol asks for.
        line, _ = place_of(path, problem.alias, "security.protocol")
    return ConfigError(path, line, key, problem.problem)


def refused_transactions(path: Path, flow: Flow) -> NotCarriedOut:
    """Return that a copy with the source's offsets takes no transactions, with the place in the file."""
    file, key = read(path), "mirror.offsets"
    given = next((form for form in (f"{flow}.{key}", key) if file.line_of(form) is not None), key)
    why = (
        "the markers of transactions would shift the offsets, and copies with the source's offsets have each record "
        "once without them: leave exactly.once.source.support out, or write translated"
    )
    return NotCarriedOut(path, file.line_of(given), given, why)
