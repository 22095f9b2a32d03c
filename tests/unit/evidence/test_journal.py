"""The journal is append-only and chained: whoever touches a line is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mirror.evidence.facts import FactError
from mirror.evidence.journal import GENESIS, Event, Journal, JournalBroken

AT = datetime(2026, 3, 14, 9, 26, 53, 250_000, tzinfo=UTC)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """A journal of five entries, at a fixed time."""
    journal = Journal(tmp_path / "journal.jsonl", now=lambda: AT, monotonic=lambda: 12.5)
    journal.append(Event.RUN_STARTED, facts={"runbook": "tiny"})
    for name in ("one", "two", "three"):
        journal.append(Event.STEP_STARTED, step=name, facts={"budget_seconds": 1.5})
    journal.append(Event.RUN_FINISHED)
    return journal


def lines(journal: Journal) -> list[str]:
    return journal.path.read_text(encoding="utf-8").splitlines(keepends=True)


def test_entries_are_read_back_as_they_were_written(journal: Journal) -> None:
    reading = journal.read()

    assert reading.problem is None
    assert [entry.n for entry in reading.entries] == [1, 2, 3, 4, 5]
    assert reading.entries[1].event is Event.STEP_STARTED
    assert reading.entries[1].step == "one"
    assert reading.entries[1].facts == {"budget_seconds": 1.5}
    assert reading.entries[1].at == AT
    assert reading.entries[1].at_ms == round(AT.timestamp() * 1000)
    assert reading.entries[1].monotonic_seconds == 12.5


def test_each_entry_names_the_hash_of_the_one_before(journal: Journal) -> None:
    entries = journal.read().entries

    assert entries[0].previous == GENESIS
    assert [later.previous for later in entries[1:]] == [earlier.hash for earlier in entries[:-1]]
    assert journal.read().head == entries[-1].hash


def altered(line: str) -> str:
    return line.replace("two", "2wo")


def resealed(line: str) -> str:
    """An altered line with a hash that fits its new content."""
    other = Journal(Path("unused"), now=lambda: AT, monotonic=lambda: 12.5)
    document = json.loads(line)
    entry = other._entry(document["n"] - 0, document["previous"], "2wo", Event(document["event"]), document["facts"])
    from mirror.evidence.journal import _line

    return _line(entry).decode()


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (lambda all_: [*all_[:2], altered(all_[2]), *all_[3:]], "line 3 (entry 3, step_started) was altered"),
        (lambda all_: [*all_[:2], resealed(all_[2]), *all_[3:]], "line 3 was altered or replaced"),
        (lambda all_: [*all_[:2], *all_[3:]], "line 3 is entry 4: entry 3 is missing before it"),
        (lambda all_: [*all_[:1], *all_[4:]], "line 2 is entry 5: entries 2 to 4 are missing before it"),
        (lambda all_: [*all_[:2], all_[1], *all_[2:]], "line 3 is entry 2: entry 3 was expected"),
        (lambda all_: [*all_[:2], "not json\n", *all_[3:]], "line 3 is not a journal entry"),
        (
            lambda all_: [*all_[:2], all_[2].replace(":", ": ", 1), *all_[3:]],
            "line 3 (entry 3, step_started) was altered",
        ),
        (lambda _: [], "is empty"),
    ],
    ids=[
        "altered",
        "altered and resealed",
        "removed",
        "several removed",
        "repeated",
        "overwritten",
        "reformatted",
        "emptied",
    ],
)
def test_a_touched_line_is_named(journal: Journal, tamper: Callable[[list[str]], list[str]], said: str) -> None:
    journal.path.write_text("".join(tamper(lines(journal))), encoding="utf-8")

    assert said in str(journal.read().problem)


def test_lines_removed_from_the_end_show_in_the_head(journal: Journal) -> None:
    """A shorter chain is whole in itself; that is why the report prints the head."""
    head = journal.read().head
    journal.path.write_text("".join(lines(journal)[:-1]), encoding="utf-8")

    assert journal.read().problem is None
    assert journal.read().head != head


def test_a_torn_last_line_is_no_break_and_is_kept_by_the_next_entry(journal: Journal) -> None:
    with journal.path.open("a", encoding="utf-8") as file:
        file.write('{"at":"2026-03-')

    assert journal.read().torn_tail == '{"at":"2026-03-'
    assert journal.read().problem is None

    journal.append(Event.RUN_RESUMED)

    assert [entry.event for entry in journal.read().entries[-2:]] == [Event.JOURNAL_MENDED, Event.RUN_RESUMED]
    assert journal.read().entries[-2].facts == {"torn_line": '{"at":"2026-03-'}
    assert journal.read().problem is None


def test_nothing_is_chained_to_a_line_that_is_no_entry(journal: Journal) -> None:
    with journal.path.open("a", encoding="utf-8") as file:
        file.write("not json\n")

    with pytest.raises(JournalBroken, match="line 6 is not a journal entry"):
        journal.append(Event.NOTE)


def test_two_writers_extend_one_chain(journal: Journal) -> None:
    """The orchestrating process and a kernel each have a Journal of their own on the same file."""
    other = Journal(journal.path)
    other.append(Event.FAULT_INJECTED, step="drill", facts={"cluster": "east"})
    journal.append(Event.NOTE)
    other.append(Event.FAULT_HEALED, step="drill")

    assert journal.read().problem is None
    assert len(journal.read().entries) == 8


def test_a_fact_that_json_cannot_hold_is_refused_before_anything_is_written(journal: Journal) -> None:
    before = lines(journal)

    with pytest.raises(FactError, match=r"facts\.lag is nan"):
        journal.append(Event.PROBE, facts={"lag": float("nan")})

    assert lines(journal) == before


def test_a_missing_journal_is_a_problem_not_an_empty_one(tmp_path: Path) -> None:
    assert Journal(tmp_path / "journal.jsonl").read().problem == "journal.jsonl is missing"
