"""The catalogue of mutations speaks of the modules as they are; `make mutations` tries them."""

from __future__ import annotations

from tests.mutations.catalogue import ROOT, Mutated, Mutation, Refused, catalogue, mutated


def test_each_mutation_changes_one_place_of_its_module() -> None:
    tried = (mutated(each, (ROOT / each.module).read_text("utf-8")) for each in catalogue())
    assert [each.reason for each in tried if isinstance(each, Refused)] == []


def test_the_tests_concerned_are_there() -> None:
    named = {path for each in catalogue() for tests in each.tests for path in tests.split()}
    assert {path for path in named if not (ROOT / path).exists()} == set()


def test_there_are_a_hundred_and_none_twice() -> None:
    changes = [(each.module, each.old, each.new) for each in catalogue()]
    assert len(set(changes)) == len(changes) >= 100


def test_what_is_not_there_once_or_changes_nothing_is_refused() -> None:
    def tried(old: str, new: str) -> Mutated | Refused:
        return mutated(Mutation("m.py", "rule", old, new, ()), "a = 1\nb = 1\n")

    assert tried("b = 1", "b = 2") == Mutated("a = 1\nb = 2\n", 2)
    assert tried("= 1", "= 2") == Refused("m.py: rule: '= 1' is there 2 times, not once")
    assert tried("c", "d") == Refused("m.py: rule: 'c' is there 0 times, not once")
    assert tried("b = 1", "b  = 1") == Refused("m.py: rule: 'b  = 1' changes nothing")
    assert isinstance(tried("b = 1", "b ="), Refused)
