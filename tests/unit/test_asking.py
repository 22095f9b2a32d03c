"""Questions to a person: how long an answer is waited for, and what an answer that does not come is."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
import threading

import pytest

from mirror.asking import answered, limit_message


def test_an_answer_that_comes_is_taken_and_leaves_no_alarm_behind() -> None:
    assert answered(lambda: "yes", 60.0) == "yes"
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


def test_a_question_that_nobody_answers_is_over_after_its_time() -> None:
    assert answered(threading.Event().wait, 0.1) is None


def test_a_kernel_that_waits_on_behind_every_exception_is_interrupted_too() -> None:
    """As ipykernel waits for an answer: whatever is an Exception it writes to its log, and waits on."""

    def as_a_kernel() -> None:
        while True:
            with contextlib.suppress(Exception):
                signal.pause()

    assert answered(as_a_kernel, 0.1) is None


def test_the_answers_own_failure_is_not_taken_for_silence() -> None:
    with pytest.raises(EOFError):
        answered(lambda: (_ for _ in ()).throw(EOFError), 60.0)


@pytest.mark.parametrize(("typed", "found"), [("y\n", "True"), ("n\n", "False"), (None, "None")])
def test_at_a_real_terminal(typed: str | None, found: str) -> None:
    """With line editing, which handles signals by itself."""
    seconds = 600.0 if typed else 0.5
    code = f"import readline; from mirror.asking import yes_or_no; print('found', yes_or_no('So?', {seconds}))"
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", code], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    try:
        while b"found " not in said or not said.endswith(b"\n"):
            if typed and b"[y/N]" in said:
                os.write(ours, typed.encode())
                typed = None
            said += os.read(ours, 4096)
    finally:
        process.communicate(timeout=120)
        os.close(ours)
    assert f"found {found}" in said.decode()


@pytest.mark.parametrize(("seconds", "told"), [(900.0, "15 min"), (60.0, "1 min"), (90.0, "90 s"), (2.5, "2.5 s")])
def test_the_time_is_told_as_people_say_it(seconds: float, told: str) -> None:
    assert limit_message(seconds, "nothing is done") == f"(no answer within {told} is a no: nothing is done)"
