"""What is said to Kafka's programs by ``KAFKA_OPTS``, as its scripts take it: system properties of their JVM."""

from __future__ import annotations

import os
import re
import shlex

JAAS_FILE = "java.security.auth.login.config"
KRB5_FILE = "java.security.krb5.conf"


def system_property(name: str) -> str | None:
    """Return a system property that ``KAFKA_OPTS`` sets, the last one as in Java; None if it sets none."""
    try:
        options = shlex.split(os.environ.get("KAFKA_OPTS", ""))
    except ValueError:
        options = os.environ["KAFKA_OPTS"].split()
    found = [match[1] for each in options if (match := re.fullmatch(rf"-D{re.escape(name)}=(.*)", each))]
    return found[-1] if found else None
