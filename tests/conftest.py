"""Which tests need brokers, and how tests, and the work of collecting them, are shared out among processes."""

from __future__ import annotations

import contextlib
import gc
import importlib
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from tests.cores import processes, usable_cores
from tests.time_box import in_order, not_begun

_HERE = Path(__file__).parent
_ON_BROKERS = {_HERE / "brokers", _HERE / "interop"}
_TOGETHER = "tests/interop"


_BEGUN_AT = time.monotonic()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what limits a suite to the time that there is for it."""
    group = parser.getgroup("time box", "a suite that takes longer than there is time")
    group.addoption("--begin-within", type=float, metavar="MINUTES", help="skip tests that are not begun by then")
    group.addoption("--file-order", metavar="WORD", help="begin with other files for each word, a commit for instance")


def pytest_configure() -> None:
    """Have SIGHUP do what it does by itself: under ``nohup`` all that a test starts would ignore it."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(tryfirst=True)  # before fixtures start clusters for a test that is not run
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what is not begun in the time that there is."""
    reason = not_begun(_BEGUN_AT, item.config.getoption("begin_within"), time.monotonic())
    if reason is not None:
        pytest.skip(reason)


class BySharedClusters(LoadFileScheduling):
    """A file is one process's; so are all files that share an engine of a dozen flows, which each process would start."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return _TOGETHER if file.startswith(f"{_TOGETHER}/") else file


@pytest.hookimpl(optionalhook=True)  # without xdist there is nothing to hand out
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> BySharedClusters:
    """Return who hands out the tests."""
    return BySharedClusters(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return in how many processes ``-n auto`` runs the tests: on half a core several only hold each other up."""
    return processes(usable_cores())


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[object]:
    """Collect without looking for garbage: nearly all that collecting makes stays until the end.

    Of several processes each imports its share of the files first. Every one needs all of them, and what one has
    compiled the others only read: in a fresh clone compiling the asserts is most of the work.
    """
    gc.disable()
    try:
        for file in _share(session.config):
            # What is wrong with it, or why it is skipped, is told when it is collected.
            with contextlib.suppress(Exception, pytest.skip.Exception):
                importlib.import_module(".".join(file.relative_to(_HERE.parent).with_suffix("").parts))
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _share(config: pytest.Config) -> list[Path]:
    """Return the test files that this process of several imports first; none if it is alone."""
    process: dict[str, object] = getattr(config, "workerinput", {})
    asked = {config.rootpath / each.split("::")[0] for each in config.args} if process else set()
    files = {file for path in asked for file in (path.rglob("test_*.py") if path.is_dir() else [path])}
    ours = sorted(file for file in files if _HERE in file.parents)
    return ours[int(str(process["workerid"]).removeprefix("gw")) :: int(str(process["workercount"]))] if ours else []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test of the folders that need Java and take a share of the machine; order the files if asked to."""
    word = config.getoption("file_order")
    if word is not None:
        items[:] = in_order(items, word)
    for item in items:
        if not _ON_BROKERS.isdisjoint(item.path.parents):
            item.add_marker(pytest.mark.brokers)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder in which names of sockets are not too long."""
    with tempfile.TemporaryDirectory(prefix="mirror-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
