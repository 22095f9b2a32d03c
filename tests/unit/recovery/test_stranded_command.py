"""What `mirror stranded` prints of the records that it has saved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mirror.cli import app
from mirror.commands import recovery
from mirror.model.partition import TopicPartition
from mirror.recovery.failover import Lacking, Loss
from mirror.recovery.stranded_files import Stranded, StrandedFile

ORDERS, BILLS = TopicPartition("orders", 3), TopicPartition("bills", 0)


class Source:
    """A source whose records are saved."""

    def save_stretches(self, stretches: Mapping[TopicPartition, tuple[int, int]], directory: Path) -> Stranded:
        directory.mkdir()
        files = []
        for each, (start, end) in stretches.items():
            path = directory / f"{each}.jsonl"
            path.write_text("{}\n" * (end - start))
            files.append(StrandedFile(each, path, end - start, "0" * 64, end))
        return Stranded(directory, (), tuple(files))


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters=east,west\neast.bootstrap.servers=e:1\nwest.bootstrap.servers=w:1\neast->west.enabled=true"
    )
    loss = Loss((Lacking(ORDERS, 5, 7), Lacking(BILLS, 8, 9)), None)
    monkeypatch.setattr(recovery, "stranded_on", lambda _: (Source(), loss, ()))
    monkeypatch.setattr(Stranded, "problems", lambda _: [])
    return ["stranded", str(file), "--export", str(tmp_path / "saved")]


def test_what_is_saved_is_told_in_words_a_line_a_partition(arguments: list[str], tmp_path: Path) -> None:
    """It was a table of the manifest's field names, with a checksum of 64 digits."""
    done = CliRunner().invoke(app, arguments)
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines[-3:-1] == ["orders-3: 2 records in orders-3.jsonl", "bills-0: 1 record in bills-0.jsonl"]
    # A long path goes on in another line.
    assert f"Savedin{tmp_path / 'saved'}:3records" in "".join("".join(lines).split())
    assert "0000" not in done.stdout
    assert done.exit_code == 1


@pytest.mark.parametrize(("records", "is_explained"), [(2, True), (3, False)])
def test_fewer_records_than_offsets_are_explained(
    records: int, is_explained: bool, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three offsets were missing, and two records saved, without a word why."""
    monkeypatch.setattr(Stranded, "records", records)
    shown = " ".join(CliRunner().invoke(app, arguments).stdout.split())
    why = (
        "Offsets without a record to save: 1 (markers of transactions, aborted records, what a log cleaner has removed"
    )
    assert (why in shown) is is_explained


def test_programs_are_given_the_rows_of_the_manifest(arguments: list[str]) -> None:
    answer = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert [list(each) for each in answer["files"]] == [["topic", "partition", "name", "records", "sha256", "end"]] * 2
    assert (answer["verdict"], answer["removed"], answer["uncounted"]) == ("FAIL", [], [])
