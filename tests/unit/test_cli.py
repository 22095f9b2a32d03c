"""What the command says of itself."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from mirror.cli import app
from mirror.commands import changes, observation, output, recovery, replication
from mirror.config.settings import FlowSettings
from mirror.control.flow_log import NeverRun
from mirror.control.flow_status import FlowStatus, PartitionStatus, State
from mirror.control.gaps import GapEntry
from mirror.control.group_view import GroupView, TranslatedPosition
from mirror.control.groups import GroupAction, GroupDecision
from mirror.control.plan import FlowPlan
from mirror.control.status import FlowObserver
from mirror.kafka.cluster_model import GroupPosition
from mirror.kafka.problems import ClusterUnreachable, ConnectionFailed
from mirror.model.flow import Flow
from mirror.model.gap import Acknowledgement, Gap
from mirror.model.partition import TopicPartition
from mirror.model.pause import PauseWish
from mirror.model.placement import Placement
from mirror.model.shadow import Forecast, ShadowPartition, TakenFrom
from mirror.model.translation import Exact, Same
from mirror.proof.comparison import Difference, Equivalence, PartitionEquivalence
from mirror.recovery import verify
from mirror.recovery.group_moves import GroupMoves, MovePlan, Unmoved
from mirror.recovery.group_snapshot import GroupSnapshot
from mirror.recovery.pause import Paused, PausePlan, Resumed
from mirror.recovery.rehearsal_plan import RehearsalPlan
from tests.unit.recovery import sides


def test_it_says_which_version_it_is() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    said = CliRunner().invoke(app, ["--version"])
    assert (said.exit_code, said.stdout) == (0, f"mirror {project['version']}\n")


LOGIN_REFUSED = ConnectionFailed("cluster west: broker w:1: authentication failed", "west", is_refusal=True)
LOGIN_ADVICE = ". west answers, and refuses this login: correct it in the file, or have it let in"
LONG = "orders-of-the-eastern-warehouses." + "a" * 216
FLOW = Flow("east", "west")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mirror.properties"
    path.write_text(
        "clusters=east,west\neast.bootstrap.servers=e:1\nwest.bootstrap.servers=w:1\neast->west.enabled=true"
    )
    return path


def prints_to(monkeypatch: pytest.MonkeyPatch, console: Console) -> None:
    """Have all commands print there."""
    for module in (changes, observation, output, recovery, replication):
        monkeypatch.setattr(module, "out", console)


def shown(monkeypatch: pytest.MonkeyPatch, width: int, found: FlowStatus, *argv: str) -> tuple[int, str]:
    """Return the exit code of a command and what it prints in a terminal of this width."""
    stream = io.StringIO()
    prints_to(monkeypatch, Console(file=stream, width=width, color_system=None))
    monkeypatch.setattr(FlowObserver, "glance", lambda _: found)
    done = CliRunner().invoke(app, list(argv))
    return done.exit_code, stream.getvalue() + done.stdout


def partitions(count: int) -> tuple[PartitionStatus, ...]:
    few = tuple(PartitionStatus("orders", each, 9, 9, 9, 0, 0.0) for each in range(count - 3))
    return (
        *few,
        PartitionStatus("late", 0, 1_000_000, 13_345_678, 1_000_000, 12_345_678, 200.0),
        PartitionStatus(LONG, 7, 5, 5, 5, 0, 0.0, stopped="a record that is too large"),
        PartitionStatus("holed", 1, 5, 5, 5, 0, 0.0, gaps=2),
    )


def test_the_table_of_gaps_shows_their_first_and_last_offset(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """As status, log and verify do: the JSON's offsets, of which the end is not included, looked like another gap."""
    gap = Gap(TopicPartition("orders", 2), 7, 10, "retention was faster", 5)
    stream = io.StringIO()
    prints_to(monkeypatch, Console(file=stream, width=120, color_system=None))
    monkeypatch.setattr(observation, "list_gaps", lambda *_, **__: [GapEntry(FLOW, gap, None)])
    CliRunner().invoke(app, ["gaps", str(file)])
    (row,) = (line for line in stream.getvalue().splitlines() if line.startswith("│ orders-2"))
    assert [cell.strip() for cell in row.strip("│").split("│")][:4] == ["orders-2", "7", "9", "3"]


