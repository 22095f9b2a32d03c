"""Which tests need brokers, and how tests are shared out among processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

_HERE = Path(__file__).parent
_ON_BROKERS = {_HERE / "brokers", _HERE / "interop"}
_TOGETHER = "tests/interop"


class BySharedClusters(LoadFileScheduling):
    """A file is one process's; so are all files that share an engine of a dozen flows, which each process would start."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return _TOGETHER if file.startswith(f"{_TOGETHER}/") else file


@pytest.hookimpl(optionalhook=True)  # without xdist there is nothing to hand out
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> BySharedClusters:
    """Return who hands out the tests."""
    return BySharedClusters(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of the folders that need Java and take a share of the machine."""
    for item in items:
        if not _ON_BROKERS.isdisjoint(item.path.parents):
            item.add_marker(pytest.mark.brokers)
