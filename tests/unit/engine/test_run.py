"""What happens to an engine after its start: a defect of its own ends it, and by itself it takes all cores."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from mirror.clock import steady_seconds
from mirror.config.errors import ConfigError
from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings, MirrorSettings
from mirror.copier.epochs import EpochFailed, Epochs
from mirror.copier.work import Handover, PartitionResult, TaskResult, TaskWork
from mirror.engine import flow_messages
from mirror.engine import run as module
from mirror.engine.cluster_news import Away, ClusterNews
from mirror.engine.connecting import connect_source
from mirror.engine.flow_runtime import REFUSED_SECONDS, FlowRuntime
from mirror.engine.leader import FlowLeader
from mirror.engine.lease import Lease
from mirror.engine.refusals import NotReachable
from mirror.engine.run import Engine, PartEnded
from mirror.engine.settled import settled
from mirror.engine.takeovers import Takeovers
from mirror.engine.ticking import Ticking
from mirror.kafka.answers import Found
from mirror.kafka.cluster import Cluster
from mirror.kafka.problems import ClusterUnreachable, ConnectionFailed
from mirror.model.copied import Copied
from mirror.model.flow import Flow
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from mirror.model.state_record import term_of
from tests.flows import EAST_WEST


@dataclass(frozen=True)
class Connected:
    """A connection to a cluster that has no topics, and brokers enough."""

    alias: str
    cluster_id: str

    def topics(self, _: object = None) -> Found[str, object]:
        return Found()

    def broker_ids(self) -> tuple[int, ...]:
        return (1, 2, 3)

    def __enter__(self) -> Connected:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """As `Cluster.close`."""


class NoSpark(Epochs):
    """Epochs that nothing is started for."""

    stopped = 0

    def start(self) -> None:
        pass

    def run(self, works: Sequence[TaskWork]) -> list[TaskResult]:
        raise AssertionError(f"there is nothing to be copied: {works}")

    def stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def settings(tmp_path: Path) -> MirrorSettings:
    """Two clusters and a flow, and nothing set."""
    file = tmp_path / "mirror.properties"
    file.write_text(
        "clusters = east, west\neast.bootstrap.servers = east:9092\nwest.bootstrap.servers = west:9092\n"
        "east->west.enabled = true\n"
    )
    return load(file)


def test_each_flow_knows_for_how_long_the_tasks_of_the_epoch_are_silent(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Epochs, "silent_seconds", lambda _: 42.0)
    (runtime,) = Engine(settings).runtimes.values()
    assert runtime.silent_seconds() == 42.0


@pytest.mark.parametrize(
    ("place", "thread"),
    [
        ((Engine, "_control"), "control east->west"),
        ((Engine, "_heartbeats"), "heartbeats east->west"),
        ((Takeovers, "run"), "takeovers"),
        ((Engine, "_wind_down"), "stop"),
        ((Engine, "_copy"), "copy"),
    ],
)
def test_a_defect_in_any_thread_ends_the_engine_and_is_raised(
    place: tuple[type, str],
    thread: str,
    settings: MirrorSettings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """CLI-05: MirrorMaker 2 stays as a process that does nothing."""

    def defect(*_: object) -> None:
        raise KeyError("oops")

    for owner, name in {place, (Engine, "_control"), (Engine, "_heartbeats"), (Takeovers, "run")}:
        monkeypatch.setattr(owner, name, defect if (owner, name) == place else lambda *_: None)
    monkeypatch.setattr(Engine, "check", lambda *_: None)
    monkeypatch.setattr(Engine, "_lead", lambda *_: None)
    monkeypatch.setattr(module, "Epochs", NoSpark)
    engine, stop = Engine(settings, clusters=["west"]), threading.Event()
    ran_idle = threading.Event()

    def lose_patience() -> None:
        ran_idle.set()
        stop.set()

    patience = threading.Timer(5.0, lose_patience)
    patience.start()
    try:
        with pytest.raises(PartEnded, match=thread) as ended:
            engine.run(stop)
    finally:
        patience.cancel()
    assert isinstance(ended.value.__cause__, KeyError)
    assert f"{thread} ended by a defect, so the engine stops" in caplog.messages
    assert not ran_idle.is_set()
    assert isinstance(engine._epochs, NoSpark)
    assert engine._epochs.stopped == 1


def test_an_engine_that_stops_waits_for_no_cluster_that_does_not_answer(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C took ten seconds while the only target was a frozen broker: its threads ask it until they time out."""
    answer, ran_out = Future[None](), threading.Event()

    def await_answer(*_: object) -> None:
        answer.result()

    for name in ("_lead", "_control", "_heartbeats"):
        monkeypatch.setattr(Engine, name, await_answer)
    monkeypatch.setattr(Engine, "check", lambda *_: None)
    monkeypatch.setattr(Takeovers, "run", lambda _, stop: stop.set())
    monkeypatch.setattr(module, "Epochs", NoSpark)
    # What an engine waits for is then not told from waiting for ever.
    monkeypatch.setattr(module, "_STOP_SECONDS", 600.0)
    monkeypatch.setattr(module, "_RELEASE_SECONDS", 600.0)
    engine, stop = Engine(settings), threading.Event()
    monkeypatch.setattr(engine._clusters["west"], "_ask", lambda: Away("no answer"))
    engine._clusters["west"].begin_away(Away("no answer"))

    def lose_patience() -> None:
        ran_out.set()
        answer.set_result(None)

    patience = threading.Timer(60.0, lose_patience)
    patience.start()
    try:
        engine.run(stop)
    finally:
        patience.cancel()
    assert not ran_out.is_set()
    answer.set_result(None)


