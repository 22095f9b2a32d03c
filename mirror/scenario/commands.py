"""``mirror scenario ...``: list, show, run; exit code 0 when every verdict is the one to have, 1 else, 2 bad usage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from mirror import tables, terminal
from mirror.definition_files import DefinitionRefused
from mirror.display import display_for
from mirror.evidence.facts import FactError
from mirror.evidence.refusal import Refused
from mirror.evidence.verdict_styles import VERDICT_STYLES
from mirror.model.counts import counted
from mirror.signals import sigterm_interrupts

if TYPE_CHECKING:
    from mirror.scenario.declaration import Scenario
    from mirror.scenario.summary import Line

# Whoever asks for `mirror status` shall not wait for PySpark, which the judges need: what needs it is imported where it
# is used.

app = typer.Typer(
    help="Disasters and other faults, brought about on practice clusters and judged: list, show, run.",
    no_args_is_help=True,
)

ScenariosOption = Annotated[
    Path | None,
    typer.Option("--scenarios", help="Folder of scenarios; otherwise ./scenarios, or the one beside the package."),
]

_ALL = "all"
_NOT_AS_EXPECTED, _BAD_USAGE = 1, 2


@app.command("list")
def list_scenarios(scenarios: ScenariosOption = None) -> None:
    """List the scenarios there are; one that cannot be loaded is listed with what is wrong in it."""
    from mirror.scenario.files import SCENARIOS

    console = terminal.console()
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("scenario", no_wrap=True)
    table.add_column("shows")
    broken = False
    with _refusing():
        files = SCENARIOS.files(SCENARIOS.folder(scenarios))
    for path in files:
        try:
            scenario = SCENARIOS.load(path)
            table.add_row(scenario.name, scenario.shows)
        except DefinitionRefused as refused:
            broken = True
            table.add_row(path.stem.replace("_", "-"), Text(str(refused), style="red"))
    console.print(table)
    if broken:
        raise typer.Exit(_BAD_USAGE)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="Name of the scenario, e.g. active-lost.")],
    seed: Annotated[int, typer.Option(help="Whose plan to show.")] = 1,
    scenarios: ScenariosOption = None,
) -> None:
    """Show a scenario: what there is, what happens when with a seed, what is tolerated and promised."""
    from mirror.scenario.declaration import Replicator
    from mirror.scenario.files import SCENARIOS
    from mirror.scenario.plan import plan_run

    console = terminal.console()
    with _refusing():
        scenario = SCENARIOS.load(SCENARIOS.path(name, SCENARIOS.folder(scenarios)))
    console.print(scenario.shows, style="bold")
    table = Table(box=None, pad_edge=False, show_header=False)
    for what, text in _description(scenario):
        table.add_row(Text(what, style="dim"), Text(text))
    console.print(table)
    actions = plan_run(scenario, Replicator.MIRROR, seed).actions
    if actions:
        console.print(f"\nWith seed {seed}:", highlight=False)
    for action in actions:
        console.print(f"  {action.at_seconds:6.1f} s  {action}", markup=False, highlight=False)


@app.command()
def run(
    name: Annotated[str, typer.Argument(help=f"Names of scenarios, comma-separated, or {_ALL!r}.")],
    replicator: Annotated[
        str, typer.Option(help="mirror, mm2, or both with a comma: then they are compared on the same seeds.")
    ] = "mirror",
    repeat: Annotated[int, typer.Option(min=1, help="How often, each time with the next seed.")] = 1,
    seed: Annotated[int, typer.Option(help="The first seed.")] = 1,
    parallel: Annotated[int, typer.Option(min=1, help="Runs side by side.")] = 1,
    resume: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A series that was interrupted: what was finished is not run again."),
    ] = None,
    runs_directory: Annotated[Path, typer.Option(help="Where directories of series are made.")] = Path("runs"),
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also put what was measured on this Markdown page (docs/scenarios.md)."),
    ] = None,
    scenarios: ScenariosOption = None,
) -> None:
    """Run scenarios and judge them; the last line printed is the path of the report."""
    from mirror.scenario.declaration import Replicator
    from mirror.scenario.files import SCENARIOS
    from mirror.scenario.page import write_page
    from mirror.scenario.report import write_report
    from mirror.scenario.series import Series, run_series, wanted_runs
    from mirror.scenario.summary import summarise

    console = terminal.console()
    with _refusing():
        folder = SCENARIOS.folder(scenarios)
        files = SCENARIOS.files(folder) if name == _ALL else [SCENARIOS.path(one, folder) for one in name.split(",")]
        chosen = [(file, SCENARIOS.load(file)) for file in files]
        if resume is not None and not resume.is_dir():
            raise Refused(f"{resume} is not the directory of a series")
        try:
            replicators = [Replicator(one) for one in replicator.split(",")]
        except ValueError:
            known = ", ".join(Replicator)
            raise Refused(f"--replicator: {replicator!r} names what is none; there are {known}") from None
        wanted = wanted_runs(chosen, replicators, range(seed, seed + repeat))
        if not wanted:
            raise Refused(f"{name} is not for {replicator}: see `mirror scenario show {name}`")
        series = Series(resume.absolute()) if resume else Series.create(runs_directory, name.replace(",", "-")[:60])
    console.print(f"series {series.path}", soft_wrap=True, markup=False, highlight=False)
    with _refusing(), sigterm_interrupts(), display_for(console) as display:
        outcomes = run_series(series, wanted, parallel=parallel, display=display)
    lines = summarise(outcomes)
    console.print(_results(lines, console.width))
    for line in lines:
        if not line.is_as_expected:
            console.print(f"{line.scenario}, {line.replicator}:", style="bold", markup=False)
            for reason in (*line.beside, *line.reasons):
                console.print(f"  {reason}", soft_wrap=True, markup=False, highlight=False)
    path = write_report(series, [scenario for _, scenario in chosen], outcomes)
    if page is not None:
        write_page(page, [SCENARIOS.load(file) for file in SCENARIOS.files(folder)], outcomes)
    console.print(f"report {path}", soft_wrap=True, markup=False, highlight=False)
    if not all(outcome.is_as_expected for outcome in outcomes):
        raise typer.Exit(_NOT_AS_EXPECTED)


def _description(scenario: Scenario) -> Iterator[tuple[str, str]]:
    from mirror.scenario import formatting

    for site in scenario.sites:
        disk = f", disks of {site.disk_megabytes} MB" if site.disk_megabytes else ""
        yield "cluster", f"{site.alias}: {counted(site.brokers, 'broker')}{disk}"
    yield "flows", ", ".join(map(str, scenario.flows))
    for topic in scenario.topics:
        settings = ", ".join(f"{key}={value}" for key, value in topic.configs.items())
        yield (
            "topic",
            f"{topic.name} on {', '.join(topic.clusters)}: {counted(topic.partitions, 'partition')} "
            f"{settings}".rstrip(),
        )
    for load in scenario.loads:
        yield "load", f"{load.rate:g} records/s to {', '.join(load.topics)} on {load.cluster}"
    for group in scenario.groups:
        yield "group", f"{group.name} reads {', '.join(group.topics)} on {group.cluster}"
    for key, value in scenario.properties.items():
        yield "property", f"{key} = {value}"
    yield "procedure", scenario.procedure.value
    for each in scenario.tolerated:
        yield "tolerated", f"{each.anomaly} in {each.where}{formatting.conditions(each)}: {each.because}"
    promised = scenario.objectives
    for what, objective in (
        ("RPO", promised.rpo_seconds),
        ("RPO, records", promised.rpo_records),
        ("RTO", promised.rto_seconds),
    ):
        if objective is not None:
            yield "objective", f"{what} {objective:g}"
    yield "for", ", ".join(scenario.replicators)
    if scenario.must_fail:
        yield "verdict", "must be FAIL, for the defect that it holds on purpose and nothing else"


def _results(lines: Sequence[Line], width: int) -> RenderableType:
    from mirror.scenario import formatting

    rows = [
        {
            "scenario": line.scenario,
            "by": line.replicator.value,
            "verdict": Text(
                formatting.verdict(line), style="bold green" if line.is_as_expected else VERDICT_STYLES[line.verdict]
            ),
            **dict(zip(formatting.FIGURES, formatting.figures(line), strict=True)),
        }
        for line in lines
    ]
    return tables.table(None, rows, width)


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except (Refused, FactError) as refused:
        terminal.console(stderr=True).print(
            f"mirror scenario: {refused}", soft_wrap=True, markup=False, highlight=False
        )
        raise typer.Exit(_BAD_USAGE) from None


__all__ = ["app"]
