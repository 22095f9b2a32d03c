"""What kafka-python leaves to the garbage collector, and tests on real brokers allow it."""

from __future__ import annotations

import pytest


def allow_open_sockets(config: pytest.Config) -> None:
    """Allow for sockets that kafka-python does not close.

    When a connection or a TLS handshake fails, and, seldom, of a connection that was up. The collector tells it in
    whatever test runs by then.
    """
    for kind in ("socket", r"ssl\.SSLSocket"):
        config.addinivalue_line("filterwarnings", f"ignore:unclosed <{kind}:ResourceWarning")
