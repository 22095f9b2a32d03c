"""In a log, a piece of work is told when it begins and when it is done."""

from __future__ import annotations

import io

from rich.console import Console

from mirror.lab.display import shown
from mirror.lab.progress import Progress


def test_work_is_told_once_at_its_beginning_and_once_at_its_end() -> None:
    stream = io.StringIO()
    with shown(Console(file=stream)) as show:
        for done in range(4):
            show(Progress("Kafka 4.3.1 jars", done, 3))
        show(Progress("[archive]", 0, 2))
    assert stream.getvalue() == "Kafka 4.3.1 jars: begun\nKafka 4.3.1 jars: done\n[archive]: begun\n"


def test_on_a_terminal_there_is_a_bar() -> None:
    stream = io.StringIO()
    with shown(Console(file=stream, force_terminal=True, width=100)) as show:
        show(Progress("Kafka 4.3.1 jars", 3, 3))
    assert "3/3" in stream.getvalue()
    assert "begun" not in stream.getvalue()