def test_an_engine_told_to_stop_while_it_asks_its_clusters_for_the_first_time_waits_for_no_answer(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C behind `mirror run` at two addresses that never answer took seventeen seconds."""
    answer, stop, asked = Future[None](), threading.Event(), list[str]()

    def connect(found: ClusterSettings) -> Connected:
        asked.append(found.alias)
        # Each of the two is asked although the other does not answer.
        if len(asked) == 2:
            stop.set()
        answer.result(60)
        return Connected(found.alias, found.alias)

    monkeypatch.setattr(Cluster, "connect", connect)
    monkeypatch.setattr(module, "Epochs", NoSpark)
    engine = Engine(settings)
    engine.run(stop)
    answer.set_result(None)
    assert isinstance(engine._epochs, NoSpark)
    assert engine._epochs.stopped == 0


def test_a_defect_in_a_thread_that_is_none_of_the_engines_ends_it_too(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a library, or begun by a thread of its own."""

    def begin_another(*_: object) -> None:
        def defect() -> None:
            raise KeyError("oops")

        threading.Thread(target=defect, name="of a library").start()

    for owner, name in ((Engine, "_heartbeats"), (Takeovers, "run"), (Engine, "_lead")):
        monkeypatch.setattr(owner, name, lambda *_: None)
    monkeypatch.setattr(Engine, "_control", begin_another)
    monkeypatch.setattr(Engine, "check", lambda *_: None)
    monkeypatch.setattr(module, "Epochs", NoSpark)
    hook = threading.excepthook
    with pytest.raises(PartEnded, match="of a library") as ended:
        Engine(settings, clusters=["west"]).run(threading.Event())
    assert isinstance(ended.value.__cause__, KeyError)
    assert threading.excepthook is hook or threading.excepthook is threading.__excepthook__


def two_ways(settings: MirrorSettings, *lines: str) -> MirrorSettings:
    with settings.path.open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))
    return load(settings.path)


def test_a_login_is_not_sent_over_a_network_as_it_is(settings: MirrorSettings) -> None:
    with_login = two_ways(settings, "west.sasl.jaas.config = x required;")
    with pytest.raises(ConfigError, match=r"spark\.authenticate\.secret"):
        Engine(with_login, master="spark://host:7077")
    Engine(with_login, master="spark://host:7077", spark_conf={"spark.authenticate": "false"})
    Engine(settings, master="spark://host:7077")


def test_only_flows_into_the_clusters_that_are_named_run(settings: MirrorSettings) -> None:
    both = two_ways(settings, "west->east.enabled = true")
    assert sorted(str(flow) for flow in Engine(both)._runtimes) == ["east->west", "west->east"]
    assert [str(flow) for flow in Engine(both, clusters=["west"])._runtimes] == ["east->west"]


def test_a_cluster_that_the_file_does_not_name_is_refused(settings: MirrorSettings) -> None:
    with pytest.raises(ConfigError, match="nord, süd is not among clusters"):
        Engine(settings, clusters=["west", "süd", "nord"])


