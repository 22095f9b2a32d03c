"""What py4j logs of its own accord does not reach the terminal of whoever runs a command."""

from __future__ import annotations

import logging

import pytest
from py4j.java_gateway import GatewayClient, GatewayConnection  # type: ignore[import-untyped]

from mirror.spark import keep_py4j_quiet


def root_logger(monkeypatch: pytest.MonkeyPatch, *handlers: logging.Handler) -> logging.Logger:
    """Return the root logger with no other handlers: pytest adds some of its own before a test begins."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", list(handlers))
    monkeypatch.setattr(root, "filters", [])
    monkeypatch.setattr(logging.getLogger("py4j"), "propagate", True)
    return root


def interrupted() -> None:
    """Wait for the JVM, and be interrupted."""

    class Interrupted(GatewayConnection):  # type: ignore[misc]
        def __init__(self) -> None:
            self.socket = None

        def send_command(self, _: str) -> str:
            raise KeyboardInterrupt

    client = GatewayClient()
    client.deque.append(Interrupted())
    with pytest.raises(KeyboardInterrupt):
        client.send_command("c\n")


def test_ctrl_c_while_spark_works_prints_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = root_logger(monkeypatch)
    keep_py4j_quiet()
    interrupted()
    # Behind the interruption the root logger has a handler: py4j's own one is not to reach it.
    logging.getLogger("py4j.clientserver").error("Exception occurred while shutting down connection")
    assert capsys.readouterr().err == ""
    root.error("ours")
    assert "ours" in capsys.readouterr().err


def test_who_has_set_up_logging_is_told_what_py4j_logs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root_logger(monkeypatch, logging.StreamHandler())
    keep_py4j_quiet()
    interrupted()
    assert "KeyboardInterrupt" in capsys.readouterr().err
