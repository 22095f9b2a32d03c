"""The whole drill, as `make drill` runs it: two real clusters, real applications, every notebook."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mirror.drill.catalogue import find_runbook
from mirror.drill.judgement import judge
from mirror.evidence.journal import Event
from mirror.evidence.run_directory import RunDirectory
from mirror.evidence.run_evidence import read_evidence
from mirror.evidence.seals import broken, read_sealed
from mirror.model.verdict import Verdict

pytestmark = pytest.mark.drill

ROOT = Path(__file__).parents[2]
# How fast this machine is, is not what these tests are about: a slow one may be beyond the objectives of `make drill`.
PATIENT = ("lag_objective_seconds=60", "rpo_objective_seconds=30", "rto_objective_seconds=900")


def run_drill(runs: Path, *parameters: str) -> tuple[int, Path, str]:
    """Run the drill; return its exit status, the directory of the run and what it said."""
    argv = [sys.executable, "-m", "mirror", "runbook", "run", "failover-drill", "--runs-directory", str(runs)]
    options = [part for parameter in parameters for part in ("-p", parameter)]
    done = subprocess.run([*argv, *options], cwd=ROOT, capture_output=True, text=True, check=False)
    (directory,) = runs.iterdir()
    return done.returncode, directory, done.stdout + done.stderr


def outcome(directory: Path, step: str) -> dict[str, Any]:
    """Return what a step wrote down."""
    written: dict[str, Any] = json.loads((directory / "outcomes" / f"{step}.json").read_text())
    return written


def test_the_drill_passes_and_every_acknowledged_record_is_accounted_for(tmp_path: Path) -> None:
    """A cluster is lost under load; at the end nothing is lost, doubled, altered, and the account balances."""
    status, directory, said = run_drill(tmp_path, *PATIENT)
    assert status == 0, said
    failover, failback = outcome(directory, "failover_drill")["facts"], outcome(directory, "failback")["facts"]
    account = {line["class"]: line["records"] for line in failback["account"]}
    assert failback["balances"]
    assert sum(account.values()) == failback["acked_records"] > 0
    assert account["missing"] == account["stranded"] == account["not returned"] == 0
    assert account["mirrored"] > 0
    assert account["written on the standby"] > 0
    assert account["written after the return"] > 0
    # The frozen replicator left a tail behind, and all of it has come home.
    assert account["recovered"] == failover["rpo"]["records"] > 0
    assert {kind: failback["totals"][kind] for kind in ("lost", "duplicated", "reordered", "altered")} == {
        "lost": 0,
        "duplicated": 0,
        "reordered": 0,
        "altered": 0,
    }
    assert len(failover["rto_chain"]) == 6
    page = (directory / "report.html").read_text()
    for step in find_runbook("failover-drill", ROOT / "runbooks").runbook.steps:
        notebook = directory / "notebooks" / step.notebook
        assert notebook.exists()
        assert f"notebooks/{notebook.stem}.html" in page


@pytest.mark.soak
def test_a_seeded_loss_fails_the_drill_and_leaves_its_evidence(tmp_path: Path) -> None:
    """One record is removed from what was copied: the verification must find it, it alone, and stop the run."""
    status, directory, said = run_drill(tmp_path, "seeded_loss_records=1", "load_seconds=1", *PATIENT)
    assert status == 1, said
    assert (directory / "outcomes" / "verify.json").exists(), said
    assert [outcome(directory, step)["verdict"] for step in ("setup", "mirror")] == ["PASS", "PASS"]
    reading = read_sealed(RunDirectory.open(directory))
    (seeded,) = [entry.facts for entry in reading.entries if (entry.event, entry.step) == (Event.ACTION, "verify")]
    assert (seeded["topic"], seeded["partition"], seeded["removed_records"]) == ("east.orders", 0, 1)
    verify = outcome(directory, "verify")
    assert verify["verdict"] == "FAIL"
    (finding,) = verify["facts"]["findings"]
    assert (finding["kind"], finding["topic"], finding["partition"]) == ("missing", "orders", 0)
    assert finding["record_offset"] == 0
    (reason,) = verify["reasons"]
    found = re.fullmatch(r"east->west orders-0: 1 missing, 0 extra, 0 altered, 0 reordered of (\d+) records", reason)
    assert found, reason
    assert int(found[1]) > 1
    # What the run has left behind is as its journal has sealed it, and the end of that too.
    judgement = judge(read_evidence(RunDirectory.open(directory)))
    assert (reading.problem, broken(RunDirectory.open(directory), reading.entries)) == (None, ())
    assert judgement.verdict is Verdict.FAIL
    assert judgement.reasons[0] == f"Verify the copy, record by record: {reason}"
    verify["verdict"] = "PASS"
    (directory / "outcomes" / "verify.json").write_text(json.dumps(verify))
    judgement = judge(read_evidence(RunDirectory.open(directory)))
    assert judgement.verdict is Verdict.UNKNOWN
    assert "evidence altered: outcomes/verify.json" in judgement.reasons[0]
    assert not (directory / "outcomes" / "failover_drill.json").exists()
    kept = {"journal.jsonl", "lag.jsonl", "report.html", "run.json", "mirror.properties"}
    assert kept <= {path.name for path in directory.iterdir()}
    assert list((directory / "ledger" / "sends").glob("*.parquet"))
    assert (directory / "notebooks" / "30_verify.ipynb").exists()
