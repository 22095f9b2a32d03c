"""`mirror verify` on real clusters: it misses what the copy lacks, and nothing that the flow was told to leave out."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from pyspark.sql import SparkSession

from mirror.config.errors import ConfigError
from mirror.config.resolving import load
from mirror.config.settings import ClusterSettings
from mirror.kafka import batch, wire
from mirror.kafka.batch import Producer, Record
from mirror.kafka.channel import Channel
from mirror.kafka.cluster import Cluster
from mirror.kafka.cluster_model import ConfigChange, NewTopic
from mirror.kafka.log import LogWriter
from mirror.kafka.partition_state import active_producers
from mirror.kafka.versions import PRODUCE
from mirror.lab import faults
from mirror.model.parked import parked_topic
from mirror.model.partition import TopicPartition
from mirror.model.state_record import state_topic
from mirror.model.verdict import Verdict
from mirror.proof.comparison import Equivalence
from mirror.proof.pairs import PartitionPair
from mirror.recovery import verify as verifying
from mirror.recovery.verify import verify_flow
from mirror.waiting import wait_until
from tests.brokers.command import in_process, mirror
from tests.brokers.copying import Copying, can_tell, delete_records, ends_of, log_of, write
from tests.brokers.engines import Engines
from tests.brokers.java_copies import Java
from tests.flows import flow_work
from tests.spark.small import small_spark


@pytest.fixture
def file(settings_of: Callable[[str], ClusterSettings], unique: Callable[[str], str], tmp_path: Path) -> Path:
    """A flow of committed data from a cluster whose alias no other test uses: its state topic is its own."""
    alias = unique("shop").replace("-", "")
    path = tmp_path / "mirror.properties"
    path.write_text(
        f"clusters = {alias}, west\n"
        f"{alias}.bootstrap.servers = {settings_of('east').bootstrap_servers}\n"
        f"west.bootstrap.servers = {settings_of('west').bootstrap_servers}\n"
        f"{alias}->west.enabled = true\n"
        f"{alias}.consumer.isolation.level = read_committed\n"
    )
    return path


@pytest.fixture
def copying(file: Path, east: Cluster, west: Cluster, unique: Callable[[str], str]) -> Copying:
    """Two partitions of that flow, to be copied as its settings say."""
    (settings,) = load(file).enabled_flows
    topic = unique("orders")
    file.write_text(f"{file.read_text()}{settings.flow}.topics = {topic}\n")
    copy = settings.policy.format_remote_topic(settings.flow.source, topic)
    state, offsets = state_topic(settings.flow.source), unique("mm2-offsets")
    east.create_topics([NewTopic(topic, 2, 1)])
    west.create_topics([NewTopic(name, count, 1) for name, count in ((copy, 2), (state, 1), (offsets, 1))])
    work = flow_work(
        flow=settings.flow,
        source_client=dict(settings.source_consumer),
        target_client=dict(load(file).clusters["west"].client),
        state_topic=state,
        offsets_topic=offsets,
        offsets_partitions=1,
        read_committed=settings.isolation_level == "read_committed",
    )
    made = [TopicPartition(name, 0) for name in (copy, state, offsets)]
    wait_until(lambda: can_tell(work.target_client, made), "the leaders of new topics", timeout_seconds=60)
    return Copying(work, {TopicPartition(topic, number): TopicPartition(copy, number) for number in range(2)})


def one_batch_a_flush(client: dict[str, str], topic: str, **settings: Any) -> confluent_kafka.Producer:
    """A producer that cuts what lies between two flushes into one batch a partition, however slow the machine is.

    Of several small batches the engine may make one, and that is not equal byte by byte. So nothing goes out before the
    flush, which does not wait for the linger; and the leaders are known before, or records would come to them one by one.
    """
    producer = confluent_kafka.Producer({**client, "linger.ms": 10_000, **settings})
    wait_until(
        lambda: producer.list_topics(topic, 5).topics[topic].error is None,
        f"the leaders of {topic}",
        timeout_seconds=60,
    )
    return producer


@pytest.mark.long
def test_aborted_records_are_not_missed_where_they_were_not_to_be_copied_and_a_lost_one_is(
    file: Path, copying: Copying
) -> None:
    """Partition 0 is copied whole. On partition 1 the copy skips one committed record behind the aborted ones."""
    whole, short = copying.pairs
    producer = one_batch_a_flush(copying.flow.source_client, whole.topic, **{"transactional.id": whole.topic})
    producer.init_transactions(60)

    def write(value: bytes, end: Callable[[], None]) -> None:
        producer.begin_transaction()
        for number in range(5):
            for partition in copying.pairs:
                producer.produce(partition.topic, b"%s %d" % (value, number), partition=partition.partition)
        # What is not sent yet when a transaction is aborted never gets to the broker.
        producer.flush()
        end()

    write(b"first", producer.commit_transaction)
    write(b"dropped", producer.abort_transaction)
    copying.until_caught_up()
    handover = copying.handovers[short]
    lost = handover.position.upstream
    copying.handovers[short] = replace(handover, position=replace(handover.position, upstream=lost + 1))
    write(b"last", producer.commit_transaction)
    copying.until_caught_up()

    assert len(copying.originals(whole)) == 15
    done = mirror("verify", str(file), "--json")

    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)["partitions"]
    assert [(each["partition"], each["verdict"], each["records"], each["missing"]) for each in found] == [
        (0, "PASS", 10, 0),
        (1, "FAIL", 10, 1),
    ]
    assert found[1]["first_difference"]["what"] == "missing"
    assert found[1]["first_difference"]["upstream_offset"] == lost
    assert {each[what] for each in found for what in ("extra", "altered", "reordered", "misplaced")} == {0}
    ends = [(each["upstream_end"], each["downstream_end"]) for each in found]
    assert ends == [
        (at.upstream, at.downstream) for at in (copying.handovers[each].position for each in (whole, short))
    ]
    assert found[0]["compared"]["by_bytes"]["records"] == 10
    assert found[0]["compared"]["by_record"] == {"records": 0, "bytes": 0}


@pytest.mark.long
def test_what_was_parked_filtered_or_left_out_is_told_apart_from_what_is_missing(
    file: Path, copying: Copying, west: Cluster, tmp_path: Path
) -> None:
    """A record parked twice is one; a parked one that is not where it should be is missing."""
    one, _ = copying.pairs
    alias, parked = copying.flow.flow.source, parked_topic(copying.flow.flow.source)
    file.write_text(
        file.read_text()
        + "mirror.oversized.records = park\n"
        + f"{alias}->west.transforms = mine, odd\n"
        + f"{alias}->west.transforms.mine.type = python:tests.transform_functions:fail_on_poison\n"
        + f"{alias}->west.transforms.odd.type = python:tests.transform_functions:drop_marked\n"
        + f"{alias}->west.errors.tolerance = all\n"
    )
    (settings,) = load(file).enabled_flows
    copying.transforms = settings.transforms
    copying.flow = replace(copying.flow, parked_topic=parked)
    west.create_topics([NewTopic(parked, 1, 1)])
    west.alter_configs({copying.pairs[one].topic: ConfigChange({"max.message.bytes": "10000"}, ())})
    values = [b"0", os.urandom(25_000), b"poison", b"poison too", b"marked", b"5", os.urandom(25_000), b"7"]
    producer = confluent_kafka.Producer(dict(copying.flow.source_client))
    for value in values:
        producer.produce(one.topic, value, partition=one.partition)
        producer.flush()
    copying.until_caught_up([one])
    client = copying.flow.target_client
    letters = log_of(client, TopicPartition(parked, 0))
    assert len(letters) == 2

    writer = LogWriter(client)
    writer.append(parked, 0, [(letters[0].key, letters[0].value, letters[0].headers, letters[0].timestamp)])
    writer.close()
    small_spark(tmp_path)
    done = in_process("verify", str(file), "--json")
    assert done.returncode == 0, (done.stdout, done.stderr)
    (found,) = [each for each in json.loads(done.stdout)["partitions"] if each["partition"] == one.partition]
    counts = ("records", "missing", "extra", "altered", "misplaced", "parked", "gaps", "filtered")
    assert [found[what] for what in counts] == [7, 0, 0, 0, 0, 2, 2, 1]
    assert [(each["what"], each["from"], each["to"], each["acknowledged"]) for each in found["absences"]] == [
        ("parked", 1, 2, False),
        ("gap", 2, 3, False),
        ("gap", 3, 4, False),
        ("parked", 6, 7, False),
        ("filtered", 4, 5, None),
    ]
    faults.remove_first_records(client["bootstrap.servers"], TopicPartition(parked, 0), 2)
    told, _ = verify_flow(settings, load(file).clusters).partitions
    assert told.verdict is Verdict.FAIL
    found = told.as_json()
    assert [found[what] for what in counts] == [7, 1, 0, 0, 0, 1, 2, 1]
    assert found["first_difference"]["upstream_offset"] == 6


@pytest.mark.long
def test_what_the_log_cleaner_has_removed_on_one_side_is_counted_and_a_lost_newest_value_is_missing(
    file: Path, copying: Copying, east: Cluster, west: Cluster, tmp_path: Path
) -> None:
    """The copy is cleaned by real brokers while the source is compacted, but may wait with it."""
    one, _ = copying.pairs
    copy, client = copying.pairs[one], copying.flow.target_client
    policy = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
    east.alter_configs({one.topic: ConfigChange({**policy, "min.compaction.lag.ms": "86400000"}, ())})
    west.alter_configs({copy.topic: ConfigChange(policy, ())})
    producer = one_batch_a_flush(copying.flow.source_client, one.topic)

    def write(*values: tuple[bytes, bytes | None]) -> None:
        for key, value in values:
            producer.produce(one.topic, value, key, one.partition)
        producer.flush()

    def compacted() -> bool:
        # Only a segment that is no longer written to is cleaned, and only a write after a while closes one.
        write((b"roll", os.urandom(8)))
        copying.until_caught_up([one])
        (end,) = ends_of(client, [copy]).values()
        return len(copying.copies(one)) < end

    for number in range(3):
        write(*((b"%d" % key, b"%d" % number) for key in range(10)))
    write((b"3", None))
    wait_until(compacted, "the copy to be compacted", timeout_seconds=30)
    small_spark(tmp_path)
    (settings,) = load(file).enabled_flows
    found, untouched = verify_flow(settings, load(file).clusters).partitions

    assert (untouched.verdict, untouched.records) == (Verdict.PASS, 0)
    assert found.verdict is Verdict.PASS
    assert found.records == len(copying.originals(one))
    assert found.cleaned.target >= 20
    assert found.cleaned.source == found.missing == found.extra == 0
    handover = copying.handovers[one]
    lost = handover.position.upstream
    copying.handovers[one] = replace(handover, position=replace(handover.position, upstream=lost + 1))
    write((b"5", b"lost"), (b"6", b"last"))
    copying.until_caught_up([one])
    found, _ = verify_flow(settings, load(file).clusters).partitions
    assert (found.verdict, found.missing, found.extra) == (Verdict.FAIL, 1, 0)
    assert found.first_difference is not None
    assert found.first_difference.upstream_offset == lost


@pytest.mark.long
def test_what_was_found_equal_is_not_read_again_as_long_as_the_logs_are_the_same(
    file: Path, copying: Copying, tmp_path: Path
) -> None:
    """What differs is not remembered; once the last batch compared is another one, all is compared anew."""
    one, other = copying.pairs
    (settings,) = load(file).enabled_flows
    clusters, memory = load(file).clusters, tmp_path / "verified.json"
    producer = one_batch_a_flush(copying.flow.source_client, one.topic)

    def write(count: int) -> None:
        for number in range(count):
            producer.produce(one.topic, b"%d" % number, partition=one.partition)
            producer.produce(one.topic, b"%d" % number, partition=other.partition)
        producer.flush()
        copying.until_caught_up()

    def compared() -> tuple[Verdict, int, int, int]:
        found = verify_flow(settings, clusters, remember=memory)
        return found.verdict, found.remembered.records, found.by_bytes.records, found.by_record.records

    small_spark(tmp_path)
    write(20)
    assert compared() == (Verdict.PASS, 0, 40, 0)
    write(5)
    assert compared() == (Verdict.PASS, 40, 10, 0)
    assert compared() == (Verdict.PASS, 50, 0, 0)

    log_writer = LogWriter(copying.flow.target_client)
    log_writer.append(copying.pairs[one].topic, one.partition, [(None, b"not the mirror's", (), 1)])
    log_writer.close()
    write(5)
    found = verify_flow(settings, clusters, remember=memory)
    assert [each.extra for each in found.partitions] == [1, 0]
    assert found.remembered.records == 50

    document = json.loads(memory.read_text())
    assert [each["records"] for each in document["partitions"]] == [25, 30]
    for each in document["partitions"]:
        each["remote_last"][2] ^= 1
    memory.write_text(json.dumps(document))
    found = verify_flow(settings, clusters, remember=memory)
    assert found.remembered.records == 0
    assert all("compared anew: the last batch" in each.compared.notes[0] for each in found.partitions)
    assert [each.extra for each in found.partitions] == [1, 0]

    memory.write_text(memory.read_text().replace(f"{settings.flow}", "north->south"))
    with pytest.raises(ConfigError, match="it is about the flow north->south"):
        verify_flow(settings, clusters, remember=memory)


@pytest.mark.long
def test_what_somebody_else_wrote_behind_the_last_copied_record_is_extra_also_when_nothing_is_copied(
    file: Path, copying: Copying, tmp_path: Path
) -> None:
    """Markers behind it are none, and what the flow has copied and not recorded yet is told apart."""
    one, other = copying.pairs
    (settings,) = load(file).enabled_flows
    write(copying.flow.source_client, one, range(3))
    write(copying.flow.source_client, other, range(3))
    copying.until_caught_up()
    small_spark(tmp_path)
    assert verify_flow(settings, load(file).clusters).verdict is Verdict.PASS

    # Another engine's marker, and then its first batch: the position behind it was never recorded.
    recorded = ends_of(copying.flow.target_client, [copying.pairs[other]])[copying.pairs[other]]
    stand_in = confluent_kafka.Producer({**copying.flow.target_client, "transactional.id": one.topic})
    stand_in.init_transactions(60)
    for end in (stand_in.commit_transaction, stand_in.abort_transaction):
        stand_in.begin_transaction()
        if end == stand_in.commit_transaction:
            stand_in.produce(copying.pairs[one].topic, b"not the mirror's", partition=one.partition)
            stand_in.flush()
        end()
    producer = copying.flow.producer
    assert producer is not None
    sequence = copying.sequences[copying.pairs[other]]
    own = batch.encode([Record(0, 1, None, b"unrecorded", (), -1)], 0, producer, sequence)
    append_as_it_is(copying.flow.target_client, copying.pairs[other], own)
    found = verify_flow(settings, load(file).clusters)

    assert found.verdict is Verdict.FAIL
    assert [(each.verdict, each.extra, each.missing, each.records) for each in found.partitions] == [
        (Verdict.FAIL, 1, 0, 3),
        (Verdict.PASS, 0, 0, 3),
    ]
    first = found.partitions[0].first_difference
    assert first is not None
    assert (first.what, first.downstream_offset) == ("extra", ends_of_records(copying, one)[-1])
    (told,) = found.left_out
    assert (told.partition, told.start, told.end, told.records) == (copying.pairs[other], recorded, recorded + 1, 1)
    assert told.is_unchecked
    assert "copied, and not on record" in told.reason
    done = in_process("verify", str(file))
    assert done.returncode == 1
    assert "copied, and not on record" in " ".join(done.stdout.split())
    assert "Not copied when this began" not in done.stdout

    write(copying.flow.source_client, one, range(2))
    assert verify_flow(settings, load(file).clusters).uncopied == {one: 2}, "it is compared up to where it was copied"


@pytest.mark.long
def test_a_record_of_the_flow_that_is_there_twice_is_extra_also_beside_a_running_engine_that_has_nothing_to_copy(
    engines: Engines, tmp_path: Path
) -> None:
    """What such an engine has on its way is waited for: that it is recorded, or that the position has gone by."""
    first = engines.running["first"] = engines.start()
    engines.send(400)
    engines.await_all()
    settings = load(engines.file)
    (flow,) = settings.enabled_flows
    small_spark(tmp_path)
    found = verify_flow(flow, settings.clusters)
    assert (found.verdict, sum(each.extra for each in found.partitions)) == (Verdict.PASS, 0)

    copy = engines.copies[0]
    with closing(Channel("west", engines.target)) as channel:
        told = active_producers(channel, [copy])
    (writer,) = told[copy]
    again = batch.encode(
        [Record(0, 1, None, b"0", (), -1)], 0, Producer(writer.producer_id, writer.epoch), writer.last_sequence + 1
    )
    append_as_it_is(engines.target, copy, again)
    found = verify_flow(flow, settings.clusters)
    assert found.verdict is Verdict.FAIL
    extra = [each for each in found.partitions if each.extra]
    assert [(each.target, each.extra, each.missing) for each in extra] == [(copy, 1, 0)]
    assert first.is_alive()


def test_partitions_without_position_and_topics_of_other_settings_are_named(
    file: Path, copying: Copying, east: Cluster, tmp_path: Path
) -> None:
    """A partition that is to be copied and is not: nothing can be said of it, so it cannot be PASS."""
    one, other = copying.pairs
    new = TopicPartition(f"{one.topic}-new", 0)
    east.create_topics([NewTopic(new.topic, 2, 1)])
    file.write_text(file.read_text().replace(f"topics = {one.topic}", f"topics = {one.topic}, {new.topic}"))
    for partition in (one, other, new):
        write(copying.flow.source_client, partition, range(3))
    copying.until_caught_up()
    small_spark(tmp_path)
    (settings,) = load(file).enabled_flows
    found = verify_flow(settings, load(file).clusters)

    assert [each.verdict for each in found.partitions] == [Verdict.PASS, Verdict.PASS]
    assert found.verdict is Verdict.UNKNOWN
    (told,) = found.left_out
    assert (told.cluster, told.partition, told.start, told.end) == (settings.flow.source, new, 0, 3)
    assert "no position" in told.reason

    # Nothing of the flow any more: said, and nothing that could have been checked.
    file.write_text(file.read_text().replace(f"topics = {one.topic}, {new.topic}", "topics = none"))
    (settings,) = load(file).enabled_flows
    found = verify_flow(settings, load(file).clusters)
    assert [(each.partition, each.end, each.is_unchecked) for each in found.left_out] == [
        (copying.pairs[each], 3, False) for each in (one, other)
    ]
    assert "selects no topic" in str(found.nothing)
    assert found.verdict is Verdict.UNKNOWN


def test_after_a_router_was_added_what_was_copied_is_compared_where_it_is(
    file: Path, copying: Copying, west: Cluster, tmp_path: Path
) -> None:
    """The topic where it would go to now is empty: reading that would never end."""
    one, other = copying.pairs
    for partition in (one, other):
        write(copying.flow.source_client, partition, range(20))
    copying.until_caught_up()
    router = f"{copying.flow.flow}.transforms"
    file.write_text(
        f"{file.read_text()}{router} = away\n{router}.away.type = org.apache.kafka.connect.transforms.RegexRouter\n"
        f"{router}.away.regex = .*\n{router}.away.replacement = {one.topic}-away\n"
    )
    west.create_topics([NewTopic(f"{one.topic}-away", 2, 1)])
    small_spark(tmp_path)
    (settings,) = load(file).enabled_flows
    found = verify_flow(settings, load(file).clusters)

    assert [(each.verdict, each.records, each.target) for each in found.partitions] == [
        (Verdict.PASS, 20, copying.pairs[each]) for each in (one, other)
    ]
    assert all(f"{one.topic}-away" in each.compared.notes[0] for each in found.partitions)


@pytest.mark.long
def test_without_the_module_of_a_transform_the_state_is_told_and_the_copy_is_not_judged(
    file: Path, copying: Copying, tmp_path: Path
) -> None:
    one, _ = copying.pairs
    write(copying.flow.source_client, one, range(3))
    copying.until_caught_up()
    mine = f"{copying.flow.flow}.transforms"
    file.write_text(f"{file.read_text()}{mine} = mine\n{mine}.mine.type = python:nowhere_at_all:f\n")
    done = in_process("status", str(file), "--json")
    assert done.returncode == 0, done.stderr
    assert in_process("plan", str(file)).returncode == 2
    small_spark(tmp_path)
    settings = load(file, applies_transforms=False)
    found = verify_flow(settings.enabled_flows[0], settings.clusters)

    assert found.verdict is Verdict.UNKNOWN
    assert "the module nowhere_at_all cannot be imported" in str(found.partitions[0].problem)


def test_a_copy_that_was_cut_lacks_its_end_at_once(file: Path, copying: Copying, west: Cluster, tmp_path: Path) -> None:
    """The topic was deleted and created anew: what the map speaks of is not waited for."""
    one, other = copying.pairs
    for partition in (one, other):
        write(copying.flow.source_client, partition, range(5))
    copying.until_caught_up()
    west.delete_topics([copying.pairs[one].topic])
    wait_until(
        lambda: not west.create_topics([NewTopic(copying.pairs[one].topic, 2, 1)])[0].problem,
        "the topic to be created anew",
        timeout_seconds=60,
    )
    small_spark(tmp_path)
    (settings,) = load(file).enabled_flows
    found = verify_flow(settings, load(file).clusters)
    assert [(each.verdict, each.missing, each.problem) for each in found.partitions] == [(Verdict.FAIL, 5, None)] * 2
    assert "the copy ends at 0" in found.partitions[0].compared.notes[0]


def test_what_retention_removes_of_the_source_while_it_is_compared_leaves_the_rest_to_be_compared(
    file: Path, copying: Copying, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failback was taken back for it: of a log that was not read to the end nothing is known to be equal."""
    one, other = copying.pairs
    for partition in (one, other):
        write(copying.flow.source_client, partition, range(20))
    copying.until_caught_up()
    compare, compared = verifying.verify, []

    def removing_before(spark: SparkSession, pairs: Sequence[PartitionPair], *how: Any) -> Equivalence:
        if not compared:
            delete_records(copying.flow.source_client, one, 5)
        compared.append([(pair.source.start, pair.remembered is not None) for pair in pairs])
        return compare(spark, pairs, *how)

    monkeypatch.setattr(verifying, "verify", removing_before)
    small_spark(tmp_path)
    (settings,) = load(file).enabled_flows
    found = verify_flow(settings, load(file).clusters)
    assert [(each.verdict, each.records) for each in found.partitions] == [(Verdict.PASS, 15), (Verdict.PASS, 20)]
    assert compared == [[(0, False), (0, False)], [(5, False), (0, True)]]


