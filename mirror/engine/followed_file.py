"""Takes changes of the properties file while an engine runs: what can be is; the rest is logged by line and key."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from mirror.config.changes import changed_keys, in_effect
from mirror.config.errors import ConfigError
from mirror.config.mirror_maker import MirrorMakerConfig
from mirror.config.properties import read
from mirror.config.resolving import settings_of
from mirror.config.settings import MirrorSettings

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS = 2.0
_WAITS = "takes effect after a restart"
_REFUSED = "the file has changed and cannot be used, so what was read before holds"


class RunsBySettings(Protocol):
    """What is told of changes; :class:`mirror.engine.run.Engine` is it."""

    @property
    def settings(self) -> MirrorSettings:
        """The settings that it runs by."""
        ...

    def take_settings(self, new: MirrorSettings) -> None:
        """Go on by what can be taken of these."""
        ...

    def take_file_notes(self, notes: Sequence[str]) -> None:
        """Have this said of the file in the status of each flow."""
        ...


class FollowedFile:
    """The file that an engine runs by. One that cannot be used changes nothing."""

    def __init__(self, engine: RunsBySettings, began: MirrorMakerConfig, path: Path) -> None:
        """Follow what is at ``path``; ``began`` is what ``engine`` was started with."""
        self._engine = engine
        self._path = path
        self._began = self._last = began
        # What is at the path, as far as that is reported without reading it; None: nothing.
        self._seen: tuple[int, ...] | None = None
        self._is_read = self._is_refused = False

    def look(self) -> None:
        """Read the file if it is another one than before, and the one of the last look: it is written by then."""
        seen = _mark(self._path)
        if seen != self._seen:
            self._seen, self._is_read = seen, False
        elif not self._is_read:
            self._is_read = True
            self.read_anew(is_asked=False)

    def read_anew(self, *, is_asked: bool = True) -> None:
        """Read the file, and take what can be taken; if somebody asked for it, say also that there is nothing new."""
        try:
            file = read(self._path)
            if file.entries == self._last.file.entries and not (is_asked or self._is_refused):
                return
            now = MirrorMakerConfig.of(file)
            new = settings_of(now, self._path)
        except ConfigError as problem:
            self._refuse(problem)
            return
        self._take(now, new, is_asked=is_asked)

    def _refuse(self, problem: ConfigError) -> None:
        self._is_refused = True
        for each in problem.mistakes:
            _LOG.error("%s: %s", _REFUSED, each)
        # The messages may show a value, which is nobody's who looks at the status.
        places = [ConfigError(None, each.line, each.key, "the log says why") for each in problem.mistakes]
        self._engine.take_file_notes([f"{_REFUSED}: {place}" for place in places])

    def _take(self, now: MirrorMakerConfig, new: MirrorSettings, *, is_asked: bool) -> None:
        running, was_refused = self._engine.settings, self._is_refused
        taken, _ = changed_keys(self._last, now)
        _, waiting = changed_keys(self._began, now)
        self._last, self._is_refused = now, False
        if in_effect(running, new) != running:
            self._engine.take_settings(new)
            message = "; ".join(map(str, taken)) or "what a placeholder stands for, or a class of one's own reads"
            _LOG.info("the file has changed, and this is followed from now on: %s", message)
        elif is_asked or was_refused:
            _LOG.info("the file was read anew, and can be used; nothing that could be followed at once is new")
        for line in new.ignored:
            if line not in running.ignored:
                _LOG.warning("%s", line)
        notes = [f"{each}: {_WAITS}" for each in waiting]
        if not notes and self._engine.settings != new:
            # Nothing that stands in the file itself: a secret, for instance.
            notes = [f"what a placeholder stands for, or a class of one's own reads: {_WAITS}"]
        for note in notes:
            _LOG.warning("the file has changed: %s", note)
        self._engine.take_file_notes([f"the file has changed: {note}" for note in notes])


def _mark(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


@contextmanager
def following(engine: RunsBySettings, began: MirrorMakerConfig, path: Path, asked: threading.Event) -> Iterator[None]:
    """While it lasts, follow the file; ``asked`` is set when it is to be read at once, and cleared then."""
    file, is_over = FollowedFile(engine, began, path), threading.Event()

    def follow() -> None:
        while not is_over.is_set():
            if asked.wait(_LOOK_SECONDS) and not is_over.is_set():
                asked.clear()
                file.read_anew()
            else:
                file.look()

    thread = threading.Thread(target=follow, name="file", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        asked.set()
        thread.join()
