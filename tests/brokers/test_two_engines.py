"""Several `mirror run` of one file, as processes: one leads, the others stand by, and no record is there twice."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings
from mirror.control import liveness
from mirror.control.flow_log import FlowLog
from mirror.control.status import observe
from mirror.kafka.acls import create_acls, delete_acls
from mirror.kafka.cluster import Cluster
from mirror.kafka.users import scram_users
from mirror.lab import clusters, faults
from mirror.lab.brokers import EmbeddedCluster
from mirror.lab.processes import ManagedProcess
from mirror.model.acl import Acl, Operation, Pattern, Permission, Resource
from mirror.model.leadership import Claim
from mirror.model.state_record import state_topic
from mirror.waiting import wait_until
from tests import users
from tests.brokers.command import mirror
from tests.brokers.engines import Engines, address_of, asked, both_modes
from tests.brokers.run_first import AN_HOUR, WallClock

_USER = "mirror"
SOURCE, CHECKPOINT = (f"kafka_connect_mirror_mirror{connector}connector_" for connector in ("source", "checkpoint"))


def scraped(engine: ManagedProcess, copy: str) -> dict[str, float]:
    """Return the sum of each metric over its labels; of partitions those of one copy count."""
    found: Counter[str] = Counter()
    for family in text_string_to_metric_families(asked(engine, "/metrics")[1]):
        for sample in family.samples:
            if sample.labels.get("topic", copy) == copy:
                found[sample.name] += sample.value
    return dict(found)


def named_in_dashboard_and_alerts() -> list[str]:
    folder = files("mirror.monitoring")
    texts = [(folder / name).read_text() for name in ("grafana-dashboard.json", "prometheus-alerts.yaml")]
    return [name for text in texts for name in re.findall(r"\b(?:mirror|kafka_connect)_[a-z_]+", text)]


@pytest.mark.long
def test_an_engine_on_a_machine_whose_clock_is_off_runs_until_it_is_killed(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks by another clock: a planned failover would refuse to begin, or would wait for a dead engine."""
    engine = engines.running["first"] = engines.start()
    engines.send(10)
    engines.await_all()
    wait_until(
        lambda: engines.status()["state"], "a report", timeout_seconds=60, until=lambda state: state == "RUNNING"
    )
    right = liveness.now_ms
    for off_seconds, side in ((300, "behind"), (-300, "ahead of")):
        monkeypatch.setattr(liveness, "now_ms", lambda off_ms=1000 * off_seconds: right() + off_ms)
        with observe(load(engines.file)) as (observer,):
            seen = observer.look()
            assert (seen.state, seen.reasons) == ("RUNNING", ())
            assert any("the clock of the engine's machine" in note and side in note for note in seen.notes)
    with observe(load(engines.file)) as (observer,):
        assert observer.look().state == "RUNNING"
        engine.kill()
        wait_until(lambda: observer.look().state, "silence", timeout_seconds=60, until=lambda state: state == "STOPPED")


@pytest.mark.long
def test_an_engine_whose_clock_steps_by_hours_leaves_the_flow_to_a_living_leader_and_takes_it_from_a_silent_one(
    engines: Engines, tmp_path: Path
) -> None:
    """Either engine's clock; who was silent writes nothing when it goes on, and follows one that is dead."""
    clocks = [WallClock(tmp_path / name) for name in ("clock-1", "clock-2")]
    first = engines.running["first"] = engines.start(env=clocks[0].env)
    engines.send(1_000)
    engines.await_all()
    second = engines.running["second"] = engines.start(env=clocks[1].env)
    with closing(FlowLog(engines.target, state_topic(engines.alias), alias="west")) as log:

        def claim() -> Claim:
            found = log.poll().claim
            assert found is not None
            return found

        def await_standby(engine: ManagedProcess) -> None:
            wait_until(
                lambda: {each.pid for each in log.poll().standbys.values()},
                "it to stand by",
                timeout_seconds=60,
                until=lambda pids: engine.pid in pids,
            )

        await_standby(second)
        for clock, hours in itertools.product(clocks, (1, -1)):
            clock.set(hours * AN_HOUR)
            # By then a claim that nobody had renewed would be over.
            told = claim().renewals + 4
            wait_until(claim, "renewals", timeout_seconds=60, until=lambda seen, told=told: seen.renewals >= told)
            assert (claim().pid, claim().term) == (first.pid, 1)

        faults.suspend([first])
        engines.send(1_000)
        engines.await_all()
        assert (claim().pid, claim().term) == (second.pid, 2)
        faults.resume([first])
        engines.send(1_000)
        engines.await_all()
        await_standby(first)
        second.kill()
        engines.send(1_000)
        engines.await_all()
        assert (claim().pid, claim().term) == (first.pid, 3)
    engines.assert_each_once()