@pytest.mark.long
def test_what_retention_has_removed_of_the_copy_alone_is_not_missing_and_what_somebody_has_removed_is(
    file: Path, copying: Copying, east: Cluster, west: Cluster, tmp_path: Path
) -> None:
    """Brokers delete whole segments, which end at other records on either side: planned failovers ended with FAIL."""
    old, fresh = copying.pairs
    now = int(time.time() * 1000)
    # Brokers remove nothing by themselves while this is tested: a segment that is old as a whole.
    east.alter_configs({old.topic: ConfigChange({"retention.ms": "-1"}, ())})
    west.alter_configs({copying.pairs[old].topic: ConfigChange({"segment.ms": str(30 * 86_400_000)}, ())})
    with closing(LogWriter(copying.flow.source_client)) as writer:
        for partition, at_ms in ((old, now - 8 * 86_400_000), (fresh, now)):
            writer.append(partition.topic, partition.partition, [(None, b"%d" % each, (), at_ms) for each in range(20)])
            writer.append(
                partition.topic, partition.partition, [(None, b"new %d" % each, (), now) for each in range(5)]
            )
    copying.until_caught_up()
    for copy in copying.pairs.values():
        delete_records(copying.flow.target_client, copy, 12)
    small_spark(tmp_path)
    (settings,) = load(file).enabled_flows
    found = verify_flow(settings, load(file).clusters)
    assert [(each.verdict, each.missing) for each in found.partitions] == [(Verdict.PASS, 0), (Verdict.FAIL, 12)]
    (removed,) = (each for each in found.left_out if each.cluster == settings.flow.source)
    assert (removed.partition, removed.start, removed.end, removed.is_unchecked) == (old, 0, 12, False)
    assert "west has removed the copies (retention.ms = 604800000, and all of them are from before" in removed.reason
    # Retention by size keeps as much as it says: of a log that has less it has removed nothing.
    for kept, missing in ((1_000_000_000, 12), (1, 0)):
        west.alter_configs({copying.pairs[fresh].topic: ConfigChange({"retention.bytes": str(kept)}, ())})
        found = verify_flow(settings, load(file).clusters)
        assert [each.missing for each in found.partitions] == [0, missing]


