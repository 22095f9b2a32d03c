"""The applications of a flow, as the procedure sees them: stopped on one cluster, started on the other, seen at work.

The procedure does not know how they run. It asks whoever does: commands of a file, a person at the terminal, nobody.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol, TypeAlias

from mirror.asking import ANSWER_SECONDS, limit_message
from mirror.config.errors import ConfigError
from mirror.config.secrets import command_without_secrets, without_secrets
from mirror.waiting import Counted, WaitTimeout, wait_until

# What of a command's output is kept, in characters.
_OUTPUT = 2000
_LOOKED_THROUGH = 64_000
# A probe's answer for ten thousands of groups; what is longer is none.
_ANSWER_BYTES = 4 << 20
# As far as clocks go in a date.
_LAST_MS = 253_402_300_799_999
# So far apart may the clocks be of who stamps a moment and of who compares it.
_CLOCKS_MS = 10_000
_COMMANDS = ("stop", "start", "probe", "stop_group", "start_group", "stop_producers", "start_producers")
# What a no, or no answer, means for the run: it stops, or it goes on without.
_ENDS = "the run stops at this step, and says how it stands and how it goes on"
_NOT_SEEN = "it was not seen, and the run goes on"
_LOG = logging.getLogger(__name__)
_TIMES = {"timeout_seconds": 60.0, "service_seconds": 300.0}


@dataclass(frozen=True, slots=True)
class Done:
    """It is so.

    Attributes
    ----------
    at_ms
        the moment at which it became so, in ms since the epoch, where that is asked for.
    is_word
        whether it rests on nothing but somebody's word, a person's or that of a probe without moments, which the
        clusters are asked about where they can tell.
    """

    detail: str
    at_ms: int | None = None
    is_word: bool = False


@dataclass(frozen=True, slots=True)
class Unobserved:
    """Nobody has looked."""

    why: str


@dataclass(frozen=True, slots=True)
class NotDone:
    """It is not so, or could not be brought about; ``output`` is what was said meanwhile."""

    reason: str
    output: str = ""

    def __str__(self) -> str:
        """Return it for people."""
        return f"{self.reason}; it said: {self.output}" if self.output else self.reason


Answer: TypeAlias = Done | Unobserved | NotDone


def is_word(answer: Answer) -> bool:
    """Tell whether it is so by nothing but somebody's word."""
    return isinstance(answer, Done) and answer.is_word


class Applications(Protocol):
    """Producers and consumers that are moved from one cluster to the other.

    Every method may be called again: what is stopped is then stopped, and what is started started.
    """

    def stop(self, cluster: str) -> Answer:
        """Stop all of them on a cluster: behind ``Done`` none of them writes there, or is in a group there."""
        ...

    def start(self, cluster: str) -> Answer:
        """Start them on a cluster."""
        ...

    def first_write(self, cluster: str, since_ms: int) -> Answer:
        """Wait for the first write that the cluster has accepted from them since then; say when it was."""
        ...

    def first_reads(self, cluster: str, groups: Sequence[str], since_ms: int) -> Mapping[str, Answer]:
        """Wait until each group has read what was written there since then; say of each when it first did."""
        ...

    def stop_part(self, cluster: str, group: str | None) -> Answer:
        """Stop those that read in a group on a cluster, and nothing else; None: those that read in none, producers."""
        ...

    def start_part(self, cluster: str, group: str | None) -> Answer:
        """Start those of a group on a cluster, and nothing else; None: those that are in none."""
        ...

    def group_reads(self, cluster: str, group: str, since_ms: int) -> Answer:
        """Wait until a group has read anything on a cluster since then, also of a copy; say when it first did."""
        ...