@both_modes
@pytest.mark.parametrize(
    ("after_kill", "after_stop"),
    [
        pytest.param(math.inf, math.inf, id="in the end"),
        # On a machine with nothing else to do.
        pytest.param(15.0, 5.0, id="in time", marks=pytest.mark.soak),
    ],
)
def test_the_second_stands_by_and_copies_when_the_first_is_killed_told_to_stop_or_frozen(
    engines: Engines, after_kill: float, after_stop: float, settings: str
) -> None:
    """Within 15 s of kill -9, within 5 s of SIGTERM; who was frozen writes nothing when it thaws."""
    engines.settings = settings
    first = engines.running["first"] = engines.start()
    engines.send(1_000)
    engines.await_all()
    second = engines.running["second"] = engines.start()
    led = engines.await_standby("the second to stand by")
    assert [one["pid"] for one in led["standbys"]] == [second.pid]
    assert led["leader"]["pid"] == first.pid

    first.kill()
    engines.send(1_000)
    assert engines.await_all() < after_kill

    third = engines.running["third"] = engines.start()
    engines.await_standby("the third to stand by")
    engines.send(1_000)
    # As of a machine that is gone: nobody sees that its process is.
    faults.suspend([second])
    engines.send(1_000)
    assert engines.await_all() < after_kill
    faults.resume([second])
    engines.send(1_000)
    engines.await_all()
    found = engines.await_standby("the thawed one to stand by")
    assert found["leader"]["pid"] == third.pid
    assert [one["pid"] for one in found["standbys"]] == [second.pid]

    telling = threading.Thread(target=lambda: third.terminate(60))
    telling.start()
    engines.send(1_000)
    assert engines.await_all() < after_stop
    telling.join()
    assert third.return_code() == 0, third.log_tail()
    engines.assert_each_once()
    assert second.terminate(60)
    assert second.return_code() == 0, second.log_tail()
    assert engines.status()["state"] == "STOPPED"


@pytest.mark.soak
@both_modes
def test_killed_and_frozen_in_turns_two_engines_leave_every_record_once(engines: Engines, settings: str) -> None:
    engines.settings = settings
    killed_and_frozen_in_turns(engines)
    engines.assert_each_once()


def killed_and_frozen_in_turns(engines: Engines) -> None:
    """Have two engines copy while one of them at a time is killed, or frozen and thawed."""
    chance = random.Random(int(os.environ.get("MIRROR_SOAK_SEED", "1")))
    for name in ("first", "second"):
        engines.running[name] = engines.start()
    for _ in range(int(os.environ.get("MIRROR_SOAK_FAULTS", "100"))):
        engines.send(chance.randrange(1_000, 20_000))
        name = chance.choice(["first", "second"])
        if chance.random() < 0.5:
            faults.suspend([engines.running[name]])
            engines.send(chance.randrange(1_000, 10_000))
            engines.await_all()
            faults.resume([engines.running[name]])
        else:
            engines.running[name].kill()
            engines.running[name] = engines.start()
        engines.send(chance.randrange(1_000, 10_000))
    engines.await_all()


def _acl(kind: Resource, name: str, operation: Operation, permission: Permission) -> Acl:
    return Acl(kind, Pattern.LITERAL, name, f"User:{_USER}", "*", operation, permission)


@pytest.fixture
def of_a_user(engines: Engines, tmp_path: Path) -> Iterator[Engines]:
    """Two engines of a user of the target, who has every right but those on transactional ids."""
    directory = tmp_path / "secured"
    lab = clusters.up(directory, ["west"], owner_pid=os.getpid(), secured=["west"])
    west = lab.clusters["west"]
    assert isinstance(west, EmbeddedCluster)
    users.add_user(west.bootstrap_servers, _USER, "secret")
    kinds = {Resource.TOPIC: "*", Resource.GROUP: "*", Resource.CLUSTER: "kafka-cluster"}
    acls = [_acl(kind, name, Operation.ALL, Permission.ALLOW) for kind, name in kinds.items()]
    admin = {"bootstrap.servers": west.bootstrap_servers}
    with Cluster.connect(ClusterSettings("west", admin)) as cluster:
        assert set(create_acls(cluster, acls).values()) == {None}
        wait_until(lambda: _USER in scram_users(cluster), "the user", timeout_seconds=60)
    login = users.client_properties(west.secured_servers, _USER, "secret")
    engines.settings = "".join(f"west.{key} = {value}\n" for key, value in login.items() if key != "bootstrap.servers")
    yield replace(engines, target=admin, target_servers=login["bootstrap.servers"])
    clusters.down(directory, discard_data=True)


@pytest.mark.soak
def test_two_engines_without_rights_on_transactional_ids_lose_nothing_and_say_which_fence_they_lack(
    of_a_user: Engines,
) -> None:
    """ADR 8: the lease and the next epoch of one producer id keep them apart; whatever is there twice is told."""
    engines = of_a_user
    killed_and_frozen_in_turns(engines)
    engines.assert_each_once()
    assert any("grant Write and Describe on the transactional id" in each for each in engines.status()["notes"])