@pytest.mark.long
def test_what_java_mirror_maker_copied_is_compared_too(file: Path, copying: Copying, tmp_path: Path) -> None:
    """Before a takeover without a place for each record: by contents, from the first offset sync on. What it doubled is extra."""
    one, other = copying.pairs
    write(copying.flow.source_client, one, range(60))
    write(copying.flow.source_client, other, range(60))
    for partition, twice in ((one, 0), (other, 7)):
        java = Java(copying, partition)
        java.life(0, 40)
        if twice:
            java.life(40 - twice, 47, batch=3)
        copying.mm2[partition] = java.trace(30 if twice else 40)
    assert all(each.stopped is None and each.trouble is None for each in copying.take_over().values())
    copying.until_caught_up()
    write(copying.flow.source_client, one, range(60, 63))
    copying.until_caught_up()
    small_spark(tmp_path)
    (settings,) = load(file).enabled_flows
    found = verify_flow(settings, load(file).clusters)

    assert [(each.records, each.missing, each.extra, each.misplaced) for each in found.partitions] == [
        (63, 0, 0, 0),
        (60, 0, 7, 0),
    ]
    assert [each.verdict for each in found.partitions] == [Verdict.PASS, Verdict.FAIL]
    assert found.left_out == ()


def append_as_it_is(client: dict[str, str], partition: TopicPartition, content: memoryview) -> None:
    """Append a batch with the producer id and sequence that it has."""
    channel = Channel("cluster", client)
    try:
        connection = channel.connect(channel.leader(partition), (PRODUCE,))
        try:
            request = wire.produce_request(connection.next_correlation(), [(partition, content)])
            (answer,) = wire.parse_produce(connection.ask(request))
            assert answer.error == 0
        finally:
            connection.close()
    finally:
        channel.close()


def ends_of_records(copying: Copying, source: TopicPartition) -> list[int]:
    return [each.offset for each in copying.copies(source)]