@dataclass(frozen=True, slots=True)
class Nobody:
    """Nobody is asked and nothing is waited for: what the applications do is not observed."""

    why: str = "nobody was asked: no --applications file, and --yes"

    def stop(self, cluster: str) -> Answer:
        """See `Applications`."""
        return Unobserved(f"whether the applications on {cluster} are stopped: {self.why}")

    def start(self, cluster: str) -> Answer:
        """See `Applications`."""
        return Unobserved(f"whether the applications on {cluster} are started: {self.why}")

    def first_write(self, cluster: str, since_ms: int) -> Answer:  # noqa: ARG002  # nobody looks
        """See `Applications`."""
        return Unobserved(f"when {cluster} accepted a first write: {self.why}")

    def first_reads(self, cluster: str, groups: Sequence[str], since_ms: int) -> Mapping[str, Answer]:  # noqa: ARG002
        """See `Applications`."""
        return dict.fromkeys(groups, Unobserved(f"when it first read on {cluster}: {self.why}"))

    def stop_part(self, cluster: str, group: str | None) -> Answer:
        """See `Applications`."""
        return Unobserved(f"whether {_part(group)} on {cluster} are stopped: {self.why}")

    def start_part(self, cluster: str, group: str | None) -> Answer:
        """See `Applications`."""
        return Unobserved(f"whether {_part(group)} on {cluster} are started: {self.why}")

    def group_reads(self, cluster: str, group: str, since_ms: int) -> Answer:
        """See `Applications`."""
        return self.first_reads(cluster, (group,), since_ms)[group]


@dataclass(frozen=True, slots=True)
class Person:
    """A person at the terminal, who does it and says so; who does not answer in time has not said so.

    Attributes
    ----------
    ask
        puts a question that is answered by yes or no, and waits for so many seconds; None: nobody has answered.
    now_ms
        the clock.
    seconds
        how long each answer is waited for.
    """

    ask: Callable[[str, float], bool | None]
    now_ms: Callable[[], int]
    seconds: float = ANSWER_SECONDS

    def stop(self, cluster: str) -> Answer:
        """See `Applications`."""
        return self._asked(
            f"Stop everything that writes to {cluster} or reads from it. Is it stopped?",
            f"the applications on {cluster} are stopped",
            _ENDS,
        )

    def start(self, cluster: str) -> Answer:
        """See `Applications`."""
        return self._asked(
            f"Start the applications on {cluster}. Are they started?", f"they are started on {cluster}", _ENDS
        )

    def first_write(self, cluster: str, since_ms: int) -> Answer:  # noqa: ARG002  # a person knows since when
        """See `Applications`."""
        return self._asked(f"Has {cluster} accepted a first write?", f"{cluster} has accepted a first write", _NOT_SEEN)

    def first_reads(self, cluster: str, groups: Sequence[str], since_ms: int) -> Mapping[str, Answer]:  # noqa: ARG002
        """See `Applications`."""
        if len(groups) > 1:
            question = f"Do all {len(groups)} groups read new records on {cluster}?"
            answer = self._answer(question, "none of them was seen, and the run goes on")
            if answer is None:
                return dict.fromkeys(groups, self._nobody(f"all groups read on {cluster}"))
            if answer:
                done = Done(f"a person says that all groups read on {cluster}", self.now_ms(), is_word=True)
                return dict.fromkeys(groups, done)
        return {
            group: self._asked(
                f"Does group {group} read new records on {cluster}?", f"group {group} reads on {cluster}", _NOT_SEEN
            )
            for group in groups
        }

    def stop_part(self, cluster: str, group: str | None) -> Answer:
        """See `Applications`."""
        what = f"{_part(group)} on {cluster}"
        return self._asked(f"Stop {what}, and nothing else. Are they stopped?", f"{what} are stopped", _ENDS)

    def start_part(self, cluster: str, group: str | None) -> Answer:
        """See `Applications`."""
        what = f"{_part(group)} on {cluster}"
        return self._asked(f"Start {what}, and nothing else. Are they started?", f"{what} are started", _ENDS)

    def group_reads(self, cluster: str, group: str, since_ms: int) -> Answer:  # noqa: ARG002  # a person knows
        """See `Applications`."""
        return self._asked(
            f"Does group {group} read on {cluster}, or has it members there and nothing to read?",
            f"group {group} is at work on {cluster}",
            _ENDS,
        )

    def _asked(self, question: str, so: str, otherwise: str) -> Answer:
        answer = self._answer(question, otherwise)
        if answer is None:
            return self._nobody(so)
        if answer:
            return Done(f"a person says that {so}", self.now_ms(), is_word=True)
        return NotDone(f"a person does not say that {so}")

    def _answer(self, question: str, otherwise: str) -> bool | None:
        return self.ask(f"{question} {limit_message(self.seconds, otherwise)}", self.seconds)

    def _nobody(self, so: str) -> NotDone:
        return NotDone(f"nobody has said within {self.seconds:g} s that {so}")


