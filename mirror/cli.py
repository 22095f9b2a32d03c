"""The command ``mirror``: reads arguments, calls, prints.

Exit codes: 0; 1 a verdict other than PASS, a flow that is FAILED, a plan with problems; 2 bad usage or configuration;
3 could not start, or not write its output; 4 a part of the engine ended by a defect.
"""

from __future__ import annotations

import errno
import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from mirror.background_process import detach
from mirror.bench.command import bench
from mirror.commands.changes import fence, groups, pause, resume
from mirror.commands.invocation import BAD_USAGE, COULD_NOT_START, VERDICT_NOT_PASS
from mirror.commands.observation import gaps, offsets, record, status, verify
from mirror.commands.output import err, out
from mirror.commands.recovery import failback, failover, readiness, rehearse, stranded
from mirror.commands.replication import legacy, plan, run
from mirror.drill.commands import app as runbook_app
from mirror.drill.own_folder import init
from mirror.extras import extra_of
from mirror.lab.commands import app as lab_app
from mirror.scenario.commands import app as scenario_app

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


app = typer.Typer(
    name="mirror",
    help="Replicate Kafka clusters from an unchanged connect-mirror-maker.properties, and prove what a failover loses.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Else lines end in help where they end in the source.
    rich_markup_mode="markdown",
)


# In the order in which `mirror --help` lists them.
app.command()(run)
app.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)(legacy)
for command in (
    *(plan, status, record, offsets, readiness, groups, pause, resume),
    *(fence, failover, failback, stranded, rehearse, gaps, verify, bench),
):
    app.command()(command)
app.add_typer(lab_app, name="lab")
app.add_typer(runbook_app, name="runbook")
app.add_typer(scenario_app, name="scenario")
lab_app.command()(init)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        out.print(f"mirror {version('mirrorbook')}", highlight=False)
        raise typer.Exit


@app.callback()
def _mirror(
    *,
    _: Annotated[
        bool, typer.Option("--version", help="Say which version this is.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Take what stands in front of a command."""


def main() -> None:
    """Run the command line; output that cannot be written ends it in one line, or none if nobody reads any more."""
    try:
        try:
            app()
        finally:
            if sys.__stdout__ is not None:
                sys.stdout.flush()
    except ModuleNotFoundError as missing:
        if (extra := extra_of(missing.name or "")) is None:
            raise
        message = f"{missing.name} is not installed, which this needs: pip install 'mirrorbook[{extra}]'"
        err.print(message, style="red", markup=False)
        raise SystemExit(BAD_USAGE) from None
    except OSError as problem:
        if problem.errno not in (*_DISK_FULL, errno.EPIPE):
            raise
        # What is left in the buffer would be written once more at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if problem.errno == errno.EPIPE:
            raise SystemExit(VERDICT_NOT_PASS) from None
        where = f"{problem.filename} cannot be written: " if problem.filename else ""
        err.print(f"{where}{problem.strerror}", style="red", markup=False, soft_wrap=True)
        raise SystemExit(COULD_NOT_START) from None


def connect_mirror_maker() -> None:
    """Run ``connect-mirror-maker.sh [-daemon] FILE [--clusters ALIAS...]``, which is `mirror run` (CLI-01)."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["-daemon"]:
        log = detach([sys.executable, "-m", "mirror", "run", *arguments[1:]], "mirrorMaker")
        err.print(f"It runs by itself; its log is {log}", markup=False)
        return
    sys.argv[1:] = ["run", *arguments]
    main()