@pytest.mark.parametrize("width", [80, 120])
def test_the_status_fits_a_terminal_and_shows_the_worst_first(
    monkeypatch: pytest.MonkeyPatch, file: Path, width: int
) -> None:
    found = FlowStatus(FLOW, "DEGRADED", ("2 gaps in the copy: svc[/prod]-0 1",), partitions(40))
    status, text = shown(monkeypatch, width, found, "status", str(file))
    assert status == 0
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    for word in ("partition", "lag", "records", "behind", "copied", "end", "source", "trouble"):
        assert word in text
    assert text.index("stopped") < text.index("2 gaps", text.index("trouble")) < text.index("12,345,678")
    assert "3 min" in text
    assert "svc[/prod]-0" in text
    assert lines[-1] == "… and 20 more, --all shows them"
    _, text = shown(monkeypatch, width, found, "status", str(file), "--all")
    assert "--all" not in text
    assert "orders-36" in text


def test_a_flow_whose_state_cannot_be_told_is_a_failure(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    found = FlowStatus(FLOW, "FAILED", ("west does not answer",), ())
    assert shown(monkeypatch, 80, found, "status", str(file))[0] == 1
    status, text = shown(monkeypatch, 80, found, "status", str(file), "--json")
    assert status == 1
    assert json.loads(text)["flows"][0]["state"] == "FAILED"


@pytest.mark.parametrize(
    ("state", "code", "checked"),
    [("RUNNING", 0, 0), ("STARTING", 0, 1), ("DEGRADED", 0, 1), ("STOPPED", 0, 1), ("FAILED", 1, 1)],
)
def test_monitoring_hears_of_every_flow_that_does_not_run_and_scripts_that_exist_go_on(
    monkeypatch: pytest.MonkeyPatch, file: Path, state: State, code: int, checked: int
) -> None:
    """A flow that is DEGRADED or STOPPED was as good as one that runs, by the exit code."""
    found = FlowStatus(FLOW, state, (), ())
    assert shown(monkeypatch, 80, found, "status", str(file))[0] == code
    assert shown(monkeypatch, 80, found, "status", str(file), "--check")[0] == checked
    status, text = shown(monkeypatch, 80, found, "status", str(file), "--check", "--json")
    assert (status, json.loads(text)["flows"][0]["state"]) == (checked, state)


def test_of_a_flow_that_has_never_run_it_is_not_said_that_there_is_no_gap(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    def never(*_: object) -> None:
        raise NeverRun("west", "mm2-state.east.internal")

    monkeypatch.setattr(observation, "list_gaps", never)
    why = "this flow has never run: west has no topic mm2-state.east.internal"
    found = FlowStatus(FLOW, "STOPPED", (), ())
    assert shown(monkeypatch, 120, found, "gaps", str(file)) == (1, f"east->west: {why}\n")
    status, text = shown(monkeypatch, 120, found, "gaps", str(file), "--json")
    assert (status, [(each["kind"], each["reason"]) for each in json.loads(text)]) == (1, [("never-run", why)])
    monkeypatch.setattr(observation, "list_gaps", lambda *_: [])
    assert shown(monkeypatch, 120, found, "gaps", str(file)) == (0, "There is no gap.\n")


def test_gaps_of_a_topic_that_nobody_has_are_bad_usage(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """With a name that is mistyped there was no gap, and none to acknowledge."""
    monkeypatch.setattr(observation, "list_gaps", lambda *_: [])
    monkeypatch.setattr(observation, "has_topic", lambda _, __, topic: topic == "orders")
    for more in ((), ("--acknowledge", "--reason", "known", "--yes")):
        done = CliRunner().invoke(app, ["gaps", str(file), "--topic", "ordrs", *more])
        assert (done.exit_code, "east->west: no topic ordrs is on record" in done.stderr) == (2, True)
    assert CliRunner().invoke(app, ["gaps", str(file), "--topic", "orders"]).exit_code == 0


def test_gaps_are_acknowledged_only_by_a_yes_where_there_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    """A script that only gave a reason wrote at once; every other command that changes something was refused."""
    gap, taken = Gap(TopicPartition("orders", 0), 3, 9, "retention", 5), list[str]()

    def acknowledge(_: object, __: object, found: list[GapEntry], known: Acknowledgement) -> list[GapEntry]:
        taken.append(known.reason)
        return [replace(each, acknowledgement=known) for each in found]

    monkeypatch.setattr(observation, "list_gaps", lambda *_: [GapEntry(FLOW, gap, None)])
    monkeypatch.setattr(observation, "acknowledge", acknowledge)
    command = ["gaps", str(file), "--acknowledge", "--reason", "known"]
    for more in ((), ("--json",)):
        done = CliRunner().invoke(app, [*command, *more])
        assert (done.exit_code, taken) == (2, [])
        assert "there is no terminal to ask on; say --yes" in " ".join(done.stderr.split())
    done = CliRunner().invoke(app, [*command, "--yes"])
    assert (done.exit_code, taken) == (0, ["known"])


@pytest.mark.parametrize(("command", "verb"), [("pause", "paused"), ("resume", "copied again")])
def test_a_pause_or_its_end_that_matches_no_topic_on_record_is_no_success(
    monkeypatch: pytest.MonkeyPatch, file: Path, command: str, verb: str
) -> None:
    """It stays on record for topics to come; a script with --yes took it for a pause of what it had mistyped."""

    def plan(*_: object, is_pause: bool = True) -> PausePlan:
        return PausePlan(FLOW, "ordrs.*", is_pause, is_matched=False, paused=("topics that match bills, paused",))

    monkeypatch.setattr(changes, "plan_pause", plan)
    wish = PauseWish("wish", "ordrs.*", command == "pause", "ann", 5)
    monkeypatch.setattr(changes, "pause_flow", lambda *_, **__: Paused(FLOW, wish, "engine"))
    monkeypatch.setattr(changes, "resume_flow", lambda *_, **__: Resumed(FLOW, wish, "engine"))
    done = CliRunner().invoke(app, [command, str(file), "--topics", "ordrs.*", "--yes"])
    told = " ".join(done.stderr.split())
    assert done.exit_code == 1
    assert f"no topic on record of east->west matches ordrs.*: only one that comes later would be {verb}" in told
    assert ("still paused: topics that match bills" in done.stdout) is (command == "resume")
    assert ("verdict UNKNOWN" in done.stdout) is (command == "pause")
    as_json = CliRunner().invoke(app, [command, str(file), "--topics", "ordrs.*", "--yes", "--json"])
    assert json.loads(as_json.stdout)["verdict"] == "UNKNOWN"


def test_of_a_flow_that_has_never_run_no_group_is_told_and_that_is_not_a_failure_to_start(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    def never(*_: object, **__: object) -> None:
        raise NeverRun("west", "mm2-state.east.internal")

    monkeypatch.setattr(observation, "view_groups", never)
    done = CliRunner().invoke(app, ["offsets", str(file)])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "this flow has never run" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("translation", "columns"),
    [
        (Same(123_456_789), ["group", "partition", "position", "checkpoint age, s"]),
        (Exact(123_456_790), ["group", "partition", "upstream", "downstream", "checkpoint age, s", "note"]),
    ],
)
def test_positions_that_are_not_translated_are_told_once(
    monkeypatch: pytest.MonkeyPatch, file: Path, translation: Exact, columns: list[str]
) -> None:
    """At 80 columns each row had a footnote, which read: same."""
    positions = tuple(
        TranslatedPosition("billing-of-the-east", "orders-of-the-warehouses", each, 123_456_789, translation)
        for each in range(3)
    )
    monkeypatch.setattr(observation, "view_groups", lambda *_, **__: GroupView(positions, None))
    _, text = shown(monkeypatch, 200, FlowStatus(FLOW, "RUNNING", (), ()), "offsets", str(file))
    (header,) = (line for line in text.splitlines() if "checkpoint age, s" in line)
    assert [each.strip() for each in header.strip("┃").split("┃")] == columns
    is_same = isinstance(translation, Same)
    assert ("positions are the same on west" in text) is is_same
    _, text = shown(monkeypatch, 80, FlowStatus(FLOW, "RUNNING", (), ()), "offsets", str(file))
    assert ("(1)" in text) is not is_same
    _, text = shown(monkeypatch, 80, FlowStatus(FLOW, "RUNNING", (), ()), "offsets", str(file), "--json")
    assert [json.loads(text)[0][name] for name in ("upstream", "downstream")] == [123_456_789, translation.downstream]


def test_the_status_is_that_of_one_flow_if_one_is_named(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    found = FlowStatus(FLOW, "RUNNING", (), ())
    status, text = shown(monkeypatch, 80, found, "status", str(file), "--flow", "east->west", "--json")
    assert (status, [each["flow"] for each in json.loads(text)["flows"]]) == (0, ["east->west"])
    assert CliRunner().invoke(app, ["status", str(file), "--flow", "west->east"]).exit_code == 2


ORDERS = TopicPartition("orders", 0)
TRIED = ShadowPartition("billing", ORDERS, TopicPartition("east.orders", 0), 5, 5, forecast=Forecast(0, 3))


@pytest.mark.parametrize(
    ("partitions", "unread", "code"),
    [
        ((TRIED,), (), 0),
        ((), (), 1),
        ((TRIED,), ("group audit on east: not authorized",), 1),
        ((replace(TRIED, refusal="the group would have no position on the target"),), (), 1),
        ((TRIED, replace(TRIED, forecast=Forecast(2, 0))), (), 1),
    ],
)
def test_a_dry_run_of_a_rehearsal_in_order_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
    file: Path,
    partitions: tuple[ShadowPartition, ...],
    unread: tuple[str, ...],
    code: int,
) -> None:
    """It ended with 1 whatever it had found."""

    def plan(_: object, flow: FlowSettings, **__: object) -> RehearsalPlan:
        return RehearsalPlan(flow, "now", TakenFrom.CHECKPOINTS, partitions, (), unread, ())

    monkeypatch.setattr(recovery, "plan_rehearsal", plan)
    found = FlowStatus(FLOW, "RUNNING", (), ())
    assert shown(monkeypatch, 80, found, "rehearse", str(file), "--dry-run")[0] == code
    status, text = shown(monkeypatch, 80, found, "rehearse", str(file), "--dry-run", "--json")
    assert (status, json.loads(text)["verdict"]) == (code, "UNKNOWN"), "it proves nothing"


@pytest.mark.parametrize("command", ["offsets", "rehearse"])
def test_a_pattern_that_is_none_is_bad_usage(file: Path, command: str) -> None:
    done = CliRunner().invoke(app, [command, str(file), "--group", "("])
    assert done.exit_code == 2
    assert "not a regular expression" in " ".join(done.stderr.split())


def test_every_note_is_told_once_in_the_text_and_in_json(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    notes = ("ACLs east->west: 3 ACLs of east are not carried over", "an engine on host-1 stands by")
    found = FlowStatus(FLOW, "RUNNING", (), partitions(4), notes=notes)
    _, text = shown(monkeypatch, 120, found, "status", str(file))
    assert [text.count(note) for note in notes] == [1, 1]
    _, text = shown(monkeypatch, 120, found, "status", str(file), "--json")
    assert json.loads(text)["flows"][0]["notes"] == list(notes)


@pytest.mark.parametrize("width", [80, 120])
def test_a_plan_begins_with_its_problems_and_fails(monkeypatch: pytest.MonkeyPatch, file: Path, width: int) -> None:
    create = {"cluster": "west", "topic": f"east.{LONG}", "action": "create", "detail": "12 partitions"}
    problem = {"cluster": "west", "topic": "east.odd", "action": "problem", "detail": "too few brokers"}
    planned = FlowPlan(FLOW, [*[create] * 30, problem], [], [], [])
    monkeypatch.setattr(replication, "plan_flow", lambda *_: planned)
    found = FlowStatus(FLOW, "RUNNING", (), ())
    status, text = shown(monkeypatch, width, found, "plan", str(file), "--flow", "east->west")
    assert status == 1
    assert max(map(len, text.splitlines())) <= width
    assert text.index("problem") < text.index("create")
    assert text.splitlines()[-1] == "… and 11 more, --all shows them"
    for word in ("cluster", "action", "detail", f"east.{LONG}"):
        assert word in text.replace("\n", "")
    monkeypatch.setattr(replication, "plan_flow", lambda *_: FlowPlan(FLOW, [create], [], [], []))
    assert shown(monkeypatch, width, found, "plan", str(file), "--flow", "east->west")[0] == 0


@pytest.mark.parametrize("width", [80, 120])
def test_what_a_plan_says_of_a_topic_can_be_copied_and_names_it_once(
    monkeypatch: pytest.MonkeyPatch, file: Path, width: int
) -> None:
    """In 80 columns both the topic and the key that is to be set were broken, and the topic was there twice."""
    topic, key = "mm2-offset-syncs.west.internal", "offset-syncs.topic.replication.factor=1"
    detail = f"topic {topic} on east needs replication factor 2, but the cluster has 1 broker: set {key}"
    planned = FlowPlan(FLOW, [{"cluster": "east", "topic": topic, "action": "problem", "detail": detail}], [], [], [])
    monkeypatch.setattr(replication, "plan_flow", lambda *_: planned)
    _, text = shown(monkeypatch, width, FlowStatus(FLOW, "RUNNING", (), ()), "plan", str(file), "--flow", "east->west")
    assert (text.count(topic), text.count(key)) == (1, 1), text
    assert max(map(len, text.splitlines())) <= width


def test_what_offsets_cost_is_told_beside_a_partition_that_cannot_have_them(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    """Problems come first, and have no costs: the columns of the others went."""
    cost = {"partition": "orders-0", "copy": "east.orders-0", "action": "fill", "to pad": "7,000", "bytes": "98,765"}
    problem = {"partition": "bills-0", "action": "problem", "detail": "the copy holds the offsets 0 to 7"}
    planned = FlowPlan(FLOW, [], [], [], [], offsets=[cost | {"detail": ""}, problem])
    monkeypatch.setattr(replication, "plan_flow", lambda *_: planned)
    for width in (80, 120):
        _, text = shown(monkeypatch, width, FlowStatus(FLOW, "RUNNING", (), ()), "plan", str(file))
        assert all(each in text for each in ("to pad", "7,000", "98,765", "the copy holds the")), text


def test_costs_that_no_partition_has_are_no_columns(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """In 80 columns the rows were no table any more, and said 0 everywhere."""
    nothing = {"to pad": "0", "bytes": "0", "markers": "none", "minutes": "0.0", "detail": ""}
    rows = [{"partition": f"orders-{each}", "copy": f"orders-{each}", "action": "copy", **nothing} for each in range(2)]
    planned = FlowPlan(FLOW, [], [], [], [], offsets=rows)
    monkeypatch.setattr(replication, "plan_flow", lambda *_: planned)
    _, text = shown(monkeypatch, 80, FlowStatus(FLOW, "RUNNING", (), ()), "plan", str(file))
    assert "partition" in text
    assert not any(each in text for each in nothing)


def test_a_flow_that_the_file_does_not_enable_is_not_told_to_change_nothing(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    heartbeats = FlowPlan(
        Flow("west", "east"), [], [], [], [], ("nothing is copied; it has heartbeats",), enabled=False
    )
    monkeypatch.setattr(replication, "plan_flow", lambda *_: heartbeats)
    found = FlowStatus(FLOW, "RUNNING", (), ())
    _, text = shown(monkeypatch, 120, found, "plan", str(file), "--flow", "east->west")
    assert "west->east: not enabled" in text
    assert "it has heartbeats" in text
    assert "nothing\n" not in text
    _, text = shown(monkeypatch, 120, found, "plan", str(file), "--flow", "east->west", "--json")
    assert json.loads(text)["flows"][0]["enabled"] is False


def test_a_login_that_cannot_be_read_is_told_with_its_place_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "w2.properties"
    file.write_text(
        "clusters=east,west\neast.bootstrap.servers=e:1\nwest.bootstrap.servers=w:1\neast->west.enabled=true\n"
        "east.security.protocol=SASL_PLAINTEXT\neast.sasl.mechanism=PLAIN\n"
        "east.sasl.jaas.config=PlainLoginModule required username='zoe' password='it''s';\n"
    )
    done = CliRunner().invoke(app, ["plan", str(file)])
    told = " ".join(done.stderr.split())
    assert done.exit_code == 2
    assert told.startswith(f"{file}:7: east.sasl.jaas.config: ")
    assert "zoe" not in told


@pytest.mark.parametrize(
    ("mechanism", "said"), [("PLAIN", ":5: east.sasl.jaas.config: "), ("SCRAM-256", ":6: east.sasl.mechanism: ")]
)
def test_a_login_that_is_missing_is_told_where_it_is_asked_for_and_a_wrong_mechanism_first(
    tmp_path: Path, mechanism: str, said: str
) -> None:
    file = tmp_path / "w2.properties"
    file.write_text(
        "clusters=east,west\neast.bootstrap.servers=e:1\nwest.bootstrap.servers=w:1\neast->west.enabled=true\n"
        f"east.security.protocol=SASL_PLAINTEXT\neast.sasl.mechanism={mechanism}\n"
    )
    done = CliRunner().invoke(app, ["plan", str(file)])
    assert (done.exit_code, " ".join(done.stderr.split()).startswith(f"{file}{said}")) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("problem", "lines", "place", "advice"),
    [
        (ClusterUnreachable("west", "w:1", "connection refused"), "", "3: west.bootstrap.servers", ""),
        (LOGIN_REFUSED, "", "3: west.bootstrap.servers", LOGIN_ADVICE),
        (LOGIN_REFUSED, "west.sasl.mechanism=PLAIN\n", "5: west.sasl.mechanism", LOGIN_ADVICE),
        (
            LOGIN_REFUSED,
            "west.security.protocol=SASL_SSL\nsasl.jaas.config=x required;\n",
            "6: sasl.jaas.config",
            LOGIN_ADVICE,
        ),
    ],
)
def test_a_cluster_that_does_not_answer_or_lets_nobody_in_is_told_with_its_place_in_the_file(
    monkeypatch: pytest.MonkeyPatch, file: Path, problem: Exception, lines: str, place: str, advice: str
) -> None:
    """Of a login that was refused it named the address."""
    with file.open("a") as more:
        more.write(f"\n{lines}")

    def fail(*_: object) -> FlowPlan:
        raise problem

    monkeypatch.setattr(replication, "plan_flow", fail)
    done = CliRunner().invoke(app, ["plan", str(file)])
    assert (done.exit_code, done.stderr.strip()) == (3, f"{file}:{place}: {problem}{advice}")


def test_what_was_not_compared_is_not_counted(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    why = "east orders-0 was not read to the end: ValueError: no card at offset 0"
    unread = PartitionEquivalence(
        *(TopicPartition("orders", 0), TopicPartition("east.orders", 0), *[0] * 7, None, why),
        not_compared=frozenset({Difference.EXTRA}),
    )
    monkeypatch.setattr(verify, "verify_flow", lambda *_, **__: Equivalence((unread,)))
    status, text = shown(monkeypatch, 120, FlowStatus(FLOW, "RUNNING", (), ()), "verify", str(file))
    assert status == 1
    row = next(line for line in text.splitlines() if "orders-0" in line and "UNKNOWN" in line)
    assert "not compared" in row
    assert f"orders-0: {why}" in text
    assert "no record" not in text


def test_a_verification_that_had_nothing_to_compare_says_why(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setattr(verify, "verify_flow", lambda *_, **__: Equivalence((), nothing="the flow selects no topic"))
    status, text = shown(monkeypatch, 120, FlowStatus(FLOW, "RUNNING", (), ()), "verify", str(file))
    assert (status, text.strip()) == (1, "east->west: UNKNOWN: nothing was compared: the flow selects no topic")


def test_what_was_not_copied_yet_is_told_beside_the_verdict(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """PASS stood there alone while a copy that may not be written had nothing of 376 records."""
    same = PartitionEquivalence(
        TopicPartition("orders", 0), TopicPartition("east.orders", 0), 0, 0, 0, 0, 0, 0, 0, None, None
    )
    behind = {TopicPartition("orders", 0): 376, TopicPartition("orders", 1): 4}
    monkeypatch.setattr(verify, "verify_flow", lambda *_, **__: Equivalence((same,), uncopied=behind))
    status, text = shown(monkeypatch, 120, FlowStatus(FLOW, "RUNNING", (), ()), "verify", str(file))
    assert status == 0
    assert (
        "Not copied when this began, and so not compared: 380 offsets of 2 partitions, most in orders-0 (376); mirror "
        "status says why, and mirror stranded lists those that the source alone has."
    ) in " ".join(text.split())


def test_columns_that_are_no_difference_are_explained_below_the_table(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    """What `foreign` is stood nowhere."""
    shared = PartitionEquivalence(
        *(TopicPartition("orders", 0), TopicPartition("orders", 0), 5, 1, 0, 0, 0, 0, 3, None, None)
    )
    monkeypatch.setattr(verify, "verify_flow", lambda *_, **__: Equivalence((shared,)))
    _, text = shown(monkeypatch, 120, FlowStatus(FLOW, "RUNNING", (), ()), "verify", str(file))
    lines = [line.strip().partition(": ")[0] for line in text.splitlines() if ": records" in line]
    assert lines == ["foreign"], "nor of what is not shown, or speaks for itself"
    assert "foreign: records that others than the flow have written to the copy, where they may" in text


def test_a_speed_that_says_nothing_is_not_told(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """Of small topics, and of what was compared before, it said "0 MB/s of the source"."""
    same = PartitionEquivalence(
        TopicPartition("orders", 0), TopicPartition("east.orders", 0), 0, 0, 0, 0, 0, 0, 0, None, None
    )
    monkeypatch.setattr(verify, "verify_flow", lambda *_, **__: Equivalence((same,), seconds=1.5))
    _, text = shown(monkeypatch, 120, FlowStatus(FLOW, "RUNNING", (), ()), "verify", str(file))
    assert "Compared nothing; 1.5 s.\n" in text


def test_what_is_the_same_of_many_partitions_is_told_once(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """Without the module of its transform a verification said so anew of each partition."""
    unread = tuple(
        PartitionEquivalence(
            TopicPartition("orders", number),
            TopicPartition("east.orders", number),
            *(0, 0, 0, 0, 0, 0, 0, None),
            f"east orders-{number} was not read to the end: no module mask{'!' if number == 7 else ''}",
        )
        for number in range(8)
    )
    monkeypatch.setattr(verify, "verify_flow", lambda *_, **__: Equivalence(unread))
    _, text = shown(monkeypatch, 120, FlowStatus(FLOW, "RUNNING", (), ()), "verify", str(file))
    assert [line for line in text.splitlines() if "was not read" in line] == [
        "orders-0 (and 6 more): east orders-0 was not read to the end: no module mask",
        "orders-7: east orders-7 was not read to the end: no module mask!",
    ]


def test_to_move_no_group_at_all_is_no_success(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """A name that is misspelt, or a target without checkpoints: whoever fails over must not take it for done."""
    monkeypatch.setattr(changes, "plan_moves", lambda settings, *_, **__: MovePlan(settings, ()))
    done = CliRunner().invoke(app, ["groups", str(file), "--groups", "bliling", "--apply", "--yes", "--json"])
    assert (done.exit_code, json.loads(done.stdout)["verdict"]) == (1, "UNKNOWN")
    told = CliRunner().invoke(app, ["groups", str(file), "--groups", "bliling", "--apply", "--yes"])
    assert "bliling" in told.stderr


def test_the_plan_of_a_move_is_shown_without_a_word_that_it_is_to_be_carried_out(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    monkeypatch.setattr(changes, "plan_moves", lambda settings, *_, **__: MovePlan(settings, ()))
    done = CliRunner().invoke(app, ["groups", str(file), "--dry-run", "--json"])
    assert (done.exit_code, json.loads(done.stdout)["verdict"]) == (1, "UNKNOWN"), "there is no group"
    assert CliRunner().invoke(app, ["groups", str(file)]).exit_code == 2
    both = ["groups", str(file), "--apply", "--restore", "before.json", "--dry-run"]
    assert CliRunner().invoke(app, both).exit_code == 2


@pytest.mark.parametrize("problem", [None, "east does not answer"])
def test_programs_are_told_that_the_positions_are_those_of_the_checkpoints(
    monkeypatch: pytest.MonkeyPatch, file: Path, problem: str | None
) -> None:
    """It was told to people alone: what a group has read since its last checkpoint is handed to it again."""
    monkeypatch.setattr(
        changes, "plan_moves", lambda settings, *_, **__: MovePlan(settings, (), source_problem=problem)
    )
    done = CliRunner().invoke(app, ["groups", str(file), "--apply", "--yes", "--json"])
    assert json.loads(done.stdout)["source_problem"] == problem
    assert ("those of the checkpoints: east" in CliRunner().invoke(app, ["groups", str(file), "--dry-run"]).stderr) == (
        problem is not None
    )


def test_to_put_back_no_group_at_all_is_no_success(monkeypatch: pytest.MonkeyPatch, file: Path, tmp_path: Path) -> None:
    saved = tmp_path / "before.json"
    GroupSnapshot(FLOW, "id", ()).save(saved)
    monkeypatch.setattr(changes, "look_at", lambda *_: ())
    done = CliRunner().invoke(app, ["groups", str(file), "--restore", str(saved), "--yes", "--json"])
    assert (done.exit_code, json.loads(done.stdout)["verdict"]) == (1, "UNKNOWN")


def test_a_snapshot_that_was_not_written_is_not_spoken_of(
    monkeypatch: pytest.MonkeyPatch, file: Path, tmp_path: Path
) -> None:
    """The target had changed since the plan, so nothing was saved, nor changed."""
    copy = TopicPartition("east.orders", 0)
    placement = Placement("billing", copy, 40, 40, 40, "id")
    decision = GroupDecision("billing", copy, None, GroupPosition(40), GroupAction.WRITE, "", placement, None)
    drifted = GroupMoves((), refused=(Unmoved("billing", copy, "the target has changed"),))
    monkeypatch.setattr(changes, "plan_moves", lambda settings, *_, **__: MovePlan(settings, (), (decision,)))
    monkeypatch.setattr(changes, "apply_moves", lambda *_, **__: drifted)
    options = ["--apply", "--yes", "--json", "--snapshot", str(tmp_path / "before.json")]
    done = CliRunner().invoke(app, ["groups", str(file), *options])
    assert (done.exit_code, json.loads(done.stdout)["snapshot"]) == (1, None)


@pytest.mark.parametrize("command", ["pause", "resume"])
@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--topics", "(", "--yes"], "not a regular expression"),
        (["--flow", "west->nowhere", "--yes"], "not an enabled flow"),
        ([], "--yes"),
    ],
)
def test_a_pause_that_cannot_be_meant_or_consented_to_is_bad_usage(
    monkeypatch: pytest.MonkeyPatch, file: Path, command: str, argv: list[str], said: str
) -> None:
    monkeypatch.setattr(changes, "plan_pause", lambda *_, is_pause=True: PausePlan(FLOW, None, is_pause))
    done = CliRunner().invoke(app, [command, str(file), *argv])
    assert done.exit_code == 2
    assert said in done.output


def test_who_resumes_a_flow_that_a_failover_has_cut_is_told_so_before(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    ending = PausePlan(FLOW, None, False, ends_cut="the failover 7f (planned)")
    monkeypatch.setattr(changes, "plan_pause", lambda *_, is_pause=True: ending)
    done = CliRunner().invoke(app, ["resume", str(file), "--dry-run"])
    assert "note: this ends the cut of the failover 7f (planned): east->west copies on" in " ".join(done.stdout.split())


def test_a_flow_that_the_shell_has_cut_is_told_how_to_quote(file: Path) -> None:
    """Of ``--flow east->west`` a shell leaves ``east-``."""
    done = CliRunner().invoke(app, ["offsets", str(file), "--flow", "east-"])
    assert done.exit_code == 2
    assert "quote it, as in --flow 'A->B'" in done.stderr


def test_what_was_moved_is_put_back_along_the_flow_that_the_snapshot_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The command that a move prints works as it is, also where the file has several flows."""
    file, saved = tmp_path / "mirror.properties", tmp_path / "before.json"
    ends = "east.bootstrap.servers=e:1\nwest.bootstrap.servers=w:1"
    file.write_text(f"clusters=east,west\n{ends}\neast->west.enabled=true\nwest->east.enabled=true")
    GroupSnapshot(Flow("west", "east"), "id", ()).save(saved)
    asked: list[Flow] = []
    monkeypatch.setattr(changes, "look_at", lambda _, flow, *__: asked.append(flow) or ())
    assert CliRunner().invoke(app, ["groups", str(file), "--restore", str(saved)]).exit_code == 1
    assert asked == [Flow("west", "east")]


@pytest.mark.parametrize("width", [80, 120])
def test_readiness_shows_the_worst_first_how_to_mend_it_and_ends_with_the_answer(
    monkeypatch: pytest.MonkeyPatch, file: Path, width: int
) -> None:
    """What one rule says of many topics is one row, unless all are asked for; class and answer are never cut."""
    known = sides.facts()
    names = {f"orders-{number}": f"east.orders-{number}" for number in range(40)}
    known = replace(known, copies={**known.copies, **names}, rpo_seconds=1.0)
    known = sides.partition(lag_records=7, lag_seconds=5.0)(known)
    asked = []
    monkeypatch.setattr(recovery, "read_facts", lambda *_, rpo_seconds: asked.append(rpo_seconds) or known)
    found = FlowStatus(FLOW, "RUNNING", (), ())
    status, text = shown(monkeypatch, width, found, "readiness", str(file), "--rpo-seconds", "1")
    assert (status, asked) == (1, [1.0])
    table, mends = text.split("To mend them:")
    assert max(map(len, table.splitlines())) <= width
    for word in ("difference", "where", "source", "target", "1. blocks:", "selects", "35", "more"):
        assert word in table
    assert table.index("blocks") < table.index("loses")
    assert "kafka-topics.sh --bootstrap-server west:9092 --create --topic NAME" in " ".join(mends.split())
    assert "with NAME each of orders-0, orders-1" in " ".join(mends.split())
    assert "Not ready: 2 things block a failover and 1 thing loses records. A failover now would lose 7" in " ".join(
        mends.split()
    )
    _, text = shown(monkeypatch, width, found, "readiness", str(file), "--all")
    assert "orders-39" in text
    status, text = shown(monkeypatch, width, found, "readiness", str(file), "--json")
    assert (status, json.loads(text)["verdict"], len(json.loads(text)["differences"])) == (1, "FAIL", 81)


def test_who_is_ready_is_told_so_and_leaves_with_0(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    monkeypatch.setattr(recovery, "read_facts", lambda *_, **__: sides.facts())
    done = CliRunner().invoke(app, ["readiness", str(file)])
    assert done.exit_code == 0
    assert "verdict PASS" in done.stdout
    assert "differences" not in done.stdout
    assert CliRunner().invoke(app, ["readiness", str(file), "--rpo-seconds", "-1"]).exit_code == 2
    assert CliRunner().invoke(app, ["readiness", str(file), "--flow", "west->north"]).exit_code == 2


def test_a_command_that_status_names_can_be_copied(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    found = FlowStatus(FLOW, "DEGRADED", ("1 gap in the copy: mirror gaps FILE lists them",), ())
    _, text = shown(monkeypatch, 300, found, "status", str(file))
    assert f"mirror gaps {file} lists them" in text


def test_lines_of_help_end_where_the_terminal_does() -> None:
    text = CliRunner().invoke(app, ["status", "--help"], env={"COLUMNS": "80"}).stdout
    assert "Exit code 1 if somebody does, or if the state" in " ".join(text.split())
    lines = [line.strip() for line in text.splitlines()]
    assert not any(line.endswith("does, or if") for line in lines)
    assert any("PAUSED" in line for line in lines)


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_status_that_cannot_be_written_is_one_line_and_not_the_state_of_a_flow(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    """A disk that is full under a cron job looked like a flow that is FAILED, with a traceback."""
    file = tmp_path / "mirror.properties"
    file.write_text("clusters = A, B\nA->B.enabled = true\nbootstrap.servers = localhost:1\n")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "mirror", "status", str(file), *options],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (3, "No space left on device\n")
