"""An engine that gains and loses leadership: one control at a time, no writing when another may lead."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror.clock import steady_seconds
from mirror.control.tick import MOST_NAMED, NotLeading
from mirror.copier.epoch_channel import EpochChannel, EpochChannelListener
from mirror.copier.epochs import Epochs
from mirror.copier.work import PartitionResult
from mirror.engine.election import Identity
from mirror.engine.flow_control import FlowControl
from mirror.engine.flow_runtime import REFUSED_SECONDS, FlowRuntime
from mirror.engine.leader import FlowLeader, digests
from mirror.engine.lease import Lease
from mirror.engine.mm2_traces import Mm2Traces
from mirror.engine.taken_producers import TakenProducers
from mirror.engine.takeovers import Takeovers
from mirror.engine.ticking import Ticking
from mirror.kafka.batch import Producer
from mirror.model.flow_state import FlowState
from mirror.model.leadership import differing, digest_of
from mirror.model.mm2_trace import Mm2Trace
from mirror.model.partition import TopicPartition
from mirror.model.patterns import PatternFilter
from mirror.model.pause import Pauses, PauseWish
from mirror.model.position import Position
from mirror.model.state_record import StateRecord
from mirror.model.state_values import DataProducer, RunReport, stopped_reason
from mirror.waiting import wait_until
from tests.flows import flow_work
from tests.unit.control.builders import flow_settings


class Electing:
    """In the place of an election: leads in these terms, one a round; None: stands by."""

    def __init__(self, *terms: int | None) -> None:
        self.terms = list(terms)
        self.term: int | None = None
        self.was_settled = False
        self.was_untroubled_at_ms: int | None = None
        self.former_seconds = 0.0
        self.differs_in: tuple[str, ...] = ()
        self.claim = None
        self.renewed_at = steady_seconds()
        self.released: list[bool] = []
        self.pauses = Pauses()
        self.said: list[StateRecord] = []
        self.pause_report = None
        self.settings: Mapping[str, str] = {}

    def publish(self, record: StateRecord) -> None:
        self.said.append(record)

    def round(self, _: object) -> bool:
        self.term = self.terms.pop(0)
        self.renewed_at = steady_seconds()
        return self.term is not None

    def release(self, _: object, *, is_settled: bool) -> None:
        self.released.append(is_settled)
        self.term = None


def leading(
    *terms: int | None, timeout_seconds: float = 600.0, **known: Any
) -> tuple[FlowLeader, FlowRuntime, Electing]:
    runtime = FlowRuntime(flow_settings())
    identity = Identity("engine", "host", 1, "place")
    leader = FlowLeader(runtime.settings, runtime, identity, timeout_seconds=timeout_seconds, **known)
    election = Electing(*terms)
    leader._election = cast(Any, election)
    return leader, runtime, election


def a_round(leader: FlowLeader) -> None:
    leader._round(cast(Any, None))


def test_leadership_lost_and_regained_within_a_round_ends_the_control_of_before() -> None:
    leader, runtime, _ = leading(1, 3, None)
    a_round(leader)
    before = leader.await_lease(threading.Event())
    a_round(leader)
    assert runtime.term == 3
    assert before is not None
    assert before.is_set()
    after = leader.await_lease(threading.Event())
    assert after is not None
    assert not after.is_set()
    a_round(leader)
    assert runtime.term is None
    assert after.is_set()


def test_an_engine_whose_spark_does_not_answer_gives_the_flow_to_another() -> None:
    stuck: list[bool] = []
    leader, runtime, election = leading(1, 2, is_stuck=lambda: bool(stuck))
    a_round(leader)
    assert runtime.term == 1
    stuck.append(True)
    a_round(leader)
    assert (runtime.term, election.released) == (None, [False])
    a_round(leader)
    assert election.released == [False], "it stands by as long as that lasts"
    stuck.clear()
    a_round(leader)
    assert runtime.term == 2


def test_an_engine_writes_no_more_while_the_thread_that_renews_its_claim_waits_for_an_answer() -> None:
    """Neither tasks nor the control plane: the right to write runs out by itself, and comes back with a renewal."""
    leader, runtime, election = leading(1, 1, timeout_seconds=0.3)
    a_round(leader)
    asked, answers, answer = SimpleQueue[object](), SimpleQueue[None](), election.round

    def wait_for_ever(report: object) -> bool:
        asked.put(report)
        answers.get(timeout=120)
        return answer(report)

    election.round = wait_for_ever  # type: ignore[method-assign]
    with (
        EpochChannel("127.0.0.1", write_seconds=lambda: runtime.lease.left) as epoch_channel,
        closing(EpochChannelListener(epoch_channel.address)) as task,
    ):
        renewing = threading.Thread(target=lambda: a_round(leader))
        renewing.start()
        asked.get(timeout=120)
        wait_until(lambda: runtime.lease.left <= 0, "the right to end", timeout_seconds=60)
        wait_until(lambda: task.signal() and not task.may_write, "the task to stop writing", timeout_seconds=60)
        with pytest.raises(NotLeading, match="another engine may lead"):
            runtime.lease.require()
        assert renewing.is_alive()
        answers.put(None)
        renewing.join()
    assert runtime.term == 1


def test_where_late_requests_are_not_refused_all_begins_anew_once_the_right_to_write_has_run_out() -> None:
    """Also of an epoch that is planned and does not run yet."""
    epochs = Epochs("local[1]", 1)
    leader, runtime, election = leading(1, lost=epochs.abort)
    a_round(leader)
    runtime.is_known, runtime.late.weakness = True, "no rights"
    a_round(leader_with(leader, election, 1))
    assert runtime.is_known
    runtime.lease = Lease(0.0)
    a_round(leader_with(leader, election, 1))
    assert not runtime.is_known
    hung_up: list[None] = []
    epochs._attach(cast(Any, SimpleNamespace(end_epoch=lambda: None, disconnect_all=lambda: hung_up.append(None))))
    assert hung_up == [None]
    epochs._attach(None)
    epochs._attach(cast(Any, SimpleNamespace(end_epoch=lambda: None, disconnect_all=lambda: hung_up.append(None))))
    assert hung_up == [None], "the next one runs"


def test_the_right_to_write_ends_with_the_term_and_before_the_flow_is_released() -> None:
    leader, runtime, election = leading(1, 3, None, 4)
    a_round(leader)
    first = runtime.lease
    assert first.left > 0
    a_round(leader)
    second = runtime.lease
    assert first.left < 0 < second.left
    first.renew(steady_seconds())
    assert first.left < 0
    a_round(leader)
    assert second.left < 0
    a_round(leader)
    left: list[float] = []
    election.release = lambda *_, **__: left.append(runtime.lease.left)  # type: ignore[method-assign]
    leader._release(0)
    assert left == [-math.inf]


def test_the_right_to_write_ends_well_before_another_may_lead() -> None:
    """What was sent in its last moment is still under way then."""
    leader, runtime, _ = leading(1, timeout_seconds=600.0)
    a_round(leader)
    assert 300.0 < runtime.lease.left <= 400.0


@pytest.mark.parametrize("is_settled", [True, False])
def test_what_is_said_when_the_flow_is_released_is_what_is_known(*, is_settled: bool) -> None:
    """A leader that says that all has arrived is not waited for."""
    leader, _, election = leading(1)
    a_round(leader)
    leader.end(is_settled=is_settled)
    leader._release(0)
    assert election.released == [is_settled]


def test_it_is_waited_for_as_long_as_the_leader_before_may_write_by_its_own_file() -> None:
    leader, runtime, election = leading(1, 2, timeout_seconds=0.003)
    election.former_seconds = 900.0
    a_round(leader)
    wait_until(lambda: runtime.lease.left <= 0, "its own right to be over", timeout_seconds=60)
    assert not runtime.lease.is_alone()
    election.former_seconds = 0.003
    a_round(leader)
    wait_until(runtime.lease.is_alone, "that of the one before to be over", timeout_seconds=60)


def test_where_the_leader_before_may_still_write_its_successor_waits_until_it_may_not() -> None:
    """It may have been seen as gone although tasks of it are at work, or have renewed its claim since it was read."""
    runtime, producers = FlowRuntime(flow_settings()), SimpleNamespace(unrefused=DataProducer(7, 3))
    target: Any = SimpleNamespace(cluster_id="west")
    ticking = Ticking(lambda _: None, lambda _: None)
    control = FlowControl(runtime, target, target, ticking, cast(Any, producers), matches_mm2=False)

    def waits(seconds: float, *, was_settled: bool = False) -> bool:
        runtime.lead(2, was_settled=was_settled, lease=Lease(seconds))
        return control._may_have_foreign_writers()

    assert waits(600.0)
    assert not waits(0.0)
    assert not waits(600.0, was_settled=True), "nothing of the one before is on its way"
    producers.unrefused = DataProducer(7, 3, "its tasks went on for longer: what they sent would have been refused")
    assert waits(0.0)
    assert not waits(-REFUSED_SECONDS)
    runtime.tasks_write_until = math.inf
    producers.unrefused = DataProducer(7, 3)
    assert waits(-REFUSED_SECONDS), "a task of an epoch that failed may be cut off from its driver, and go on"
    producers.unrefused = None
    assert not waits(600.0), "what it writes is refused, or there was none"


def leader_with(leader: FlowLeader, election: Electing, *terms: int) -> FlowLeader:
    election.terms = list(terms)
    return leader


def test_a_takeover_from_java_waits_until_nothing_of_the_engine_before_can_arrive() -> None:
    source, copy = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
    runtime = FlowRuntime(flow_settings())
    runtime.partitions = ((source, copy, "", ""),)
    runtime.lead(2, was_settled=False)
    known = FlowState(positions={source: Position(10, 10, 0, True, target="east.orders")})
    runtime.take_state(known, Mm2Traces(certain={source: Mm2Trace(20)}), TakenProducers(producer=Producer(7, 4)))
    flow = runtime.settings.flow
    takeovers = Takeovers(cast(Any, None), {flow: runtime}, lambda _: flow_work())
    assert takeovers._plan() is None
    runtime.take_fenced({copy}, {}, known)
    assert takeovers._plan() is not None


PRINTED_DIGESTS = """
import json, sys
from pathlib import Path
from mirror.config.resolving import load
from mirror.engine.leader import digests
(flow,) = load(Path(sys.argv[1])).enabled_flows
print(json.dumps(digests(flow, 6.0)))
"""
DROPPING = """
clusters = east, west
east.bootstrap.servers = e:1
west.bootstrap.servers = w:1
east->west.enabled = true
east->west.transforms = d
east->west.transforms.d.type = org.apache.kafka.connect.transforms.DropHeaders
east->west.transforms.d.headers = trace, span, tenant, region, shard, origin
"""


def test_engines_with_the_same_file_have_the_same_digests_whatever_seed_their_hashes_have(tmp_path: Path) -> None:
    """They run in processes of their own, and each said that the other's file differed."""
    file = tmp_path / "mirror.properties"
    file.write_text(DROPPING)
    told = [
        subprocess.run(
            [sys.executable, "-c", PRINTED_DIGESTS, str(file)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    ]
    assert len(set(told)) == 1


def test_other_headers_to_drop_are_another_setting() -> None:
    dropping = "\n".join(DROPPING.strip().splitlines()[4:])
    first, second = flow_settings(dropping), flow_settings(dropping.replace("span, ", ""))
    assert digests(first, 6.0)["transforms"] != digests(second, 6.0)["transforms"]


def test_files_of_which_one_has_copies_with_the_source_s_offsets_differ() -> None:
    """Whoever leads by the other one would go on with them at offsets of their own."""
    first, second = digests(flow_settings(), 6.0), digests(flow_settings("mirror.offsets = same"), 6.0)
    assert differing(first, second) == ("mirror.offsets",)


def test_files_with_the_same_settings_have_the_same_digests_and_values_do_not_show() -> None:
    assert digests(flow_settings("topics = a"), 6.0) == digests(flow_settings("topics = a"), 6.0)
    first, second = digests(flow_settings("topics = secret-name"), 6.0), digests(flow_settings("topics = other"), 5.0)
    assert {key for key in first if first[key] != second[key]} == {"topics", "mirror.leader.timeout.seconds"}
    assert "secret-name" not in repr(first)


def test_a_flow_whose_target_has_long_been_away_leaves_the_epochs_of_the_others_and_comes_back() -> None:
    """Where late requests are refused, tasks go on for a while behind the end of the right to write, but not for ever.

    Brokers forget a producer's epochs, and a frozen engine may thaw behind that.
    """
    leader, runtime, election = leading(1, 1, 1)
    ending: list[bool] = []
    a_round(leader)
    runtime.changed = lambda: ending.append(runtime.may_be_copied)
    runtime.lease = Lease(0.0)
    runtime.lease.renew(steady_seconds())
    assert (runtime.may_be_copied, runtime.grace_seconds) == (True, REFUSED_SECONDS)
    runtime.late.weakness = "no rights"
    assert (runtime.may_be_copied, runtime.grace_seconds) == (False, 0.0)
    runtime.late.weakness, runtime.lease = None, Lease(-100.0)
    a_round(leader)
    assert ending == [False]
    runtime.lease = Lease(600.0)
    a_round(leader)
    assert ending == [False, True]
    assert election.terms == []


def test_copies_with_the_source_s_offsets_are_written_no_longer_than_the_right_to_write_lasts() -> None:
    """Nothing refuses there what is late, and whoever has paused the flow meanwhile may have applications write."""
    assert FlowRuntime(flow_settings("mirror.offsets = same")).grace_seconds == 0.0


def test_an_engine_that_stops_ends_its_control_and_leads_until_nothing_of_it_is_written_any_more() -> None:
    leader, runtime, election = leading(1)
    assert leader.await_lease(stopped()) is None
    a_round(leader)
    lease = leader.await_lease(threading.Event())
    assert lease is not None
    leader.over()
    assert lease.is_set()
    assert leader.await_lease(stopped()) is None
    assert not leader._leads.is_set(), "no control begins any more"
    assert (runtime.term, election.released) == (1, [])
    leader.end(is_settled=True)
    assert leader._ended.is_set()
    leader._release(0)
    assert election.released == [True]


def stopped() -> threading.Event:
    stop = threading.Event()
    stop.set()
    return stop


def test_a_report_says_starting_until_an_epoch_has_reported_or_something_is_wrong() -> None:
    leader, runtime, _ = leading(1)
    a_round(leader)
    assert leader._report().state == "STARTING"
    runtime.take_trouble(TopicPartition("orders", 0), "no leader")
    assert leader._report().state == "DEGRADED"
    runtime.take_result(PartitionResult(runtime.settings.flow, TopicPartition("orders", 0), None))
    assert leader._report().state == "RUNNING"


def test_a_report_with_troubles_says_when_there_were_none() -> None:
    """What the source has acknowledged since is what a failover may lose."""
    leader, runtime, _ = leading(1)
    a_round(leader)
    assert leader._report().untroubled_at_ms is None, "nothing was copied yet"
    runtime.take_result(PartitionResult(runtime.settings.flow, TopicPartition("orders", 0), None))
    untroubled = leader._report()
    assert (untroubled.state, untroubled.untroubled_at_ms) == ("RUNNING", None)
    runtime.take_trouble(TopicPartition("orders", 0), "no leader")
    assert [leader._report().untroubled_at_ms for _ in range(2)] == [untroubled.at_ms] * 2


def test_an_engine_that_is_started_in_the_middle_of_an_outage_says_when_those_before_it_had_no_trouble() -> None:
    """The engine was killed, then the source: nothing was known of since when records may be lost."""
    leader, runtime, election = leading(1)
    election.was_untroubled_at_ms = 5
    a_round(leader)
    assert (leader._report().state, leader._report().untroubled_at_ms) == ("STARTING", 5)
    runtime.take_trouble(TopicPartition("orders", 0), "no leader")
    assert (leader._report().state, leader._report().untroubled_at_ms) == ("DEGRADED", 5)


def test_by_a_file_that_has_changed_nobody_has_copied_without_trouble_yet() -> None:
    """Topics that are chosen since were not copied when the last report said that all was well."""
    leader, runtime, election = leading(1, 1)
    election.settings = digests(runtime.settings, 600.0)
    election.was_untroubled_at_ms = 5
    a_round(leader)
    runtime.take_result(PartitionResult(runtime.settings.flow, TopicPartition("orders", 0), None))
    before = leader._report()
    assert (before.state, before.settings) == ("RUNNING", digest_of(election.settings))
    runtime.take_settings(replace(runtime.settings, topic_filter=PatternFilter(("orders", "bills"), ())))
    a_round(leader)
    runtime.take_trouble(TopicPartition("orders", 0), "no leader")
    after = leader._report()
    assert (after.state, after.untroubled_at_ms, after.settings) == ("DEGRADED", None, digest_of(election.settings))
    assert after.settings != before.settings


def test_where_topics_are_paused_a_report_without_trouble_says_nothing_of_when_all_was_seen() -> None:
    """An outage behind a pause, ended meanwhile, narrowed what a failover may lose of what had been paused."""
    leader, runtime, _ = leading(1)
    a_round(leader)
    runtime.take_result(PartitionResult(runtime.settings.flow, TopicPartition("orders", 0), None))
    runtime.pauses = Pauses((PauseWish("bills", "bills", True, "ann", 1),))
    assert leader._report().state == "PAUSED"
    runtime.pauses = Pauses()
    runtime.take_trouble(TopicPartition("orders", 0), "no leader")
    assert leader._report().untroubled_at_ms is None


def test_an_engine_that_stops_in_the_middle_of_an_outage_leaves_word_of_it() -> None:
    """All that the source had acknowledged passed for seen up to some seconds before the engine was stopped."""
    leader, runtime, election = leading(1)
    a_round(leader)
    runtime.take_result(PartitionResult(runtime.settings.flow, TopicPartition("orders", 0), None))
    untroubled = leader._report()
    runtime.take_trouble(TopicPartition("orders", 0), "no leader")
    released: list[RunReport] = []
    election.release = lambda report, **_: released.append(report)  # type: ignore[method-assign,misc,assignment]
    leader._release(0)
    assert [(each.state, each.reasons, each.untroubled_at_ms) for each in released] == [
        ("STOPPED", ("orders-0: no leader",), untroubled.at_ms)
    ]


def test_an_engine_that_stops_while_topics_are_paused_leaves_word_of_that_and_since_when() -> None:
    """Once the pause was over its last report passed for one of an engine that had seen where all logs ended."""
    leader, runtime, _ = leading(1)
    a_round(leader)
    runtime.take_result(PartitionResult(runtime.settings.flow, TopicPartition("orders", 0), None))
    untroubled = leader._report()
    runtime.pauses = Pauses((PauseWish("bills", "bills", True, "ann", 1),))
    last = leader._report().left_behind()
    assert last.troubles == ("topics were paused: where their logs ended was not seen",)
    assert last.untroubled_at_ms == untroubled.at_ms


def test_a_report_says_which_partitions_are_stopped_as_far_as_its_reasons_name_them() -> None:
    leader, runtime, _ = leading(1)
    a_round(leader)
    for number in range(2 * MOST_NAMED):
        source = TopicPartition("orders", number)
        runtime.take_result(PartitionResult(runtime.settings.flow, source, None, stopped=f"poison at {number}"))
    report = leader._report()
    assert report.stopped == {TopicPartition("orders", number): f"poison at {number}" for number in range(MOST_NAMED)}
    told = [stopped_reason(source, why) for source, why in report.stopped.items()]
    assert list(report.reasons[:MOST_NAMED]) == told


def test_a_file_that_has_changed_is_told_apart_from_those_of_the_other_engines() -> None:
    leader, runtime, election = leading(None, None)
    leader._round(cast(Any, None))
    assert election.settings == {}, "it has said so when it began"
    runtime.take_settings(replace(runtime.settings, group_filter=PatternFilter(("readers",), ())))
    leader._round(cast(Any, None))
    assert election.settings == digests(runtime.settings, 600.0)
