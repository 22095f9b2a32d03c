"""Engines that are killed, and copies and state topics that lose their ends, in any order: nothing is lost or doubled."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from mirror.copier import committed_tail, placing
from mirror.copier.work import GapPolicy, Handover
from mirror.kafka.batch import Producer
from tests.unit.copier.copying_in_memory import ORDERS, OURS, Copying, slot

IDS = ("east->west-0", "east->west-1")


class History:
    """What happens to a flow in transactions, by chance, and what its source has.

    Attributes
    ----------
    happened
        what it was, in turn.
    truncated, has_lost
        whether the copy has lost its end, and whether the state topic has.
    """

    def __init__(self, copying: Copying, chance: random.Random) -> None:
        self.copying, self.chance = copying, chance
        self.happened: list[object] = []
        self.truncated = self.has_lost = False
        self.written: list[bytes] = []
        self._epoch = slot().producer.epoch
        copying.told(
            slot=slot(), producer=None, writers=copying.flow.writers | {OURS.producer_id, OURS.producer_id + 1}
        )

    def write(self) -> None:
        more = [b"%d" % (len(self.written) + number) for number in range(self.chance.choice([1, 1, 2]))]
        self.written += more
        self.copying.source().write(*more)

    def theirs(self) -> None:
        for _ in range(self.chance.choice([1, 6])):
            self.copying.copy().write(b"theirs")

    def epoch(self) -> None:
        self.copying.epoch(0.5)

    def taken_over(self) -> None:
        copying, number = self.copying, self.chance.choice([0, 0, 1])
        for each in IDS:
            copying.west.coordinator.take_over(each)
        self._epoch += 1
        producer = Producer(OURS.producer_id + number, self._epoch, is_transactional=True)
        assert copying.flow.slot is not None
        copying.told(slot=replace(copying.flow.slot, transactional_id=IDS[number], producer=producer, sequences={}))
        state = copying.state()
        copying.handovers[ORDERS] = Handover(state.positions[ORDERS], state.open_runs(ORDERS), clean=False)
        copying.works.clear()

    def killed(self) -> None:
        copy = self.copying.copy()
        self.chance.choice([copy.hold, copy.mute])()
        self.write()
        self.epoch()
        copy.release()
        self.taken_over()

    def copy_cut(self) -> None:
        copy = self.copying.copy()
        at = self.chance.choice(copy.log[-4:])[1].base_offset
        if at:
            copy.truncate(at)
            copy.open.clear()
            self.truncated = True

    def state_cut(self) -> None:
        log = self.copying.state_log
        kept, end = list(log.log), log.end
        log.truncate(self.chance.choice(log.log[-6:])[1].base_offset)
        if ORDERS not in self.copying.state().positions:
            log.log, log.end = kept, end
            return
        self.has_lost = True
        self.taken_over()

    def settled(self) -> bool:
        """Go on until all is copied, and acknowledge what stops that; tell whether it is."""
        for _ in range(14):
            result = self.copying.epoch(5.0)[ORDERS]
            assert result.handover is not None
            self.copying.works.clear()
            if result.stopped is not None:
                gap = [each for each in self.copying.state().gaps.values() if not each.passed][-1]
                self.copying.works[ORDERS] = {"gaps": GapPolicy(barrier=gap, is_lifted=True)}
            elif result.handover.clean and result.handover.position.upstream == self.copying.source().end:
                return True
        return False


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_lost_is_copied_again_and_nothing_comes_twice(
    copying: Copying, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if seed % 3 == 0:
        # Of others little is read before their leader is asked who has written, and one batch is a piece.
        monkeypatch.setattr(committed_tail, "_MOST_OF_OTHERS", 150)
        monkeypatch.setattr(placing, "_MATCH_SECONDS", 0.0)
        copying.copy().most_bytes = 1
    history = History(copying, random.Random(seed))
    history.written.append(b"0")
    copying.begin(b"0")
    happens = [history.write, history.epoch, history.killed, history.theirs, history.taken_over]
    happens += [history.copy_cut] if seed % 2 else []
    happens += [history.state_cut] if seed % 4 < 2 else []
    for _ in range(history.chance.randint(4, 11)):
        act = history.chance.choice(happens)
        act()
        history.happened.append((act.__name__, copying.copy().committed(), copying.recorded()))
    history.taken_over()
    assert history.settled(), history.happened
    found = [each for each in copying.copy().committed() if each != b"theirs"]
    gaps = copying.state().gaps
    assert set(history.written) <= set(found), history.happened
    if not history.truncated:
        assert (found, gaps) == (history.written, {}), history.happened
    elif not (gaps or history.has_lost):
        assert found == history.written, history.happened
