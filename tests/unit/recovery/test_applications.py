"""Commands of a file stop, start and probe the applications; one that fails or hangs is told with what it said."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mirror.config.errors import ConfigError
from mirror.recovery.applications import Commands, Done, Nobody, NotDone, Person, Unobserved, is_word

ALIASES = ("east", "west")


def commands(tmp_path: Path, text: str) -> Commands:
    file = tmp_path / "applications.toml"
    file.write_text(text)
    return Commands.load(file, "east->west", ALIASES)


def python(code: str) -> str:
    """Return a TOML list that runs some Python."""
    return f"[{sys.executable!r}, '-c', '''{code}''']"


def test_a_command_is_told_what_it_is_about_and_what_it_prints_is_kept(tmp_path: Path) -> None:
    code = 'import os; print(os.environ["MIRROR_CLUSTER"], os.environ["MIRROR_FLOW"])'
    found = commands(tmp_path, f"[clusters.east]\nstop = {python(code)}").stop("east")
    assert isinstance(found, Done)
    assert found.detail == "east east->west"


@pytest.mark.parametrize(
    ("code", "reason", "output"),
    [
        ('print("no rights"); raise SystemExit(3)', "ended with 3", "no rights"),
        ('import time; print("begun", flush=True); time.sleep(60)', "took longer than 1 s", "begun"),
        ('import os; print("begun", flush=True); os.kill(os.getpid(), 9)', "was ended by SIGKILL", "begun"),
    ],
)
def test_a_command_that_fails_or_hangs_is_refused_with_what_it_said(
    tmp_path: Path, code: str, reason: str, output: str
) -> None:
    found = commands(tmp_path, f"timeout_seconds = 1\n[clusters.east]\nstop = {python(code)}").stop("east")
    assert isinstance(found, NotDone)
    assert reason in found.reason
    assert (found.output, str(found)[-len(output) :]) == (output, output)


@pytest.mark.parametrize("status", [0, 3])
def test_of_what_a_command_prints_only_the_end_is_kept(tmp_path: Path, status: int) -> None:
    code = f'import sys; sys.stdout.write("x" * 10_000_000 + " the end"); sys.exit({status})'
    found = commands(tmp_path, f"[clusters.east]\nstop = {python(code)}").stop("east")
    kept = found.detail if isinstance(found, Done) else found.output if isinstance(found, NotDone) else ""
    assert isinstance(found, NotDone if status else Done)
    assert kept.endswith("x the end")
    assert kept.startswith("(the end of 10,000,008 bytes) x")
    assert len(kept) < 2100


@pytest.mark.parametrize(
    "secret",
    [
        pytest.param("token=" + "hunter2" * 500, id="a token"),
        pytest.param("-----BEGIN PRIVATE KEY-----\n" + "hunter2\n" * 500 + "-----END PRIVATE KEY-----", id="a key"),
    ],
)
def test_a_secret_that_begins_before_what_is_kept_is_not_kept(secret: str, tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.write_text(secret + "\ndone" * 200)
    code = f"import pathlib; print(pathlib.Path({str(output)!r}).read_text())"
    found = commands(tmp_path, f"[clusters.east]\nstop = {python(code)}").stop("east")
    assert isinstance(found, Done)
    assert "hunter2" not in found.detail
    assert found.detail.endswith("done")


def test_secrets_that_a_command_prints_or_is_given_are_not_kept(tmp_path: Path) -> None:
    code = "import sys; print(*sys.argv[1:]); sys.exit(1)"
    given = ("password=hunter2", "https://shop:hunter2@example.com", "--password", "hunter2", "x-token: hunter2")
    given += ("pwd=hunter2", 'secret=a"hunter2', "PGPASSWORD='a hunter2' psql", "--password", "a'hunter2")
    given += ('password = "a\\"hunter2"', "https://shop:a@hunter2@example.com", "Authorization: Token hunter2")
    given += (r'{"m":"{\"password\": \"hunter2\"}"}', "-----BEGIN PRIVATE KEY-----hunter2-----END PRIVATE KEY-----")
    stop = json.dumps([sys.executable, "-c", code, *given])
    found = commands(tmp_path, f"[clusters.east]\nstop = {stop}").stop("east")
    assert isinstance(found, NotDone)
    assert "hunter2" not in str(found)
    assert "password=(hidden) https://(hidden)@example.com --password (hidden) x-token: (hidden)" in found.output


@pytest.mark.parametrize("program", ["no-such-command", "/no/such/command", "."])
def test_a_command_that_is_not_there_is_refused_before_any_is_run(tmp_path: Path, program: str) -> None:
    with pytest.raises(ConfigError, match="is no program that can be run here") as wrong:
        commands(tmp_path, f"[clusters.west]\nstart = '{program} --now'")
    assert wrong.value.key == "clusters.west.start"


@pytest.mark.parametrize("command", ["PGPASSWORD=hunter2 psql", "PIN=hunter2 psql", "'PIN=a hunter2' psql"])
def test_a_variable_before_a_command_is_refused_without_its_value(tmp_path: Path, command: str) -> None:
    with pytest.raises(ConfigError, match="put `env` before it") as wrong:
        commands(tmp_path, f'[clusters.west]\nstop = "{command}"')
    assert "hunter2" not in str(wrong.value)
    assert command.partition("=")[0].strip("'") in str(wrong.value)


def test_a_whole_line_given_as_the_program_is_refused_without_its_secret(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no program that can be run here") as wrong:
        commands(tmp_path, '[clusters.west]\nstop = ["psql --password hunter2"]')
    assert "hunter2" not in str(wrong.value)


def test_a_command_that_is_gone_when_it_is_to_be_run_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "stop-shop"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    shop = commands(tmp_path, f"[clusters.east]\nstop = '{program} --now'")
    program.unlink()
    found = shop.stop("east")
    assert isinstance(found, NotDone)
    assert "stop-shop --now` cannot be run" in found.reason


def test_what_a_command_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    """A start that leaves a service behind, which has inherited its output."""
    code = 'import subprocess, sys; print(subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE).pid)'
    found = commands(tmp_path, f"timeout_seconds = 20\n[clusters.west]\nstart = {python(code)}").start("west")
    assert isinstance(found, Done)
    assert found.detail.isdigit()


def test_what_has_no_command_is_not_observed(tmp_path: Path) -> None:
    found = commands(tmp_path, "")
    assert isinstance(found.stop("east"), Unobserved)
    assert isinstance(found.first_write("west", 0), Unobserved)
    assert isinstance(found.first_reads("west", ["audit"], 0)["audit"], Unobserved)


def test_a_probe_is_asked_until_it_tells_of_all(tmp_path: Path) -> None:
    """The first time it has seen one group, then both; of the first write it never says anything."""
    seen = tmp_path / "seen"
    code = (
        f"import json, os, pathlib; p = pathlib.Path({str(seen)!r}); again = p.exists(); p.touch(); "
        'groups = {"audit": 7} | ({"billing": 9} if again else {}); '
        'assert json.loads(os.environ["MIRROR_GROUPS"]) in (["audit", "billing"], []); '
        'assert os.environ["MIRROR_SINCE_MS"] == "5"; print(json.dumps({"groups": groups}))'
    )
    probe = f"[clusters.west]\nprobe = {python(code)}"
    assert commands(tmp_path, f"service_seconds = 60\n{probe}").first_reads("west", ["audit", "billing"], 5) == {
        "audit": Done("the probe says so", 7),
        "billing": Done("the probe says so", 9),
    }
    write = commands(tmp_path, f"service_seconds = 0.1\n{probe}").first_write("west", 5)
    assert isinstance(write, NotDone)
    assert "not within 0.1 s" in write.reason


def test_a_probe_that_fails_is_told_of_each_group_in_a_line_and_its_traceback_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The traceback stood in the step's result once a group."""
    caplog.set_level(logging.DEBUG, "mirror.recovery.applications")
    found = commands(tmp_path, f"service_seconds = 0.1\n[clusters.west]\nprobe = {python('{}[1]')}")
    reads = found.first_reads("west", ["audit", "billing"], 5)
    for each in reads.values():
        assert isinstance(each, NotDone)
        assert each.reason.endswith(" ended with 1")
        assert each.output == "KeyError: 1"
    (logged,) = caplog.messages
    assert "the probe of west said: Traceback (most recent call last):" in logged


