"""What ``mirror runbook`` prints when a run has come to its end, or has stopped before."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from mirror import terminal
from mirror.drill import commands, report
from mirror.drill.run_record import RunStatus
from mirror.drill.runner import RunResult
from mirror.evidence.run_directory import RunDirectory
from mirror.model.verdict import Verdict


@pytest.mark.parametrize("status", list(RunStatus))
def test_a_run_that_has_stopped_names_the_command_that_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], status: RunStatus
) -> None:
    run = RunDirectory.create(tmp_path, "tiny")
    monkeypatch.setattr(report, "write_report", lambda _: (tmp_path / "report.html", None))
    with pytest.raises(typer.Exit):
        commands._finish(terminal.console(), RunResult(run, status, Verdict.UNKNOWN, (), ()))
    is_named = f"mirror runbook resume {run.path} goes on with it" in capsys.readouterr().out
    assert is_named is (status is not RunStatus.COMPLETED)
