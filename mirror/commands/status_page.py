"""What `mirror status` shows of flows: once, or again and again until somebody has seen enough."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from mirror.config.settings import FlowSettings, MirrorSettings
from mirror.control.flow_status import FlowStatus, PartitionStatus, worst_first
from mirror.control.gaps import iso_time
from mirror.control.status import look_at_all, observe
from mirror.control.tick import now_ms
from mirror.model.counts import first_of
from mirror.model.partition import TopicPartition
from mirror.model.state_values import stopped_reason
from mirror.recovery.fenced_side import FencedSide, look_at_fenced_side, with_fenced_side
from mirror.tables import MOST_ROWS, table
from mirror.terminal import Remark

_COLOURS: Final = {
    "RUNNING": "green",
    "STARTING": "yellow",
    "PAUSED": "yellow",
    "DEGRADED": "yellow",
    "STOPPED": "red",
    "FAILED": "red",
}
_MOST_REASONS = 10
_MOST_NAMED = 5
# An engine reports the first partitions that are stopped, and how many more there are.
_NUMBER = re.compile(r"\b\d+\b")
_MORE = re.compile(r"\.\.\. and ([\d,]+) more")
# Around the rows of a table, and below it how many more there are.
_LINES_OF_A_TABLE = 5
_FEWEST_ROWS = 3
_END_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a flow at one look, and who writes to its old cluster behind a failover."""

    status: FlowStatus
    side: FencedSide | None

    def as_json(self) -> dict[str, Any]:
        """Return the form that ``--json`` prints."""
        return self.status.as_json() | {"fenced_side": self.side and self.side.as_json()}


@dataclass(frozen=True, slots=True)
class Looking:
    """Looks at flows over connections that it keeps."""

    settings: MirrorSettings
    flows: Sequence[FlowSettings]

    def once(self) -> tuple[Seen, ...]:
        """Look once."""
        with observe(self.settings, {each.flow for each in self.flows}) as observers:
            return self._seen(look_at_all(observers))

    def again_and_again(self, seconds: float, show: Callable[[tuple[Seen, ...]], None], stop: threading.Event) -> None:
        """Look every so many seconds, and show what was seen, until ``stop`` is set; no cluster is waited for then."""
        failures: list[BaseException] = []

        def look() -> None:
            try:
                with observe(self.settings, {each.flow for each in self.flows}) as observers:
                    while not stop.is_set():
                        found = self._seen(look_at_all(observers))
                        if not stop.is_set():
                            show(found)
                        stop.wait(seconds)
            except BaseException as problem:  # noqa: BLE001  # raised below
                failures.append(problem)
                stop.set()

        looking = threading.Thread(target=look, name="status", daemon=True)
        looking.start()
        stop.wait()
        looking.join(timeout=_END_SECONDS)
        for failure in failures:
            raise failure

    def _seen(self, found: Sequence[FlowStatus]) -> tuple[Seen, ...]:
        flows = {each.flow: each for each in found}
        sides = [look_at_fenced_side(self.settings, *each, flows) for each in zip(self.flows, found, strict=True)]
        return tuple(Seen(with_fenced_side(one, side), side) for one, side in zip(found, sides, strict=True))


def watch(
    looking: Looking,
    file: Path,
    console: Console,
    seconds: float,
    stop: threading.Event,
    *,
    as_json: bool,
    show_all: bool,
) -> None:
    """Show flows until ``stop`` is set: in place in a terminal, elsewhere pages, or lines of JSON."""
    is_live = console.is_terminal and not as_json
    around: Live | nullcontext[None] = (
        Live(console=console, auto_refresh=False, vertical_overflow="ellipsis") if is_live else nullcontext()
    )

    def show(found: tuple[Seen, ...]) -> None:
        at = iso_time(now_ms())
        if as_json:
            sys.stdout.write(json.dumps({"at": at, "flows": [each.as_json() for each in found]}) + "\n")
            sys.stdout.flush()
            return
        rows = _rows_that_fit(console.height, found) if is_live else MOST_ROWS
        title = Text(f"{at}, every {seconds:g} s" + ("; Ctrl-C ends" if is_live else ""), style="dim")
        pages = [page(each.status, file, console.width, most_rows=None if show_all else rows) for each in found]
        if live is not None:
            live.update(Group(title, *pages), refresh=True)
        else:
            console.print(title, *pages)

    with around as live:
        looking.again_and_again(seconds, show, stop)