@pytest.mark.parametrize(
    ("at_ms", "why"),
    [
        (1_800_000_000_000 - 3_600_000, "is 3,600 s before MIRROR_SINCE_MS: is it that of the old cluster"),
        (253_402_300_799_999, "s ahead of this machine's clock"),
    ],
)
def test_a_moment_from_before_or_from_times_to_come_is_not_taken(tmp_path: Path, at_ms: int, why: str) -> None:
    """A probe that tells of the last read on the old cluster passed for one of the new."""
    since_ms = 1_800_000_000_000
    code = f'import json; print(json.dumps({{"first_write_at_ms": {at_ms}, "groups": {{"billing": {at_ms}}}}}))'
    found = commands(tmp_path, f"service_seconds = 0.1\n[clusters.west]\nprobe = {python(code)}")
    found = replace(found, now_ms=lambda: since_ms + 60_000)
    for answer in (found.first_write("west", since_ms), found.first_reads("west", ["billing"], since_ms)["billing"]):
        assert isinstance(answer, NotDone)
        assert why in answer.reason


@pytest.mark.parametrize("at_ms", [1_800_000_000_000 - 5_000, 1_800_000_065_000])
def test_clocks_may_be_some_seconds_apart(tmp_path: Path, at_ms: int) -> None:
    code = f'import json; print(json.dumps({{"first_write_at_ms": {at_ms}}}))'
    found = commands(tmp_path, f"[clusters.west]\nprobe = {python(code)}")
    found = replace(found, now_ms=lambda: 1_800_000_060_000)
    assert found.first_write("west", 1_800_000_000_000) == Done("the probe says so", at_ms)