@pytest.mark.soak
@both_modes
def test_rights_that_are_taken_away_and_given_back_while_engines_copy_lose_and_double_nothing(
    of_a_user: Engines, settings: str
) -> None:
    """Each is told while it lacks, and none ends an engine; some engines are killed meanwhile."""
    engines = of_a_user
    engines.settings += settings
    flow = f"{engines.alias}.internal"
    denied = {
        "copies": (Resource.TOPIC, engines.copies[0].topic, Operation.WRITE),
        "copies seen": (Resource.TOPIC, engines.copies[0].topic, Operation.DESCRIBE),
        "state": (Resource.TOPIC, f"mm2-state.{flow}", Operation.WRITE),
        "state read": (Resource.TOPIC, f"mm2-state.{flow}", Operation.READ),
        "positions": (Resource.TOPIC, f"mm2-offsets.{flow}", Operation.WRITE),
        "ids": (Resource.TRANSACTIONAL_ID, "*", Operation.WRITE),
        "cluster": (Resource.CLUSTER, "kafka-cluster", Operation.ALL),
    }
    every = _acl(Resource.TRANSACTIONAL_ID, "*", Operation.ALL, Permission.ALLOW)
    chance = random.Random(int(os.environ.get("MIRROR_SOAK_SEED", "1")))
    with Cluster.connect(ClusterSettings("west", engines.target)) as cluster:
        assert set(create_acls(cluster, [every]).values()) == {None}
        for name in ("first", "second"):
            engines.running[name] = engines.start()
        engines.send(chance.randrange(1_000, 20_000))
        engines.await_all()
        for what, (kind, name, operation) in denied.items():
            denial = [_acl(kind, name, operation, Permission.DENY)]
            assert set(create_acls(cluster, denial).values()) == {None}
            engines.send(chance.randrange(1_000, 10_000))
            if what in {"copies", "state", "state read", "positions"}:
                wait_until(engines.status, f"{what}: told", timeout_seconds=120, until=lambda seen: seen["reasons"])
            if chance.random() < 0.5:
                killed = chance.choice(["first", "second"])
                engines.running[killed].kill()
                engines.running[killed] = engines.start()
            engines.send(chance.randrange(1_000, 10_000))
            assert set(delete_acls(cluster, denial).values()) == {None}
            engines.await_all()
            assert [each.return_code() for each in engines.running.values()] == [None, None], what
    engines.assert_each_once()
    engines.await_standby("all to be in order", timeout_seconds=180)


@pytest.mark.long
def test_both_serve_metrics_and_status_and_what_is_counted_survives_epochs(engines: Engines) -> None:
    """MET-01, MET-03: the leader tells what it copies, the standby that it stands by; both tell of the flow."""
    copy = engines.copies[0].topic
    engines.settings = (
        "emit.checkpoints.interval.seconds = 1\nmirror.epoch.seconds = 2\n"
        'west.sasl.jaas.config = x.PlainLoginModule required username="ann" password="Kn0wn-to-nobody";\n'
    )
    engines.send(1_000)
    engines.commit("shop", 100)
    first = engines.running["first"] = engines.start("--status-port", "0")
    engines.await_all()
    engines.commit("shop", 200)
    seen = wait_until(
        lambda: scraped(first, copy),
        f"the records to be counted; the engine said {first.log_tail()}",
        timeout_seconds=60,
        until=lambda found: (
            found.get(f"{SOURCE}record_count") == 1_000
            and found.get(f"{CHECKPOINT}checkpoint_latency_ms", -1) >= 0
            and found.get("mirror_group_reread_records") == 0
            and found.get("mirror_lag_records") == 0
            and found.get("mirror_epochs_total", 0) >= 2
        ),
    )
    assert seen.keys() >= set(named_in_dashboard_and_alerts())
    assert seen["mirror_flow_leader"] == 1
    assert seen[f"{SOURCE}byte_count"] > 0
    assert asked(first, "/health") == (200, "ok\n")

    second = engines.running["second"] = engines.start("--status-port", "0")
    wait_until(lambda: asked(second, "/ready")[0] == 200, "the standby to be in order", timeout_seconds=60)
    standby = scraped(second, copy)
    assert (standby["mirror_flow_leader"], standby["mirror_lag_records"]) == (0, 0)
    assert f"{SOURCE}record_count" not in standby

    engines.send(500)
    engines.await_all()
    wait_until(
        lambda: scraped(first, copy),
        "all to be counted",
        timeout_seconds=60,
        until=lambda found: found[f"{SOURCE}record_count"] == 1_500,
    )
    wait_until(lambda: asked(first, "/ready") == (200, "ok\n"), "the leader to be in order", timeout_seconds=60)
    told = wait_until(
        lambda: json.loads(asked(first, "/status")[1])["flows"][0],
        "the standby to be seen",
        timeout_seconds=60,
        until=lambda found: found["standbys"] and found["state"] == "RUNNING",
    )
    assert (told["leader"]["pid"], told["standbys"][0]["pid"]) == (first.pid, second.pid)
    assert not any("Kn0wn" in asked(first, path)[1] for path in ("/metrics", "/health", "/ready", "/status", "/Kn0"))
    refused = mirror("run", str(engines.file), "--status-port", address_of(first).rpartition(":")[2])
    assert (refused.returncode, "--status-port" in refused.stderr, "in use" in refused.stderr) == (2, True, True)
