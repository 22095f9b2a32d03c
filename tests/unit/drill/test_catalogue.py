"""Runbooks are files: found by name, loaded by path, refused with the file's name; the commands are thin above that."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mirror.definition_files import DefinitionNotFound, DefinitionRefused
from mirror.drill.catalogue import find_runbook, load_runbook, runbooks_folder
from mirror.drill.commands import app
from mirror.drill.runbook import Runbook
from mirror.drill.runner import check_runbook
from mirror.evidence.run_directory import RunDirectory
from mirror.evidence.run_model import ParameterValue
from tests.unit.drill.builders import write_notebook
from tests.unit.drill.synthetic_run import SyntheticRun

ROOT = Path(__file__).parents[3]

TINY = """
from mirror.drill.runbook import Parameter, Runbook, Step
RUNBOOK = Runbook(
    "tiny", "Tiny", "To be tested.",
    (Step("one", "one.ipynb", "The first step", (), 30.0, "nothing", parameters=("rate",), point_of_no_return=True),),
    (Parameter("rate", 5, "records/s", "how many"),),
)
"""
DECLARED = 'run_directory: str = ""  # the run\'s directory\nrate: int = 1  # records/s'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of runbooks with one in it, and its notebook."""
    folder = tmp_path / "runbooks"
    folder.mkdir()
    (folder / "tiny.py").write_text(TINY)
    (folder / "tiny.md").write_text("# Tiny, in prose\n")
    write_notebook(tmp_path / "notebooks" / "one.ipynb", "1 + 1", parameters=DECLARED)
    return folder


def invoke(*arguments: object) -> tuple[int, str]:
    """Exit status and everything printed."""
    result = CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "160"})
    return result.exit_code, result.output


@pytest.mark.parametrize("path", sorted((ROOT / "runbooks").glob("*.py")), ids=lambda path: path.stem)
def test_every_runbook_of_the_project_could_be_run(path: Path, tmp_path: Path) -> None:
    """Its notebooks keep the rules and take the parameters it gives them; its page of prose is there."""
    loaded = load_runbook(path)
    file = tmp_path / "mirror.properties"
    file.write_text("clusters=e,w\ne.bootstrap.servers=e:1\nw.bootstrap.servers=w:1\ne->w.enabled=true")
    needed: dict[str, ParameterValue] = {
        each.name: str(file) for each in loaded.runbook.parameters if each.name == "properties_file"
    }

    check_runbook(loaded, needed)
    assert loaded.prose.startswith("# ")
    headings = [line.removeprefix("## ") for line in loaded.prose.splitlines() if line.startswith("## ")]
    told = (
        "Purpose",
        "When",
        "Who decides",
        "Preconditions",
        "Steps",
        "Point of no return",
        "Abort criteria",
        "Duration",
    )
    assert [each for each in told if not any(heading.startswith(each) for heading in headings)] == []
    assert all(step.undo and step.gates for step in loaded.runbook.steps)
    # All but the drill, which has no others, are about clusters in use, and can be practised.
    names = {each.name for each in loaded.runbook.parameters}
    assert path.stem == "failover_drill" or {"properties_file", "flow", "practice"} <= names


def test_a_runbook_is_found_by_its_name_in_either_spelling(folder: Path) -> None:
    (folder / "two_words.py").write_text(TINY.replace('"tiny"', '"two-words"'))

    assert isinstance(find_runbook("two-words", folder).runbook, Runbook)
    assert find_runbook("two_words", folder).runbook.name == "two-words"
    assert find_runbook("tiny", folder).prose == "# Tiny, in prose\n"


@pytest.mark.parametrize("name", ["../elsewhere/tiny", "_hidden"])
def test_a_name_is_never_a_path(folder: Path, name: str) -> None:
    """It may come from the run.json of somebody else's run: `resume` would have run that file."""
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    for path in (elsewhere / "tiny.py", folder / "_hidden.py"):
        path.write_text(f"raise SystemExit('{path} was run')")
    with pytest.raises(DefinitionNotFound, match="there is: tiny"):
        find_runbook(name, folder)


