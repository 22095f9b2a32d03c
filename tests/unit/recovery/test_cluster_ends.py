"""What is asked of the ends of a flow takes no longer than it must."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings
from mirror.control.closed_copies import Opened
from mirror.control.gaps import iso_time
from mirror.kafka.answers import Found
from mirror.kafka.cluster_model import GroupListing, GroupPosition, Topic
from mirror.kafka.problems import ClusterError
from mirror.model.checkpoint import Checkpoint
from mirror.model.failover import in_the_way
from mirror.model.flow import Flow
from mirror.model.flow_state import FlowState
from mirror.model.leadership import Claim
from mirror.model.partition import TopicPartition
from mirror.model.pause import Pauses, PauseWish
from mirror.model.position import Position
from mirror.model.state_values import ClosedCopy, RunReport
from mirror.recovery import cluster_ends
from mirror.recovery.cluster_ends import ClusterEnds
from mirror.recovery.failover import loss_of
from mirror.recovery.flow_ends import Cut
from mirror.recovery.move import failover_entry_message
from mirror.recovery.state_followers import StateFollowers
from mirror.same_offsets.chain import producer_of
from tests.pauses import simulate_pauses
from tests.unit.recovery.world import ENTRY

FILE = """
clusters = east, west
east.bootstrap.servers = east:1
west.bootstrap.servers = west:1
east->west.enabled = true
"""
HOUR = 3_600_000
CLEAN, CUT, NOW = 10 * HOUR, 12 * HOUR, 14 * HOUR


def ends_on_record(tmp_path: Path, state: FlowState, text: str = FILE, pausing: object = None) -> ClusterEnds:
    """Return the ends of the flow there of which ``state`` is on record."""

    class Known(StateFollowers):
        def state(self, clusters: Mapping[str, ClusterSettings], flow: Flow) -> FlowState:
            return state

    file = tmp_path / "mm2.properties"
    file.write_text(text)
    settings = load(file)
    return ClusterEnds(settings, settings.enabled_flows[0], pausing, None, followed=Known())  # type: ignore[arg-type]


class Died(StateFollowers):
    """On record is an engine that reported a long time ago."""

    def state(self, clusters: Mapping[str, ClusterSettings], flow: Flow) -> FlowState:
        return FlowState(run=RunReport("RUNNING", (), 5), claim=Claim("an engine", 1, 7))


def test_what_is_on_record_of_a_flow_whose_engine_has_died_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failover of a source that is gone, with its engine, begins by it."""
    waits: list[float] = []
    simulate_pauses(monkeypatch, waits.append)
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    settings = load(file)
    ends = ClusterEnds(settings, settings.enabled_flows[0], None, None, followed=Died())  # type: ignore[arg-type]
    assert ends.copied().report_at_ms == 5
    assert waits == []


class WrittenBy(StateFollowers):
    """On record is as whom each flow has written."""

    def state(self, clusters: Mapping[str, ClusterSettings], flow: Flow) -> FlowState:
        return FlowState(writers={7} if flow == Flow("west", "east") else {8})


def test_what_the_flow_back_has_copied_is_nothing_that_the_old_side_alone_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failback called them acknowledged records that the standby lacks: it had written them to others' offsets."""
    asked: list[set[int]] = []

    def holds_record(*_: object, but_for: Collection[int], **_how: object) -> bool:
        asked.append(set(but_for))
        return True

    monkeypatch.setattr(cluster_ends, "holds_record", holds_record)
    monkeypatch.setattr(ClusterEnds, "_source", lambda _: nullcontext())
    file = tmp_path / "mm2.properties"
    file.write_text(f"{FILE}west->east.enabled = true\n")
    settings, back = load(file), Flow("west", "east")
    flow = settings.flow(Flow("east", "west"))
    assert flow is not None
    ends = ClusterEnds(settings, flow, None, None, followed=WrittenBy())  # type: ignore[arg-type]
    stretch = {TopicPartition("orders", 0): (14, 18)}
    assert ends.holding(stretch) == stretch
    assert asked == [{7, producer_of(back).producer_id}]