@dataclass(frozen=True, slots=True)
class ClusterCommands:
    """The commands of one cluster, as arguments; None: there is none. Those of parts are for a migration."""

    stop: tuple[str, ...] | None = None
    start: tuple[str, ...] | None = None
    probe: tuple[str, ...] | None = None
    stop_group: tuple[str, ...] | None = None
    start_group: tuple[str, ...] | None = None
    stop_producers: tuple[str, ...] | None = None
    start_producers: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Commands:
    """Commands of a file that stop, start and probe the applications of each cluster.

    They are told in their environment what it is about: ``MIRROR_CLUSTER``, ``MIRROR_FLOW``; those of one group
    ``MIRROR_GROUP``; a probe also ``MIRROR_SINCE_MS`` and ``MIRROR_GROUPS`` (a JSON list). Stop and start end with 0
    when it is done. A probe is run
    again and again: with 0 it prints a JSON object, ``{"first_write_at_ms": 1, "groups": {"billing": 1}}``, in which
    what has not come about yet is null or left out; with 0 and nothing printed all has come about by now, which the
    clusters are asked about as a person's word is.

    Attributes
    ----------
    timeout_seconds
        how long one command may take.
    service_seconds
        how long the probe is asked for the first write, and for each group's first read.
    """

    path: Path
    flow: str
    clusters: Mapping[str, ClusterCommands]
    timeout_seconds: float = _TIMES["timeout_seconds"]
    service_seconds: float = _TIMES["service_seconds"]
    now_ms: Callable[[], int] = field(default=lambda: time.time_ns() // 1_000_000)

    @classmethod
    def load(cls, path: Path, flow: str, aliases: Sequence[str]) -> Commands:
        """Read the file, for a flow between the clusters called ``aliases``.

        Raises
        ------
        ConfigError
            if it cannot be read, or says what nobody understands; it names file and key.
        """
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            # Of what the system says the path would stand there a second time.
            why = error.strerror or "it cannot be read" if isinstance(error, OSError) else error
            raise ConfigError(path, None, None, f"is no TOML file that can be read: {why}") from None
        for key in sorted(content.keys() - {*_TIMES, "clusters"}):
            raise ConfigError(path, None, key, f"is unknown; there are {', '.join((*_TIMES, 'clusters'))}")
        clusters = content.get("clusters", {})
        if not isinstance(clusters, dict):
            raise ConfigError(path, None, "clusters", "holds a table for each cluster: [clusters.east]")
        for alias in sorted(clusters.keys() - set(aliases)):
            message = f"is no cluster of {flow}; there are {', '.join(aliases)}"
            raise ConfigError(path, None, f"clusters.{alias}", message)
        return cls(
            path,
            flow,
            {alias: _commands(path, alias, clusters.get(alias, {})) for alias in aliases},
            timeout_seconds=_seconds(path, "timeout_seconds", content),
            service_seconds=_seconds(path, "service_seconds", content),
        )

    def lacking(self, wanted: Mapping[str, Sequence[str]]) -> list[str]:
        """Return the keys of the commands that the file does not have, of those that are ``wanted`` by cluster."""
        return [
            f"clusters.{alias}.{what}"
            for alias, names in wanted.items()
            for what in names
            if getattr(self.clusters[alias], what) is None
        ]

    def stop(self, cluster: str) -> Answer:
        """See `Applications`."""
        return self._run_one("stop", cluster)

    def start(self, cluster: str) -> Answer:
        """See `Applications`."""
        return self._run_one("start", cluster)

    def first_write(self, cluster: str, since_ms: int) -> Answer:
        """See `Applications`."""
        (answer,) = self._probed(cluster, (), since_ms, ("",)).values()
        return answer

    def first_reads(self, cluster: str, groups: Sequence[str], since_ms: int) -> Mapping[str, Answer]:
        """See `Applications`."""
        return self._probed(cluster, groups, since_ms, groups)

    def stop_part(self, cluster: str, group: str | None) -> Answer:
        """See `Applications`."""
        return self._run_part("stop", cluster, group)

    def start_part(self, cluster: str, group: str | None) -> Answer:
        """See `Applications`."""
        return self._run_part("start", cluster, group)

    def group_reads(self, cluster: str, group: str, since_ms: int) -> Answer:
        """See `Applications`."""
        return self.first_reads(cluster, (group,), since_ms)[group]

    def _run_part(self, what: str, cluster: str, group: str | None) -> Answer:
        if group is None:
            return self._run_one(f"{what}_producers", cluster)
        return self._run_one(f"{what}_group", cluster, {"MIRROR_GROUP": group})

    def _run_one(self, what: str, cluster: str, more: Mapping[str, str] | None = None) -> Answer:
        argv = getattr(self.clusters[cluster], what)
        if argv is None:
            return Unobserved(f"{self.path} has no {what} command for {cluster}")
        with tempfile.TemporaryFile() as written:
            failure = self._run(argv, cluster, more or {}, written, written)
            output = _end_of(written)
        return NotDone(failure, output) if failure else Done(output or f"{_shown(argv)} ended with 0", self.now_ms())

    def _run(
        self, argv: Sequence[str], cluster: str, more: Mapping[str, str], out: IO[bytes], err: IO[bytes]
    ) -> str | None:
        """Run a command to its end; one that takes too long is killed with all that it has started.

        Returns
        -------
        str | None
            why it has not ended well; None: it has.
        """
        environment = {"MIRROR_CLUSTER": cluster, "MIRROR_FLOW": self.flow, **more}
        # No pipes: what a command leaves running would hold their ends, and be waited for.
        try:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=os.environ | environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return f"{_shown(argv)} cannot be run: {error}"
        late = False
        try:
            process.wait(self.timeout_seconds)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            if process.poll() is None:
                _kill_all(process)
        if late:
            return f"{_shown(argv)} was killed, since it took longer than {self.timeout_seconds:g} s"
        if process.returncode < 0:
            return f"{_shown(argv)} was ended by {_signal(-process.returncode)}"
        return f"{_shown(argv)} ended with {process.returncode}" if process.returncode else None

    def _asked(
        self, argv: Sequence[str], cluster: str, more: Mapping[str, str], wanted: Sequence[str]
    ) -> dict[str, Answer]:
        """Return what a probe tells of what is wanted when it is asked once."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            failure = self._run(argv, cluster, more, out, err)
            if failure is not None:
                output = " ".join(filter(None, map(_end_of, (out, err))))
                return dict.fromkeys(wanted, NotDone(failure, output))
            size = out.seek(0, os.SEEK_END)
            if size > _ANSWER_BYTES:
                message = f"what the probe prints is malformed: {size:,} bytes, more than {_ANSWER_BYTES:,} bytes"
                return dict.fromkeys(wanted, NotDone(message, _end_of(out)))
            out.seek(0)
            printed = out.read().decode(errors="replace").strip()
            return _answers_of_probe(printed, _end_of(out), wanted, int(more["MIRROR_SINCE_MS"]), self.now_ms())

    def _probed(self, cluster: str, groups: Sequence[str], since_ms: int, wanted: Sequence[str]) -> dict[str, Answer]:
        """Ask the probe until it tells of all that is wanted: of groups by their names, of the first write by ''."""
        argv = self.clusters[cluster].probe
        if argv is None:
            return dict.fromkeys(wanted, Unobserved(f"{self.path} has no probe command for {cluster}"))
        more = {"MIRROR_SINCE_MS": str(since_ms), "MIRROR_GROUPS": json.dumps(list(groups))}
        last: dict[str, Answer] = {}

        def look() -> Counted:
            last.update(self._asked(argv, cluster, more, wanted))
            return Counted(sum(isinstance(each, Done) for each in last.values()), len(wanted))

        what = f"the probe of {cluster} to report " + ("first reads of groups" if groups else "a first write")
        try:
            wait_until(look, what, timeout_seconds=self.service_seconds)
        except WaitTimeout:
            for output in dict.fromkeys(
                each.output for each in last.values() if isinstance(each, NotDone) and each.output
            ):
                _LOG.debug("the probe of %s said: %s", cluster, output)
            return {
                name: answer
                if isinstance(answer, Done)
                else NotDone(f"not within {self.service_seconds:g} s: {answer.reason}", _last_line(answer.output))
                if isinstance(answer, NotDone)
                else answer
                for name, answer in last.items()
            }
        return last


def _part(group: str | None) -> str:
    return "the producers" if group is None else f"the applications of group {group}"


def _commands(path: Path, alias: str, content: Any) -> ClusterCommands:
    where = f"clusters.{alias}"
    if not isinstance(content, dict):
        raise ConfigError(path, None, where, f"holds {', '.join(_COMMANDS)}")
    for key in sorted(content.keys() - set(_COMMANDS)):
        raise ConfigError(path, None, f"{where}.{key}", f"is unknown; there are {', '.join(_COMMANDS)}")
    return ClusterCommands(**{key: _argv(path, f"{where}.{key}", value) for key, value in content.items()})


def _argv(path: Path, where: str, value: Any) -> tuple[str, ...]:
    """Return the arguments of a command: a list of texts, or a text that is split as a shell does; no shell runs it."""
    try:
        argv = shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ConfigError(path, None, where, f"is no command: {error}") from None
    if not isinstance(argv, list) or not argv or not all(isinstance(each, str) for each in argv):
        raise ConfigError(path, None, where, "is a command: a text, or a list of texts")
    # Better known before the applications are stopped than when they are to be started again.
    if shutil.which(argv[0]) is None:
        name, sign, _ = argv[0].partition("=")
        if sign and name.isidentifier():
            why = f"sets {name}, which is a shell's to do, and no shell runs a command: put `env` before it"
            raise ConfigError(path, None, where, why)
        raise ConfigError(path, None, where, f"{without_secrets(argv[0])!r} is no program that can be run here")
    return tuple(argv)


def _seconds(path: Path, key: str, content: Mapping[str, Any]) -> float:
    value = content.get(key, _TIMES[key])
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ConfigError(path, None, key, f"is a number of seconds above 0, not {value!r}")
    return float(value)


def _answers_of_probe(output: str, end: str, wanted: Sequence[str], since_ms: int, now_ms: int) -> dict[str, Answer]:
    """Return what a probe that has ended well with ``output`` tells of what is wanted; ``end`` is it for people."""
    if not output.startswith("{"):
        if any(line.lstrip().startswith("{") for line in output.splitlines()):
            why = "what the probe prints is malformed: something stands before the JSON object"
            return dict.fromkeys(wanted, NotDone(why, end))
        return dict.fromkeys(wanted, Done("the probe ended with 0 and printed no moments", now_ms, is_word=True))
    try:
        content = json.loads(output)
        of_groups = content.get("groups") or {}
        found = {name: content.get("first_write_at_ms") if not name else of_groups.get(name) for name in wanted}
    except (AttributeError, ValueError, RecursionError) as error:
        return dict.fromkeys(wanted, NotDone(f"what the probe prints is malformed: {error}", end))
    return {name: _moment(name, at, end, since_ms, now_ms) for name, at in found.items()}


def _moment(name: str, at: object, end: str, since_ms: int, now_ms: int) -> Done | NotDone:
    if at is None:
        what = (
            f"'groups' of what it prints has no moment of {name!r}"
            if name
            else "what it prints has no first_write_at_ms"
        )
        return NotDone(f"the probe does not say that it has come about: {what}", end)
    if isinstance(at, bool) or not isinstance(at, int) or not 0 <= at <= _LAST_MS:
        return NotDone(f"what the probe prints is malformed: {at!r:.100} is no moment in ms since 1970", end)
    if at < since_ms - _CLOCKS_MS:
        why = f"the moment {at} that the probe prints is {(since_ms - at) / 1000:,.0f} s before MIRROR_SINCE_MS"
        return NotDone(f"{why}: is it that of the old cluster, or a clock that is behind?", end)
    if at > now_ms + _CLOCKS_MS:
        why = f"the moment {at} that the probe prints is {(at - now_ms) / 1000:,.0f} s ahead of this machine's clock"
        return NotDone(why, end)
    return Done("the probe says so", at)


def _shown(argv: Sequence[str]) -> str:
    return f"`{command_without_secrets(argv)}`"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _end_of(output: IO[bytes]) -> str:
    """Return the end of what a command has said, without what looks like a secret."""
    size = output.seek(0, os.SEEK_END)
    # A secret of which only the end would be left could not be told from other words: keys and tokens are long.
    output.seek(max(0, size - _LOOKED_THROUGH))
    text = without_secrets(output.read().decode(errors="replace")).strip()
    return text if len(text) <= _OUTPUT else f"(the end of {size:,} bytes) {text[-_OUTPUT:]}"


def _last_line(output: str) -> str:
    """Return what tells most of what a probe has said, which is told of each group: the error behind a traceback."""
    return output.splitlines()[-1] if output else ""


def _kill_all(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and what it has started, which is of its session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