def page(status: FlowStatus, file: Path, width: int, *, most_rows: int | None = MOST_ROWS) -> RenderableType:
    """Return what is shown of a flow: state, reasons, notes, and at most so many partitions (None: all)."""
    lines: list[RenderableType] = [
        Text.assemble((str(status.flow), "bold"), "  ", (status.state, _COLOURS[status.state]))
    ]
    if status.claim is not None and not status.claim.is_released:
        led = "last led" if status.state == "STOPPED" else "led"
        lines.append(Remark(f"{led} by engine {status.claim.where}, term {status.claim.term}", "dim"))
    if status.fence is not None:
        lines.append(Remark(f"late requests of earlier engines: {status.fence}", "dim"))
    reasons = reasons_shown(status, most_named=None if most_rows is None else _MOST_NAMED)
    shown = reasons if most_rows is None else reasons[:_MOST_REASONS]
    lines += [Remark(_with_file(reason, file)) for reason in shown]
    if len(reasons) > len(shown):
        lines.append(Remark(f"… and {len(reasons) - len(shown):,} more reasons, --all shows them"))
    lines += [Remark(f"note: {_with_file(note, file)}", "dim") for note in status.notes]
    if status.partitions:
        rows = [partition_row(each) for each in worst_first(status.partitions)]
        lines.append(table(None, rows[:most_rows], width))
        if most_rows is not None and len(rows) > most_rows:
            lines.append(Text(f"… and {len(rows) - most_rows:,} more, --all shows them"))
    else:
        away = f"which partitions are mirrored is on record on {status.flow.target}, which does not answer"
        lines.append(Remark(away if status.state == "FAILED" else "no partition is mirrored yet"))
    return Group(*lines)


def reasons_shown(status: FlowStatus, *, most_named: int | None = _MOST_NAMED) -> list[str]:
    """Return the reasons of a state for people: why partitions are stopped once, with at most so many of their names.

    Reasons that differ in no more than the name of the partition are told as that of the first; unless all is to be
    told, also those that differ in offsets.
    """
    alike: dict[str, list[TopicPartition]] = {}
    told: dict[str, str] = {}
    for source, why in sorted(status.stops.items()):
        if (reason := stopped_reason(source, why)) in status.reasons:
            kind = why.replace(str(source), "")
            told[reason] = kind if most_named is None else _NUMBER.sub("", kind)
            alike.setdefault(told[reason], []).append(source)
    found: dict[str, None] = {}
    before = ""
    for reason in status.reasons:
        if reason in told:
            found[_stopped(alike[told[reason]], status.stops, most_named)] = None
        elif before in told and (more := _MORE.fullmatch(reason)):
            found[f"... and {more[1]} more partitions are stopped"] = None
        else:
            found[reason] = None
        before = reason
    return list(found)


def _stopped(sources: Sequence[TopicPartition], stops: Mapping[TopicPartition, str], most_named: int | None) -> str:
    first, *others = sources
    if not others:
        return stopped_reason(first, stops[first])
    named = first_of([*map(str, sources)], most_named or len(sources))
    is_one = len({stops[each].replace(str(each), "") for each in sources}) == 1
    return f"{named} are stopped{'' if is_one else f' for reasons like that of {first}'}: {stops[first]}"


def partition_row(each: PartitionStatus) -> Mapping[str, Any]:
    """Return the row of one partition."""
    troubles = (["paused"] if each.is_paused else []) + (["stopped"] if each.stopped is not None else [])
    troubles += [f"{each.gaps} gap{'s' if each.gaps > 1 else ''}"] if each.gaps else []
    troubles += [each.unanswered] if each.unanswered else []
    return {
        "partition": f"{each.topic}-{each.partition}",
        "lag in records": each.lag_records,
        "behind by": None if each.lag_seconds is None else duration(each.lag_seconds),
        "copied up to": each.upstream_next,
        "end of source": each.source_end,
        "trouble": ", ".join(troubles),
    }


def duration(seconds: float) -> str:
    """Return an age in the unit that tells most."""
    for most, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < most:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86_400:,.0f} days"


def _with_file(text: str, file: Path) -> str:
    """Return what is named with the file that was given, in a command: an engine may know it by another."""
    return re.sub(r"\bmirror (\w+) FILE\b", lambda found: f"mirror {found[1]} {file}", text)


def _rows_that_fit(height: int, found: Sequence[Seen]) -> int:
    """Return how many partitions of each flow fit a terminal; what does not is cut off at its end."""
    others = sum(
        3 + min(len(reasons_shown(each.status)), _MOST_REASONS) + len(each.status.notes) + _LINES_OF_A_TABLE
        for each in found
    )
    return max(_FEWEST_ROWS, (height - 2 - others) // max(1, len(found)))