def test_a_file_without_an_enabled_flow_into_the_clusters_that_are_named_is_refused(settings: MirrorSettings) -> None:
    with pytest.raises(ConfigError, match="no enabled flow has its target among east"):
        Engine(settings, clusters=["east"])


def test_tasks_share_by_what_partitions_move_and_idle_ones_spread_as_well(settings: MirrorSettings) -> None:
    engine = Engine(settings)
    (runtime,) = engine._runtimes.values()
    runtime.lead(1, was_settled=True, lease=(lease := Lease(600.0)))
    lease.renew(steady_seconds())
    orders = [TopicPartition("orders", number) for number in range(4)]
    copies = [TopicPartition("east.orders", number) for number in range(4)]
    runtime.partitions = tuple((source, copy, "", "") for source, copy in zip(orders, copies, strict=True))
    runtime.is_known = True
    flow = runtime.settings.flow

    def shares() -> list[list[int]]:
        return [[one.source.partition for one in work.partitions] for work in engine._plan_epoch(1.0, 2)]

    engine._loads = {(flow, source): 0.0 for source in orders}
    assert sorted(map(len, shares())) == [2, 2]
    engine._loads = {(flow, orders[0]): 1e6, (flow, orders[1]): 1.0, (flow, orders[2]): 2.0}
    assert sorted(shares(), key=len) == [[0], [3, 2, 1]], "one that was not measured is not taken for idle"


class Written:
    """What is appended to a state topic, which may be away."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem = problem
        self.records: list[tuple[str, int, list[tuple[object, ...]]]] = []

    def __call__(self, *_: object, **__: object) -> Written:
        return self

    def append(self, topic: str, partition: int, records: list[tuple[object, ...]]) -> int:
        if self.problem is not None:
            raise self.problem
        self.records.append((topic, partition, records))
        return 0

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("is_led", "lease", "problem"),
    [(True, 600.0, None), (False, 600.0, None), (True, 0.0, None), (True, 600.0, ConnectionFailed("west is away"))],
    ids=["leads", "stands by", "may not write any more", "target away"],
)
def test_where_nothing_is_under_way_at_the_end_is_recorded_by_who_leads(
    is_led: bool,
    lease: float,
    problem: Exception | None,
    settings: MirrorSettings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """So that the next engine need not compare what lies behind its positions."""
    log = Written(problem)
    monkeypatch.setattr(module, "LogWriter", log)
    engine = Engine(settings)
    (runtime,) = engine._runtimes.values()
    orders = TopicPartition("orders", 0)
    if is_led:
        runtime.lead(5, was_settled=True, lease=(right := Lease(lease)))
        right.renew(steady_seconds())
    runtime.is_known = True
    runtime.handovers[orders] = Handover(Position(3, 3, 0, True), (), clean=True)
    engine._settle()
    if is_led and lease and problem is None:
        ((topic, partition, records),) = log.records
        assert (topic, partition, len(records)) == ("mm2-state.east.internal", 0, 1)
        key, value, headers, _ = records[0]
        assert (key, value) == Position(3, 3, 0, True, settled=True, settled_in=5).record(orders)
        assert term_of(headers) == 5  # type: ignore[arg-type]
    else:
        assert log.records == []
    told = ["the next start compares what lies behind its positions: west is away"] if problem else []
    assert [each for each in caplog.messages if "next start" in each] == told


@pytest.mark.parametrize(("lines", "tasks"), [("", 7), ("tasks.max = 1\n", 7), ("mirror.tasks = 3\n", 3)])
def test_by_itself_an_epoch_has_as_many_tasks_as_there_are_cores(
    lines: str, tasks: int, settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WANT-09: what MirrorMaker 2 is told of tasks, by default one, holds nothing back."""
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    with settings.path.open("a") as file:
        file.write(lines)
    assert Epochs(None, load(settings.path).engine.tasks).at_once() == tasks


