"""How tests are shared out among processes."""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

_TOGETHER = "tests/interop"


class BySharedClusters(LoadFileScheduling):
    """A file is one process's; so are all files that share an engine of a dozen flows, which each process would start."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return _TOGETHER if file.startswith(f"{_TOGETHER}/") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> BySharedClusters:
    """Return who hands out the tests."""
    return BySharedClusters(config, log)