def test_an_absent_runbook_or_folder_is_said_to_be_so(folder: Path) -> None:
    with pytest.raises(DefinitionNotFound, match=r"no runbook 'big' in .*; there is: tiny"):
        find_runbook("big", folder)
    with pytest.raises(DefinitionNotFound, match=r"no folder of runbooks: looked for .*/absent; .* --runbooks"):
        runbooks_folder(folder / "absent")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("RUNBOOK = 5", "defines no RUNBOOK"),
        (TINY.replace('"tiny"', '"other"'), "name and file name must agree"),
        (TINY.replace('"rate", 5', '"rte", 5'), "asks for parameter 'rate'"),
    ],
)
def test_a_broken_runbook_is_named(folder: Path, text: str, said: str) -> None:
    (folder / "tiny.py").write_text(text)

    with pytest.raises(DefinitionRefused, match=rf"tiny\.py: .*{said}"):
        load_runbook(folder / "tiny.py")
    status, printed = invoke("list", "--runbooks", folder)
    assert status == 2
    assert "tiny.py" in printed.replace("\n", "")


def test_list_and_show_tell_what_there_is(folder: Path) -> None:
    assert "To be tested." in invoke("list", "--runbooks", folder)[1]
    status, printed = invoke("show", "tiny", "--runbooks", folder)
    assert status == 0
    assert all(told in printed for told in ("Tiny, in prose", "records/s", "The first step point of no return"))


def test_the_list_can_be_had_as_json_with_what_is_wrong(folder: Path) -> None:
    (folder / "broken.py").write_text("1 / 0")
    done = CliRunner().invoke(app, ["list", "--json", "--runbooks", str(folder)])
    broken, tiny = json.loads(done.stdout)
    assert tiny == {"runbook": "tiny", "steps": 1, "purpose": "To be tested.", "problem": None}
    assert (done.exit_code, broken["runbook"], "broken.py" in broken["problem"]) == (2, "broken", True)


