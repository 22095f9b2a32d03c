"""``--spark-conf KEY=VALUE``: settings of Spark from the command line, and what of them is refused.

Invariants:

(a) ``spark-submit`` gets Spark's settings as arguments, which everybody may read, so secrets are set on the context
    alone; a standalone worker hands them to its executors in their environment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mirror.config.providers import (
    AllowedPaths,
    ConfigProvider,
    EnvVarConfigProvider,
    FileConfigProvider,
    ProviderProblem,
    replace_placeholders,
)
from mirror.model.java_regex import compile_java

# As Spark's own spark.redaction.regex has it; names of files are none.
_SECRET = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)
_FILE = re.compile(r"file$", re.IGNORECASE)
# What tasks depend on, and what has an option of its own.
_FIXED = {
    "spark.master": "--master says it",
    "spark.app.name": "it is always the same",
    "spark.submit.deployMode": "the driver is this process",
    "spark.speculation": "a second attempt of a task would write everything twice",
    "spark.python.daemon.module": "workers are started by this engine's own",
    "spark.io.encryption.enabled": "it is always on: what tasks are handed may hold passwords",
}
# As Spark reads --master.
_MASTER = re.compile(
    r"local|local\[(\*|[1-9]\d*)(,\s*[1-9]\d*)?\]|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|spark://\S+:\d+(,\S+:\d+)*|yarn|k8s://\S+"
)
_AUTHENTICATE, _ENCRYPT = "spark.authenticate", "spark.network.crypto.enabled"
#: Where the cluster's own secret is expected; YARN and Kubernetes make one for each application.
SHARED_SECRET = "spark.authenticate.secret"  # noqa: S105  # a key


class BadSparkConf(ValueError):
    """A setting of Spark that cannot be taken; the message names it, says why and shows no secret."""


def is_secret(key: str) -> bool:
    """Tell whether the value of a setting of Spark is a secret."""
    return _SECRET.search(key) is not None and _FILE.search(key) is None


def read_spark_conf(given: Sequence[str]) -> dict[str, str]:
    """Return settings given as ``KEY=VALUE``, with ``${env:NAME}`` and ``${file:PATH:KEY}`` replaced.

    Raises
    ------
    BadSparkConf
        for the first that cannot be taken.
    """
    settings: dict[str, str] = {}
    available: dict[str, ConfigProvider] = {
        "env": EnvVarConfigProvider(compile_java(".*")),
        "file": FileConfigProvider(AllowedPaths(None)),
    }
    for each in given:
        key, equals, value = each.partition("=")
        key = key.strip()
        if not equals or not key.startswith("spark."):
            # Not shown whole: it may be the end of a secret.
            raise BadSparkConf(f"--spark-conf {key if key.startswith('spark.') else '…'}: write spark.KEY=VALUE")
        if key in _FIXED:
            raise BadSparkConf(f"--spark-conf {key}: it cannot be set; {_FIXED[key]}")
        try:
            settings[key] = replace_placeholders({key: value}, available)[key].strip()
        except ProviderProblem as problem:
            raise BadSparkConf(f"--spark-conf {key}: {problem.message}") from problem
        if is_secret(key) and (value == settings[key] and value):
            reason = "is not set" if value.startswith("${") else "everybody who lists processes would read it"
            raise BadSparkConf(f"--spark-conf {key}: {reason}; write {key}=${{env:NAME}} or ${{file:PATH:KEY}}")
    return settings


def is_local(master: str | None) -> bool:
    """Tell whether a Spark master is threads of a JVM on this machine, so that nothing crosses a network."""
    return master is None or re.fullmatch(r"local(\[.*\])?", master) is not None


def with_encryption(master: str | None, settings: Mapping[str, str], *, has_secrets: bool) -> dict[str, str]:
    """Return the settings with what encrypts Spark's own traffic, if ``has_secrets`` tells that tasks are handed some.

    Also if the cluster's own secret is given: where a cluster asks for it, nobody gets in without logging in.

    Raises
    ------
    BadSparkConf
        if they would go over the network as they are, and nobody has said that they may; if Spark has no such master.
    """
    chosen = dict(settings)
    if master is not None and _MASTER.fullmatch(master) is None:
        raise BadSparkConf(
            f"--master {master!r}: Spark knows no such master; write local[N], spark://HOST:PORT, yarn or k8s://URL"
        )
    if is_local(master):
        return chosen
    if _AUTHENTICATE not in chosen:
        makes_one = master is not None and master.startswith(("yarn", "k8s://"))
        if SHARED_SECRET in chosen or (makes_one and has_secrets):
            chosen[_AUTHENTICATE] = "true"
        elif has_secrets:
            raise BadSparkConf(
                f"--master {master}: logins of the file would go over the network as they are. Give the cluster's own "
                f"secret, --spark-conf {SHARED_SECRET}=${{env:NAME}}, or say that they may: "
                f"--spark-conf {_AUTHENTICATE}=false"
            )
    if chosen.get(_AUTHENTICATE, "").lower() == "true":
        chosen.setdefault(_ENCRYPT, "true")
    return chosen