def test_a_cluster_that_goes_away_right_after_the_check_is_asked_again_and_the_flow_begins(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No cluster is there all the time; what does not answer shows as the flow's problem, and ends nothing."""
    asked: list[str] = []

    def connect(of: ClusterSettings) -> Connected:
        asked.append(of.alias)
        if len(asked) <= 2:
            raise ClusterUnreachable(of.alias, of.bootstrap_servers, "connection refused")
        return Connected(of.alias, f"the id of {of.alias}")

    begun: list[tuple[str, str]] = []
    stop = threading.Event()

    class Begun:
        def __init__(self, _runtime: object, source: None, target: Connected, *_: object, **__: object) -> None:
            assert source is None, "a source that is away keeps nobody from taking the flow over"
            self.target = target

        def run(
            self,
            over: threading.Event,
            _await_copy: object,
            find_source: Callable[[Ticking, threading.Event], Connected],
        ) -> threading.Thread:
            begun.append((find_source(Ticking(lambda _: None, EAST_WEST), over).alias, self.target.alias))
            stop.set()
            return threading.Thread()

    monkeypatch.setattr(Cluster, "connect", connect)
    monkeypatch.setattr("mirror.engine.connecting._RETRY_SECONDS", 0.01)
    monkeypatch.setattr(module, "news_of", lambda of: ClusterNews(of.alias, lambda: None))
    monkeypatch.setattr(module, "FlowControl", Begun)
    monkeypatch.setattr(module, "Epochs", NoSpark)
    monkeypatch.setattr(Engine, "check", lambda *_: None)
    monkeypatch.setattr(Engine, "_heartbeats", lambda *_: None)
    monkeypatch.setattr(Engine, "_lead", lambda *_: None)
    monkeypatch.setattr(FlowLeader, "await_lease", lambda _, stop: None if stop.is_set() else threading.Event())
    caplog.set_level("INFO", "mirror")
    engine = Engine(settings, clusters=["west"])
    # Somebody is about to put another file there: it is not asked for anything by then.
    settings.path.unlink()
    engine.run(stop)

    assert asked == ["west", "west", "west", "east"]
    assert begun == [("east", "west")]
    assert not [line for line in caplog.messages if "connection" in line], "it was over before it was certain"


def test_what_is_away_at_the_start_is_told_behind_the_engines_name(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def connect(of: ClusterSettings) -> Connected:
        if of.alias == "east":
            raise ClusterUnreachable(of.alias, of.bootstrap_servers, f"{of.bootstrap_servers}: connection refused")
        return Connected(of.alias, f"the id of {of.alias}")

    monkeypatch.setattr(Cluster, "connect", connect)
    monkeypatch.setattr("mirror.engine.start_check._require_brokers", lambda *_: None)
    for name in ("_control", "_heartbeats", "_lead"):
        monkeypatch.setattr(Engine, name, lambda *_: None)
    monkeypatch.setattr(Engine, "_copy", lambda _, stop: stop.set())
    monkeypatch.setattr(Takeovers, "run", lambda *_: None)
    monkeypatch.setattr(module, "Epochs", NoSpark)
    caplog.set_level("INFO", "mirror")
    Engine(settings).run(threading.Event())
    assert [line for line in caplog.messages if "starts" in line or "answer" in line][1:] == [
        "east does not answer (east:9092: connection refused); trying again"
    ]


def connecting(**outcomes: str | ClusterUnreachable) -> Callable[[ClusterSettings], Connected]:
    """Return what connects to clusters: of each its id, or why it is away."""

    def connect(of: ClusterSettings) -> Connected:
        outcome = outcomes[of.alias]
        if isinstance(outcome, ClusterUnreachable):
            raise outcome
        return Connected(of.alias, outcome)

    return connect


def away(alias: str, *, is_for_people: bool) -> ClusterUnreachable:
    return ClusterUnreachable(alias, f"{alias}:9092", "it is away", is_for_people=is_for_people)


def test_an_engine_waits_for_targets_that_are_away_and_not_for_what_only_people_can_mend(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut the line may be up last; a login that is refused, or a name that nobody has, is no outage."""
    with settings.path.open("a") as file:
        file.write("clusters = east, west, south\nsouth.bootstrap.servers = south:9092\neast->south.enabled = true\n")
    engine = Engine(load(settings.path))
    wrong, gone = (partial(away, is_for_people=each) for each in (True, False))
    for west, south, starts in (
        (gone("west"), gone("south"), True),
        (wrong("west"), gone("south"), True),
        (wrong("west"), "the south", True),
        (wrong("west"), wrong("south"), False),
    ):
        monkeypatch.setattr(Cluster, "connect", connecting(east="the east", west=west, south=south))
        if starts:
            engine.check()
            continue
        with pytest.raises(NotReachable) as refused:
            engine.check()
        assert (refused.value.line, refused.value.key) == (3, "west.bootstrap.servers")
    monkeypatch.setattr(Cluster, "connect", connecting(east=gone("east"), west=gone("west"), south=gone("south")))
    engine.check()


def test_a_cluster_that_turns_out_to_be_the_other_one_later_is_a_problem_of_its_flow_alone(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was away at the start, so that nobody could tell; people may give it another address meanwhile."""
    ids, stop, connections = ["one", "another"], threading.Event(), ExitStack()

    def connect(of: ClusterSettings) -> Connected:
        if len(ids) == 1:
            told.extend(flow_messages.reasons(runtime))
        return Connected(of.alias, ids.pop(0))

    told: list[str] = []
    monkeypatch.setattr(Cluster, "connect", connect)
    monkeypatch.setattr("mirror.engine.connecting._SAME_CLUSTER_SECONDS", 0.0)
    engine = Engine(settings, clusters=["west"])
    (runtime,) = engine._runtimes.values()
    flow, target = runtime.settings.flow, cast(Any, Connected("west", "one"))
    settings_of_source = partial(engine._admin, flow, "east")
    found = connect_source(settings_of_source, flow, target, engine._ticking(flow), stop, connections)
    assert told == [
        (
            "clusters of east->west: east and west are the same cluster (id one): replicating would never end; give "
            "the address of another cluster"
        )
    ]
    assert found is not None
    assert (found.cluster_id, flow_messages.reasons(runtime), ids) == ("another", (), [])
    ids[:] = ["one"]
    stop.set()
    nobody = connect_source(settings_of_source, flow, target, engine._ticking(flow), stop, connections)
    assert nobody is None, "nothing is copied with one cluster at both ends"


def test_tasks_write_for_as_long_as_the_engine_may_and_a_flow_that_it_may_not_write_is_not_copied(
    settings: MirrorSettings,
) -> None:
    """In the term in which the epoch was planned: of a later one its tasks know nothing."""
    engine = Engine(settings)
    assert engine._plan_epoch(1.0, 2) == []
    assert engine._write_seconds() == math.inf
    (runtime,) = engine._runtimes.values()
    orders = TopicPartition("orders", 0), TopicPartition("east.orders", 0), "", ""

    def planned(lease: Lease, weak_fence: str | None) -> bool:
        runtime.lead(1, was_settled=True, lease=lease)
        lease.renew(steady_seconds())
        runtime.partitions, runtime.late.weakness, runtime.is_known = (orders,), weak_fence, True
        return bool([work for work in engine._plan_epoch(1.0, 2) if work.partitions])

    assert not planned(Lease(0.0), "no rights")
    first = Lease(600.0)
    assert planned(first, "no rights")
    assert 0 < engine._write_seconds() <= first.left + 1
    runtime.lead(3, was_settled=True, lease=Lease())
    assert engine._write_seconds() <= 600
    first.end()
    assert engine._write_seconds() == -math.inf
    assert planned(Lease(0.0), None)
    assert 0 < engine._write_seconds() <= REFUSED_SECONDS


def test_what_an_epoch_is_planned_from_does_not_change_while_it_is_planned(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its results are taken in only for the beginning it was planned from, which another thread may replace."""
    monkeypatch.setattr(module, "Epochs", NoSpark)
    engine, stop = Engine(settings, clusters=["west"]), threading.Event()
    (runtime,) = engine._runtimes.values()
    could_change: list[bool] = []

    def plan(*_: object) -> list[TaskWork]:
        other = threading.Thread(target=lambda: could_change.append(runtime.lock.acquire(blocking=False)))
        other.start()
        other.join()
        stop.set()
        return []

    monkeypatch.setattr(engine, "_plan_epoch", plan)
    engine._copy(stop)
    assert could_change == [False]


def test_an_epoch_that_failed_without_a_task_takes_nothing_of_the_time_that_tasks_cut_off_before_have(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark could not be started again while a task of the epoch before still wrote."""
    stop = threading.Event()
    failures = [EpochFailed("the JVM did not start"), EpochFailed("its executor is lost", write_until=math.inf)]

    class Failing(NoSpark):
        def run(self, works: Sequence[TaskWork]) -> list[TaskResult]:
            assert works
            failure = failures.pop()
            if not failures:
                stop.set()
            raise failure

    monkeypatch.setattr(module, "Epochs", Failing)
    monkeypatch.setattr(module, "_BACKOFF_SECONDS", 0.0)
    engine = Engine(settings, clusters=["west"])
    monkeypatch.setattr(engine, "_plan_epoch", lambda *_: [TaskWork((), (), 1.0, 1.0)])
    engine._copy(stop)
    (runtime,) = engine._runtimes.values()
    assert runtime.tasks_write_until == math.inf


def test_what_is_copied_is_counted_over_epochs_also_those_that_are_lost(
    settings: MirrorSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task tells while it runs; whoever is killed has told of what it had copied up to then."""
    stop, flow, source = threading.Event(), Flow("east", "west"), TopicPartition("orders", 0)
    epochs = iter((7, None, 5))

    class Told(NoSpark):
        def run(self, works: Sequence[TaskWork]) -> list[TaskResult]:
            (work,) = works
            assert work.reports_copied
            engine._take_copied({(flow, source): Copied(4, 40)})
            records = next(epochs)
            if records is None:
                raise EpochFailed("its executor is lost")
            if records == 5:
                stop.set()
            return [TaskResult((PartitionResult(flow, source, None, records=records, bytes=10 * records),))]

    monkeypatch.setattr(module, "Epochs", Told)
    monkeypatch.setattr(module, "_BACKOFF_SECONDS", 0.0)
    engine = Engine(settings, clusters=["west"], reports_copied=True)
    monkeypatch.setattr(engine, "_plan_epoch", lambda *_: [TaskWork((), (), 1.0, 1.0, reports_copied=True)])
    monkeypatch.setattr(FlowRuntime, "take_result", lambda *_: None)
    engine._copy(stop)
    figures = engine.tallies[flow].partitions()[source]
    assert (figures.records, figures.bytes) == (7 + 4 + 5, 160)
    assert (engine.epochs_ended, engine.epochs_failed) == (2, 1)


def test_an_engine_says_which_of_its_parts_are_not_at_work(settings: MirrorSettings) -> None:
    engine = Engine(settings)
    assert engine.wrong() == ()
    ended = threading.Thread(target=lambda: None, name="leader east->west")
    ended.start()
    ended.join()
    engine._parts = (ended,)
    engine._over_at = -math.inf
    engine._defects.append(("control east->west", KeyError("oops")))
    assert engine.wrong() == (
        "control east->west ended by a defect: KeyError('oops')",
        "leader east->west has ended",
        "Spark does not end an epoch that was cancelled minutes ago",
    )


def test_where_nothing_refuses_what_arrives_late_no_partition_is_settled(settings: MirrorSettings) -> None:
    (runtime,) = Engine(settings)._runtimes.values()
    orders, bills = TopicPartition("orders", 0), TopicPartition("bills", 0)
    runtime.lead(5, was_settled=True, lease=Lease())
    runtime.is_known = True
    for each in (orders, bills):
        runtime.handovers[each] = Handover(Position(3, 3, 0, True), (), clean=True)
    assert runtime.is_settled
    runtime.late.unrefused[TopicPartition("east.orders", 0)] = 7
    assert not runtime.is_settled
    assert settled(runtime) == [Position(3, 3, 0, True, settled=True, settled_in=5).record(bills)]


def test_what_changes_in_the_file_reaches_each_flow_and_what_a_restart_is_for_does_not(
    settings: MirrorSettings,
) -> None:
    engine = Engine(settings)
    settings.path.write_text(
        f"{settings.path.read_text()}topics = orders\nmirror.epoch.seconds = 7\nmirror.tasks = 3\n"
    )
    engine.take_settings(load(settings.path))
    runtime = engine.runtimes[EAST_WEST]
    assert (runtime.settings.replicates("orders"), runtime.settings.replicates("bills")) == (True, False)
    assert engine.settings.flow(EAST_WEST) is runtime.settings
    assert (engine.settings.engine.epoch_seconds, engine.settings.engine.tasks) == (7.0, 0)
    engine.take_file_notes(["line 7, mirror.tasks: takes effect after a restart"])
    assert flow_messages.notes(runtime) == ("line 7, mirror.tasks: takes effect after a restart",)
