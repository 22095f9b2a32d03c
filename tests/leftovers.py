"""What kafka-python leaves to the garbage collector, and tests on real brokers allow it."""

from __future__ import annotations

import pytest


def allow_open_sockets(config: pytest.Config) -> None:
    """Allow for sockets that kafka-python does not close when a connection or a TLS handshake fails."""
    for kind in (r"socket.*laddr=.'0\.0\.0\.0'", r"ssl\.SSLSocket"):
        config.addinivalue_line("filterwarnings", f"ignore:unclosed <{kind}:ResourceWarning")