@pytest.mark.parametrize("printed", ["", "all is well"])
def test_a_probe_that_only_ends_well_is_taken_at_its_word_which_the_cluster_is_asked_about(
    tmp_path: Path, printed: str
) -> None:
    found = commands(tmp_path, f"[clusters.west]\nprobe = {python(f'print({printed!r})'.replace(chr(39), chr(34)))}")
    write = found.first_write("west", 5)
    (read,) = found.first_reads("west", ["billing"], 5).values()
    assert is_word(write)
    assert is_word(read)


def test_what_a_probe_says_beside_its_answer_is_not_the_answer(tmp_path: Path) -> None:
    """Java says on its standard error which options it has picked up."""
    code = 'import sys; print("Picked up JAVA_TOOL_OPTIONS", file=sys.stderr); print("{}")'
    found = commands(tmp_path, f"service_seconds = 0.1\n[clusters.west]\nprobe = {python(code)}")
    write = found.first_write("west", 5)
    assert isinstance(write, NotDone)
    assert "does not say that it has come about: what it prints has no first_write_at_ms" in write.reason
    read = found.first_reads("west", ["billing"], 5)["billing"]
    assert isinstance(read, NotDone)
    assert "'groups' of what it prints has no moment of 'billing'" in read.reason


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ('print("connecting"); print("{}")', "something stands before the JSON object"),
        ('print("{" + "x" * 100_000_000)', "more than 4,194,304 bytes"),
        ('print("{" + chr(34) + "a" + chr(34) + ":" + "[" * 100_000)', "recursion"),
        ('import json; print(json.dumps({"first_write_at_ms": "12:30"}))', "'12:30' is no moment in ms"),
        ('import json; print(json.dumps({"first_write_at_ms": -1}))', "-1 is no moment in ms"),
        ('print("{")', "what the probe prints is malformed"),
    ],
)
def test_a_probe_whose_answer_is_not_as_agreed_is_told_so(tmp_path: Path, code: str, why: str) -> None:
    found = commands(tmp_path, f"service_seconds = 0.1\n[clusters.west]\nprobe = {python(code)}")
    write = found.first_write("west", 5)
    assert isinstance(write, NotDone)
    assert why in write.reason
    assert len(write.output) < 2100


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("timeout = 3", "timeout"),
        ("timeout_seconds = 0", "timeout_seconds"),
        ("timeout_seconds = true", "timeout_seconds"),
        ("clusters = 3", "clusters"),
        ("[clusters.north]\nstop = 'true'", "clusters.north"),
        ("[clusters.east]\nend = 'true'", "clusters.east.end"),
        ("[clusters]\neast = 'true'", "clusters.east"),
        ("[clusters.east]\nstop = []", "clusters.east.stop"),
        ("[clusters.east]\nstop = ''", "clusters.east.stop"),
        ("[clusters.east]\nstop = [1]", "clusters.east.stop"),
        ("[clusters.east]\nstop = 'it\"s'", "clusters.east.stop"),
        ("[clusters.east", None),
    ],
)
def test_a_file_that_says_what_nobody_understands_is_refused_with_its_key(
    tmp_path: Path, text: str, key: str | None
) -> None:
    with pytest.raises(ConfigError) as wrong:
        commands(tmp_path, text)
    assert wrong.value.key == key
    assert str(tmp_path / "applications.toml") in str(wrong.value)