def test_a_dry_run_starts_nothing_and_is_never_pass(folder: Path, tmp_path: Path) -> None:
    status, printed = invoke(
        "run", "tiny", "--dry-run", "-p", "rate=7", "--runs-directory", tmp_path / "runs", "--runbooks", folder
    )

    assert status == 0, "a check before a run, in a script, goes on"
    assert "UNKNOWN" in printed
    assert "7" in printed
    assert "1 step would be run" in printed
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("groups", ["svc[/prod]", "billing-[ab]+|svc-[a-z]+", "a:key:b", "[bold]x"])
def test_what_a_person_gives_stands_in_the_plan_as_it_was_given(folder: Path, groups: str) -> None:
    """A pattern is full of what rich takes for styles: shown otherwise, the plan of a failover is of other groups."""
    (folder / "tiny.py").write_text(
        TINY.replace('"rate", 5, "records/s", "how many"', '"rate", ".*", "", "[a-z] which"')
    )
    write_notebook(
        folder.parent / "notebooks" / "one.ipynb", "1 + 1", parameters=DECLARED.replace("int = 1", 'str = ""')
    )

    status, printed = invoke("run", "tiny", "--dry-run", "-p", f"rate={groups}", "--runbooks", folder)

    assert status == 0
    assert groups in printed
    assert "[a-z] which" in printed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "tiny", "-p", "rte=1"), "no parameter 'rte'; it has rate"),
        (("run", "tiny", "-p", "rate=fast"), "expected a whole number, got 'fast'"),
        (("run", "big"), "no runbook 'big'"),
        (("resume", "."), "is not the directory of a run"),
    ],
)
def test_bad_usage_is_status_2(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    status, printed = invoke(*arguments, "--runbooks", folder)

    assert status == 2
    assert said in printed


def test_a_notebook_that_would_be_refused_is_bad_usage(folder: Path, tmp_path: Path) -> None:
    write_notebook(tmp_path / "notebooks" / "one.ipynb", parameters=DECLARED, tags=())

    status, printed = invoke("run", "tiny", "--runs-directory", tmp_path / "runs", "--runbooks", folder)

    assert status == 2
    assert "one.ipynb: no code cell has the tag `parameters`" in printed
    assert not (tmp_path / "runs").exists()


def test_a_report_is_made_again_from_the_directory(tmp_path: Path) -> None:
    run = SyntheticRun(tmp_path).until_verified()

    status, printed = invoke("report", run.path)

    assert status == 0
    assert printed.strip() == str(run.report)
    assert run.report.exists()


def cut(run: RunDirectory) -> None:
    lines = run.journal.path.read_text().splitlines(keepends=True)
    run.journal.path.write_text("".join(lines[:-2]))


def edited(run: RunDirectory) -> None:
    outcome = run.outcome_path("failback")
    outcome.write_text(outcome.read_text().replace('"verdict": "PASS"', '"verdict":  "PASS"'))


@pytest.mark.parametrize(
    ("touch", "said"),
    [(cut, "the journal is not intact: journal.jsonl has lost its end"), (edited, "altered: outcomes/failback.json")],
)
def test_a_report_of_evidence_that_was_touched_says_so_first_and_on_standard_error(
    tmp_path: Path, touch: Callable[[RunDirectory], None], said: str
) -> None:
    run = SyntheticRun(tmp_path).passed()
    touch(run)

    done = CliRunner().invoke(app, ["report", str(run.path)])

    assert (done.exit_code, done.stdout.strip()) == (1, str(run.report))
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    page = run.report.read_text()
    assert "not proven, and its evidence is not as the run left it" in page
    assert said in page.partition('<p class="lead">')[2].partition("</p>")[0]


def test_a_notebook_finds_the_runbooks_beside_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runbooks").mkdir()
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    assert runbooks_folder() == tmp_path / "runbooks"


RUNBOOKS = sorted(path.stem.replace("_", "-") for path in (ROOT / "runbooks").glob("*.py"))
OF_A_FLOW = [each for each in RUNBOOKS if each != "failover-drill"]
# What is given for the parameters, and the one that the refusal names. FILE is a properties file of the flow e->w.
WRONG = {
    "no file": ((), "properties_file"),
    "an empty file": (("properties_file=",), "properties_file"),
    "no such file": (("properties_file=/nowhere/mirror.properties",), "properties_file"),
    "no whole path": (("properties_file=mirror.properties",), "properties_file"),
    "no such flow": (("properties_file=FILE", "flow=w->e"), "flow"),
    "no flow at all": (("properties_file=FILE", "flow=nonsense"), "flow"),
    "a file and practice": (("properties_file=FILE", "practice=true"), "properties_file"),
    "a flow and practice": (("flow=e->w", "practice=true"), "flow"),
    "neither true nor false": (("practice=",), "practice"),
}
WRONG_GROUPS = {
    "no expression": (("properties_file=FILE", "groups=("), "groups"),
    "none at all": (("properties_file=FILE", "groups="), "groups"),
}
WRONG_POSITIONS = {"of neither": (("practice=true", "positions=elsewhere"), "positions")}
WRONG_APPLICATIONS = {
    "no such commands": (("properties_file=FILE", "applications=/nowhere/shop.toml"), "applications"),
    "commands without a whole path": (("properties_file=FILE", "applications=shop.toml"), "applications"),
}


def wrong_values() -> list[tuple[str, tuple[str, ...], str]]:
    cases = []
    for name in RUNBOOKS:
        parameters = {each.name: each for each in find_runbook(name, ROOT / "runbooks").runbook.parameters}
        cases.append((name, ("colour=blue",), "colour"))
        practice = ("practice=true",) if "practice" in parameters else ()
        for each in parameters.values():
            if isinstance(each.default, int | float) and not isinstance(each.default, bool):
                cases += [(name, (*practice, f"{each.name}={text}"), each.name) for text in ("", "-1", "many")]
            if isinstance(each.default, float):
                cases.append((name, (*practice, f"{each.name}=nan"), each.name))
            if each.least > 0:
                cases.append((name, (*practice, f"{each.name}=0"), each.name))
        for column, known in (
            (WRONG, "flow"),
            (WRONG_GROUPS, "groups"),
            (WRONG_APPLICATIONS, "applications"),
            (WRONG_POSITIONS, "positions"),
        ):
            cases += [(name, *case) for case in column.values() if known in parameters]
    return cases


@pytest.mark.parametrize(("name", "given", "blamed"), wrong_values())
@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)], ids=["run", "dry run"])
def test_a_wrong_or_empty_parameter_is_bad_usage_before_anything_begins(
    tmp_path: Path, name: str, given: tuple[str, ...], blamed: str, dry_run: tuple[str, ...]
) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text("clusters=e,w\ne.bootstrap.servers=e:1\nw.bootstrap.servers=w:1\ne->w.enabled=true")
    values = (option for each in given for option in ("-p", each.replace("FILE", str(file))))
    status, said = invoke("run", name, "--runs-directory", tmp_path / "runs", *values, *dry_run)
    assert (status, blamed in said) == (2, True), said
    assert not (tmp_path / "runs").exists()
    assert "Traceback" not in said


def test_every_runbook_is_among_those_that_refuse() -> None:
    assert len(RUNBOOKS) == 8
    assert {name for name, *_ in wrong_values()} == set(RUNBOOKS)
    assert {name for name, given, _ in wrong_values() if "flow=w->e" in given} == set(OF_A_FLOW)
