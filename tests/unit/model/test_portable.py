"""What is raised in one process is said as it is in another."""

from __future__ import annotations

import pickle

import pytest

from mirror.model.portable import Portable


class _Located(Portable, ValueError):
    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line


class _InFile(_Located):
    def __init__(self, file: str) -> None:
        super().__init__(1, f"{file} is empty")
        self.file = file


@pytest.mark.parametrize("problem", [_Located(3, "no"), _InFile("a"), Portable(), Portable("no", 1)])
def test_type_text_and_attributes_survive_pickling(problem: Portable) -> None:
    problem.add_note("seen twice")
    there = pickle.loads(pickle.dumps(problem))  # its own
    assert type(there) is type(problem)
    assert (str(there), there.args, there.__dict__) == (str(problem), problem.args, problem.__dict__)