def test_a_person_answers_for_each_and_who_is_not_asked_has_not_seen() -> None:
    asked: list[str] = []

    def ask(question: str, _: float) -> bool:
        asked.append(question)
        return "billing" not in question and "all" not in question.split()

    person = Person(ask, lambda: 12)
    assert isinstance(person.stop("east"), Done)
    reads = person.first_reads("west", ["audit", "billing"], 0)
    assert reads["audit"] == Done("a person says that group audit reads on west", 12, is_word=True)
    assert isinstance(reads["billing"], NotDone)
    assert person.first_reads("west", ["audit"], 0)["audit"] == reads["audit"]
    everybody = Person(lambda *_: True, lambda: 13).first_reads("west", ["audit", "billing"], 0)
    assert {each.at_ms for each in everybody.values() if isinstance(each, Done)} == {13}
    assert ["east" in asked[0], "west" in asked[1]] == [True, True]
    nobody = Nobody()
    assert isinstance(nobody.start("west"), Unobserved)
    assert isinstance(nobody.first_reads("west", ["audit"], 0)["audit"], Unobserved)


def test_a_question_says_how_long_an_answer_is_waited_for_and_no_answer_is_a_no() -> None:
    asked: list[tuple[str, float]] = []

    def nobody_answers(question: str, seconds: float) -> None:
        asked.append((question, seconds))

    person = Person(nobody_answers, lambda: 12, seconds=120.0)
    answers = [
        person.stop("east"),
        person.start("west"),
        person.first_write("west", 0),
        *person.first_reads("west", ["audit", "billing"], 0).values(),
        person.stop_part("east", "audit"),
        person.start_part("west", None),
        person.group_reads("west", "audit", 0),
    ]
    assert {type(each) for each in answers} == {NotDone}
    assert all("nobody has said within 120 s" in str(each) for each in answers)
    assert len(asked) == 7, "who does not answer for all groups is not asked for each"
    assert {seconds for _, seconds in asked} == {120.0}
    assert all("no answer within 2 min is a no" in question for question, _ in asked)
    watching = [question for question, _ in asked if "the run goes on" in question]
    assert [each.split()[0] for each in watching] == ["Has", "Do"]


def test_a_file_that_is_not_there_is_named_once(tmp_path: Path) -> None:
    missing = tmp_path / "shop.toml"
    with pytest.raises(ConfigError) as refused:
        Commands.load(missing, "east->west", ALIASES)
    assert str(refused.value) == f"{missing}: is no TOML file that can be read: No such file or directory"


def test_the_parts_that_a_migration_moves_have_commands_of_their_own(tmp_path: Path) -> None:
    """Those of all are never run for a part: they would stop, or start, everything else with it."""
    code = 'import os; print(os.environ["MIRROR_CLUSTER"], os.environ.get("MIRROR_GROUP"))'
    parts = "".join(f"{key} = {python(code)}\n" for key in ("stop_group", "start_group", "stop_producers"))
    found = commands(tmp_path, f"[clusters.east]\nstart = 'false'\n{parts}")
    answers = [found.stop_part("east", "audit"), found.start_part("east", "audit"), found.stop_part("east", None)]
    assert [each.detail for each in answers if isinstance(each, Done)] == ["east audit", "east audit", "east None"]
    nobody = found.start_part("east", None)
    assert isinstance(nobody, Unobserved)
    assert "has no start_producers command for east" in nobody.why
    asked: list[str] = []
    person = Person(lambda question, _: not asked.append(question), lambda: 7)
    assert person.stop_part("east", "audit") == Done(
        "a person says that the applications of group audit on east are stopped", 7, is_word=True
    )
    assert person.group_reads("west", "audit", 0).at_ms == 7  # type: ignore[union-attr]
    assert asked[0].startswith("Stop the applications of group audit on east, and nothing else")
    assert isinstance(Nobody().start_part("west", None), Unobserved)
