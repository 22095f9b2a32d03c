"""A reader that moves between clusters of a mesh misses nothing that a third one has written."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from mirror.control.mesh import MeshTranslator, Third
from mirror.model.offset_map import OffsetMap, Run, Runs, extend
from mirror.model.partition import TopicPartition
from mirror.model.translation import Bounded, Exact, NotMirrored, Translation

ORDERS = TopicPartition("orders", 0)


@dataclass
class Flow:
    """Copies a third cluster's records, numbered from 0, into a log; what it records may lag behind."""

    runs: list[Run] = field(default_factory=list)
    copied: int = 0
    recorded: OffsetMap | None = None

    def copy(self, log: list[tuple[str, int]]) -> None:
        extend(self.runs, Run(self.copied, len(log), 1))
        log.append(("third", self.copied))
        self.copied += 1

    def record(self) -> None:
        if self.runs:
            self.recorded = OffsetMap(0, True, Runs.of(self.runs), self.copied, self.runs[-1].downstream_end)

    def offset_map(self, _source: TopicPartition) -> OffsetMap | None:
        return self.recorded


class Says:
    """What two clusters alone would say."""

    def __init__(self, translation: Translation) -> None:
        self._translation = translation

    def translate(self, _source: TopicPartition, _position: int) -> Translation:
        return self._translation


@given(
    steps=st.lists(
        st.sampled_from(["here", "there", "own here", "own there", "record here", "record there"]), max_size=40
    ),
    share=st.floats(0, 1),
)
def test_nothing_of_a_third_cluster_is_passed(steps: list[str], share: float) -> None:
    here, there = Flow(), Flow()
    source: list[tuple[str, int]] = []
    target: list[tuple[str, int]] = []
    for number, step in enumerate(steps):
        match step:
            case "here":
                here.copy(source)
            case "there":
                there.copy(target)
            case "own here":
                source.append(("source", number))
            case "own there":
                target.append(("target", number))
            case "record here":
                here.record()
            case _:
                there.record()
    there.record()
    position = int(share * len(source))
    read = set(source[:position])
    said = MeshTranslator(Says(Exact(len(target))), lambda _: [Third(here, there)]).translate(ORDERS, position)
    assert isinstance(said, Exact | Bounded)
    passed = {record for record in target[: said.downstream] if record[0] == "third"}
    assert passed <= read
    again = sum(1 for record in target[said.downstream :] if record in read)
    assert again <= (said.behind_records if isinstance(said, Bounded) else 0)


def test_without_third_clusters_nothing_changes() -> None:
    for said in (Exact(5), Bounded(5, 2), NotMirrored()):
        assert MeshTranslator(Says(said), lambda _: []).translate(ORDERS, 7) == said
