"""The hot frames are those of the protocol: kafka-python's own classes read what is written and write what is read."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.producer import ProduceRequest, ProduceResponse

from mirror.kafka import wire
from mirror.kafka.wire import Aborted, FetchFailed, FetchFrom
from mirror.model.partition import TopicPartition

topics = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=200)
partitions = st.builds(TopicPartition, topics, st.integers(0, 2**31 - 1))
offsets = st.integers(0, 2**63 - 1)
contents = st.binary(max_size=300)


def unframed(pieces: list[Any]) -> bytes:
    frame = b"".join(bytes(piece) for piece in pieces)
    (length,) = struct.unpack_from(">i", frame)
    assert length == len(frame) - 4
    return frame[4:]


def answer(message: Any, version: int) -> memoryview:
    message.API_VERSION = version
    message.with_header(correlation_id=7)
    return memoryview(bytearray(message.encode(header=True)))


@given(
    st.dictionaries(
        partitions,
        st.builds(FetchFrom, offsets, st.integers(0, 2**31 - 1), st.integers(-1, 9), st.integers(-1, 9)),
        max_size=6,
    ),
    st.sets(partitions, max_size=4),
    st.tuples(st.integers(0, 2**31 - 1), st.integers(-1, 2**31 - 1)),
    st.integers(0, 5000),
    st.booleans(),
    st.text(max_size=200),
)
def test_a_fetch_is_read_by_another_implementation(
    wanted: dict[TopicPartition, FetchFrom],
    forgotten: set[TopicPartition],
    session: tuple[int, int],
    wait_ms: int,
    committed: bool,
    rack: str,
) -> None:
    frame = wire.fetch_request(
        5,
        wanted,
        wait_ms=wait_ms,
        read_committed=committed,
        least_bytes=7,
        total_bytes=99,
        session=session,
        forgotten=forgotten,
        rack=rack,
    )
    read = FetchRequest.decode(unframed([frame]), version=wire.FETCH_VERSION, header=True)
    assert (read.header.request_api_key, read.header.request_api_version) == (wire.FETCH_KEY, wire.FETCH_VERSION)
    assert (read.header.correlation_id, read.header.client_id) == (5, "mirror")
    assert (read.max_wait_ms, read.min_bytes, read.max_bytes) == (wait_ms, 7, 99)
    assert (read.session_id, read.session_epoch, read.replica_id) == (*session, -1)
    assert (read.isolation_level, read.rack_id) == (int(committed), rack)
    found = {
        TopicPartition(topic.topic, each.partition): FetchFrom(
            each.fetch_offset, each.partition_max_bytes, each.current_leader_epoch, each.last_fetched_epoch
        )
        for topic in read.topics
        for each in topic.partitions
    }
    assert found == wanted
    left = [TopicPartition(topic.topic, each) for topic in read.forgotten_topics_data for each in topic.partitions]
    assert sorted(left) == sorted(forgotten)


fetched = st.dictionaries(
    partitions,
    st.tuples(
        st.integers(0, 100),
        offsets,
        offsets,
        offsets,
        st.lists(st.tuples(offsets, offsets), max_size=3),
        st.integers(-1, 2**31 - 1),
        contents,
    ),
    max_size=5,
)


@given(fetched)
def test_a_fetch_answer_of_another_implementation_is_read(parts: dict[TopicPartition, tuple[Any, ...]]) -> None:
    response = FetchResponse.FetchableTopicResponse
    data = response.PartitionData
    frame = answer(
        FetchResponse(
            throttle_time_ms=12,
            error_code=0,
            session_id=34,
            responses=[
                response(
                    topic=topic,
                    partitions=[
                        data(
                            partition_index=each.partition,
                            error_code=code,
                            high_watermark=high,
                            last_stable_offset=stable,
                            log_start_offset=start,
                            aborted_transactions=[
                                data.AbortedTransaction(producer_id=producer, first_offset=first)
                                for producer, first in aborted
                            ],
                            preferred_read_replica=preferred,
                            records=records,
                        )
                        for each, (code, high, stable, start, aborted, preferred, records) in parts.items()
                        if each.topic == topic
                    ],
                )
                for topic in {each.topic for each in parts}
            ],
        ),
        wire.FETCH_VERSION,
    )
    found = {
        part.partition: (
            part.error,
            part.high_watermark,
            part.last_stable_offset,
            part.log_start_offset,
            [tuple(entry) for entry in part.aborted],
            part.preferred_replica,
            bytes(frame[part.start : part.stop]),
        )
        for part in wire.parse_fetch(frame)
    }
    assert found == parts
    assert wire.fetch_head(frame) == (12, 0, 34)
    assert all(isinstance(entry, Aborted) for part in wire.parse_fetch(frame) for entry in part.aborted)


@pytest.mark.parametrize("told", [(4, 170), None])
def test_a_leader_says_from_where_on_its_log_is_another_one(told: tuple[int, int] | None) -> None:
    response = FetchResponse.FetchableTopicResponse
    data = response.PartitionData
    both = [
        data(
            partition_index=number,
            high_watermark=9,
            aborted_transactions=[],
            records=b"",
            current_leader=data.LeaderIdAndEpoch(leader_id=2, leader_epoch=5),
            **({"diverging_epoch": data.EpochEndOffset(epoch=told[0], end_offset=told[1])} if told else {}),
        )
        for number in range(2)
    ]
    frame = answer(
        FetchResponse(
            throttle_time_ms=0, error_code=0, session_id=0, responses=[response(topic="orders", partitions=both)]
        ),
        wire.FETCH_VERSION,
    )
    assert [part.diverging for part in wire.parse_fetch(frame)] == [told, told]


def test_an_error_of_the_whole_fetch_is_raised() -> None:
    frame = answer(FetchResponse(throttle_time_ms=0, error_code=71, session_id=0, responses=[]), wire.FETCH_VERSION)
    with pytest.raises(FetchFailed) as failure:
        list(wire.parse_fetch(frame))
    assert failure.value.code == 71


@given(st.dictionaries(partitions, contents, min_size=1, max_size=6), st.none() | st.text(max_size=20))
def test_a_produce_request_is_read_by_another_implementation(
    batches: dict[TopicPartition, bytes], transactional_id: str | None
) -> None:
    contents = [(each, memoryview(content)) for each, content in batches.items()]
    pieces = wire.produce_request(9, contents, timeout_ms=77, transactional_id=transactional_id)
    read = ProduceRequest.decode(unframed(pieces), version=wire.PRODUCE_VERSION, header=True)
    assert (read.header.request_api_key, read.header.request_api_version) == (wire.PRODUCE_KEY, wire.PRODUCE_VERSION)
    assert (read.header.correlation_id, read.acks, read.timeout_ms) == (9, -1, 77)
    assert read.transactional_id == transactional_id
    found = {
        TopicPartition(topic.name, each.index): bytes(each.records or b"")
        for topic in read.topic_data
        for each in topic.partition_data
    }
    assert found == batches


def test_what_is_sent_is_not_copied() -> None:
    content = memoryview(bytearray(100))
    assert any(piece is content for piece in wire.produce_request(1, [(TopicPartition("orders", 0), content)]))


produced = st.dictionaries(
    partitions,
    st.tuples(
        st.integers(0, 100),
        offsets,
        st.lists(st.none() | st.text(max_size=20), max_size=3),
        st.none() | st.text(max_size=20),
    ),
    max_size=5,
)


@given(produced)
def test_a_produce_answer_of_another_implementation_is_read(parts: dict[TopicPartition, tuple[Any, ...]]) -> None:
    response = ProduceResponse.TopicProduceResponse
    data = response.PartitionProduceResponse
    frame = answer(
        ProduceResponse(
            responses=[
                response(
                    name=topic,
                    partition_responses=[
                        data(
                            index=each.partition,
                            error_code=code,
                            base_offset=base,
                            log_append_time_ms=~base,
                            log_start_offset=0,
                            record_errors=[
                                data.BatchIndexAndErrorMessage(batch_index=number, batch_index_error_message=reason)
                                for number, reason in enumerate(reasons)
                            ],
                            error_message=message,
                        )
                        for each, (code, base, reasons, message) in parts.items()
                        if each.topic == topic
                    ],
                )
                for topic in {each.topic for each in parts}
            ],
            throttle_time_ms=56,
        ),
        wire.PRODUCE_VERSION,
    )
    assert wire.produce_throttle_ms(frame) == 56
    answers = list(wire.parse_produce(frame))
    assert [each.appended_at for each in answers] == [~each.base_offset for each in answers]
    found = {part.partition: (part.error, part.base_offset, part.message) for part in answers}
    assert found == {
        each: (code, base, "; ".join(filter(None, (message, *reasons))))
        for each, (code, base, reasons, message) in parts.items()
    }


def test_a_ping_is_read_by_another_implementation() -> None:
    read = ApiVersionsRequest.decode(unframed([wire.ping_request(3)]), version=0, header=True)
    assert (read.header.request_api_key, read.header.correlation_id, read.header.client_id) == (18, 3, "mirror")
