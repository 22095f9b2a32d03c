"""What cannot be run with is refused before anything is made, in a dry run too, with the parameter's name."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from mirror.drill.commands import app
from mirror.drill.flow_parameters import MOVE_CONDITIONS

ROOT = Path(__file__).parents[3]
LINES = (
    "clusters = east, west",
    "east.bootstrap.servers = e:1",
    "west.bootstrap.servers = w:1",
    "east->west.enabled = true",
)


def tried(tmp_path: Path, *parameters: str, dry: bool, runbook: str = "test-failover") -> tuple[int, str]:
    given = [part for each in parameters for part in ("-p", each)]
    argv = ["run", runbook, "--runbooks", str(ROOT / "runbooks"), "--runs-directory", str(tmp_path / "runs")]
    done = CliRunner().invoke(app, [*argv, *given, *(["--dry-run"] if dry else [])])
    assert not (tmp_path / "runs").exists()
    return done.exit_code, " ".join((done.output + done.stderr).split())


@pytest.mark.parametrize("dry", [True, False])
@pytest.mark.parametrize(
    ("lines", "parameters", "told"),
    [
        (LINES, (), "parameter properties_file is missing"),
        (LINES, ("properties_file=mirror.properties",), "is not a whole path"),
        (LINES, ("properties_file={file}", "flow=west->east"), "parameter flow: {file} has the flows east->west"),
        ((*LINES, "west->east.enabled = true"), ("properties_file={file}",), "give one of them as flow"),
        (LINES[:3], ("properties_file={file}",), "parameter properties_file: {file}:1: clusters: no flow is enabled"),
    ],
)
def test_wrong_parameters_are_refused(
    tmp_path: Path, lines: tuple[str, ...], parameters: tuple[str, ...], told: str, *, dry: bool
) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text("\n".join(lines))
    status, said = tried(tmp_path, *(each.format(file=file) for each in parameters), dry=dry)
    assert status == 2, said
    assert told.format(file=file) in said


def test_a_dry_run_with_right_parameters_shows_the_plan_and_proves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text("\n".join(LINES))
    status, said = tried(tmp_path, f"properties_file={file}", dry=True)
    assert status == 0
    assert "in order" in said
    # The path of the file is folded at 80 columns, not cut off.
    assert "…" not in said


def given(**values: object) -> dict[str, object]:
    return {"properties_file": "", "flow": "", "practice": False, "groups": ".*", "applications": "", **values}


def problems(values: dict[str, object]) -> list[str]:
    return [problem for each in MOVE_CONDITIONS if (problem := each.problem(values)) is not None]


def test_a_runbook_of_a_flow_takes_a_file_or_practises_and_never_both(tmp_path: Path) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text("\n".join(LINES))
    assert problems(given(practice=True)) == problems(given(properties_file=str(file))) == []
    (told,) = problems(given(practice=True, properties_file=str(file)))
    assert told == "parameter properties_file: practice=true makes clusters of its own"
    (told,) = problems(given(practice=True, applications="/apps.toml"))
    assert told == "parameter applications: practice=true has applications of its own"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("stop = 1", "stop: is unknown"),
        ("[clusters.north]\nstop = 'x'", "clusters.north: is no cluster of east->west"),
        (None, "is no TOML file that can be read"),
    ],
)
def test_commands_that_nobody_understands_are_refused_before_the_run(
    tmp_path: Path, text: str | None, told: str
) -> None:
    file, commands = tmp_path / "mirror.properties", tmp_path / "shop.toml"
    file.write_text("\n".join(LINES))
    if text is not None:
        commands.write_text(text)
    (found,) = problems(given(properties_file=str(file), applications=str(commands)))
    assert found.startswith("parameter applications: ")
    assert told in found
    (found,) = problems(given(properties_file=str(file), applications="shop.toml"))
    assert "is not a whole path" in found


def test_a_pattern_that_is_no_expression_is_refused_before_the_run() -> None:
    (told,) = problems(given(practice=True, groups="(billing"))
    assert told.startswith("parameter groups: '(billing' is no regular expression")


PARTS = "stop_group = 'true'\nstart_group = 'true'\nstop_producers = 'true'\nstart_producers = 'true'\n"


@pytest.mark.parametrize(
    ("commands", "lacking"),
    [
        (
            "[clusters.east]\nstop = 'true'\n[clusters.west]\nstart = 'true'",
            ["clusters.east.stop_group", "clusters.west.start_group"],
        ),
        (f"[clusters.east]\n{PARTS}", ["clusters.west.start_group, clusters.west.start_producers"]),
        (f"[clusters.east]\n{PARTS}[clusters.west]\n{PARTS}", []),
    ],
    ids=["no part", "one cluster", "both"],
)
def test_a_migration_takes_no_commands_that_cannot_move_a_part(
    tmp_path: Path, commands: str, lacking: list[str]
) -> None:
    file, applications = tmp_path / "mirror.properties", tmp_path / "shop.toml"
    file.write_text("\n".join(LINES))
    applications.write_text(commands)
    given = (f"properties_file={file}", f"applications={applications}")
    status, said = tried(tmp_path, *given, dry=True, runbook="migration")
    assert (status, [each for each in lacking if each not in said]) == (2 if lacking else 0, []), said