def test_of_a_topic_that_may_not_be_seen_it_is_not_known_that_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Describe was taken away with its deselection: verify said that nothing was left behind."""
    state = FlowState()
    state.positions[TopicPartition("internal", 0)] = Position(5, 5, 0, True, 0, "here", "there")
    ends = ends_on_record(tmp_path, state, f"{FILE}topics = orders\n")

    class Source:
        def __enter__(self) -> Source:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def topics(self, _: object) -> Found[str, Topic]:
            found: Found[str, Topic] = Found()
            found.problems["internal"] = "TOPIC_AUTHORIZATION_FAILED"
            return found

        def offsets(self, chosen: Sequence[TopicPartition], _: str) -> Found[TopicPartition, int]:
            assert not chosen
            return Found()

    monkeypatch.setattr(cluster_ends.Cluster, "connect", lambda _: Source())
    assert ends.uncopied_of_deselected()


@pytest.mark.parametrize("returning", [False, True])
def test_a_run_of_a_later_version_on_record_keeps_another_from_beginning(tmp_path: Path, returning: bool) -> None:
    """Two operators, one with a newer version; what that does nobody here knows."""
    state = FlowState()
    content = {**ENTRY.content(), "v": 2, "fences": ["/runs/2/denied.json"]}
    state.apply(json.dumps(["failover", "theirs"]).encode(), json.dumps(content).encode())

    ends = ends_on_record(tmp_path, state)
    other = in_the_way(ends.copied().failovers, "ours", returning=returning)
    assert other is not None
    message = failover_entry_message(other, ends.flow)
    assert other.fences == ("/runs/2/denied.json",), "they are those of whom it is given up for"
    assert "the run theirs of east->west is on record in a way that this version does not understand" in message
    assert in_the_way(ends.copied().failovers, "ours", returning=returning, given_up="theirs") is None


@pytest.mark.parametrize("limit", [None, "what was sent before may be appended"])
def test_copies_that_an_engine_has_left_closed_are_opened_behind_a_cut_and_forgotten_when_they_are_looked_at_once_more(
    limit: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, closed, done = FlowState(), ClosedCopy("orders", "id"), list[object]()

    class Pausing:
        def pause(self, _: Flow) -> Cut:
            done.append("cut")
            return Cut("paused", limit=limit)

    def opened(*_: object) -> Opened:
        done.append("opened")
        return Opened([closed.no_record()], {"bills": "bills on west takes no records"})

    ends = ends_on_record(tmp_path, state, pausing=Pausing())
    monkeypatch.setattr(cluster_ends.Cluster, "connect", lambda _: nullcontext())
    monkeypatch.setattr(cluster_ends, "open_again", opened)
    monkeypatch.setattr(ClusterEnds, "_record", lambda _, *records: done.extend(records))
    assert (ends.copied().closed, ends.pause()) == ((), Cut("paused", limit=limit))
    state.apply(*closed.record())
    (said,) = ends.copied().closed
    assert said.startswith("orders on west takes no records (max.message.bytes = 0)")
    assert "--bootstrap-server west:1" in said
    assert ends.pause().limit == ", and ".join([*([limit] if limit else []), "bills on west takes no records"])
    assert done == ["cut", "cut", "opened"], "what closes it may be on its way"
    assert ends.open_closed(forgets=True) == "bills on west takes no records"
    assert done[3:] == ["opened", closed.no_record()]


@pytest.mark.parametrize("untroubled", [CLEAN, None])
def test_behind_the_cut_an_engine_s_report_says_nothing_of_where_logs_end(
    tmp_path: Path, untroubled: int | None
) -> None:
    """Since two hours before the cut a leader was missing; cut two hours ago; the engine lives, and reports PAUSED.

    What is paused, and final, is not among its reasons (flow_messages.reasons), and of it nobody looks where its logs
    end: the loss was said to have begun a minute before its last report, of just now.
    """
    cut = PauseWish("cut", None, True, "mirror failover", CUT, is_cut=True)
    state = FlowState(wishes=Pauses((), None, cut), run=RunReport("PAUSED", (), NOW, untroubled_at_ms=untroubled))
    state.positions[TopicPartition("orders", 0)] = Position(5, 5, 0, True)
    ends = ends_on_record(tmp_path, state)
    copied = ends.copied()
    told = str(loss_of(ends, copied, ask_source=False))
    assert f"a minute at most before {iso_time(NOW)}, the engine's last report" not in told


@pytest.mark.parametrize("why", [None, "GROUP_AUTHORIZATION_FAILED"])
def test_where_groups_are_is_saved_of_those_too_that_have_a_checkpoint_and_are_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str | None
) -> None:
    """A topic that was made anew took the position of a hidden group with it, and nothing was saved of that."""
    orders = TopicPartition("orders", 0)

    class Old:
        def groups(self) -> Sequence[GroupListing]:
            return [GroupListing("audit", "consumer", "Empty", "")]

        def positions_of_groups(self, names: Collection[str]) -> Found[str, Found[TopicPartition, GroupPosition]]:
            told: Found[TopicPartition, GroupPosition] = Found({orders: GroupPosition(7)})
            problems = {} if why is None else {"hidden": why}
            return Found({each: told for each in names if each not in problems}, problems)

    checkpoint = Checkpoint("hidden", TopicPartition("east.orders", 0), 7, 7)
    monkeypatch.setattr(cluster_ends, "checkpoints_on_record", lambda *_: {("hidden", orders): checkpoint})
    monkeypatch.setattr(ClusterEnds, "_old_cluster", lambda _: nullcontext(Old()))
    ends, path = ends_on_record(tmp_path, FlowState()), tmp_path / "positions.csv"
    if why is not None:
        with pytest.raises(ClusterError, match="asking where group hidden is: GROUP_AUTHORIZATION_FAILED"):
            ends.save_group_positions({"orders"}, path)
        return
    assert ends.save_group_positions({"orders"}, path) == 2
    assert path.read_text() == "audit,orders,0,7\nhidden,orders,0,7\n"
