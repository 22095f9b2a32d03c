"""Requests about consumer groups: lists, descriptions, positions read, written and deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

from kafka import errors as client_errors
from kafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from mirror.kafka import codes
from mirror.kafka.answers import (
    UNKNOWN_SERVER_ERROR,
    Answer,
    Found,
    ItemResult,
    found_of,
    item_results,
    spelled,
)
from mirror.kafka.cluster_connection import ClusterConnection
from mirror.kafka.cluster_model import GroupDescription, GroupListing, GroupPosition
from mirror.kafka.problems import ClusterError
from mirror.kafka.versions import FIND_COORDINATOR, FIND_COORDINATORS, OFFSET_COMMIT, OFFSET_FETCH
from mirror.model.counts import counted
from mirror.model.grouped import grouped
from mirror.model.partition import TopicPartition

_GROUP_COORDINATOR = 0


class GroupRequests(ClusterConnection):
    """What is asked of a cluster about consumer groups and their positions."""

    def groups(self) -> list[GroupListing]:
        """Return all groups of all brokers, consumers' and others', by name.

        Raises
        ------
        ClusterError
            if one broker does not answer: a list that could be short is not given.
        """
        listed: dict[str, GroupListing] = {}
        for broker in self.broker_ids():
            for group in self._settle_one("listing groups", partial(self._list_groups, broker)):
                listed[group.group] = group
        return [listed[name] for name in sorted(listed)]

    def _list_groups(self, broker: int) -> Answer:
        response = self.send(ListGroupsRequest(states_filter=[], types_filter=[]), broker)
        groups = [
            GroupListing(
                each.group_id,
                each.protocol_type,
                getattr(each, "group_state", None) or "Unknown",
                getattr(each, "group_type", None) or "",
            )
            for each in response.groups
        ]
        return Answer(response.error_code, None, groups)

    def describe_groups(self, names: Collection[str]) -> Found[str, GroupDescription]:
        """Return state and number of members of each group; of a group that does not exist, ``Dead`` and 0."""
        answers = self._of_coordinators("describing groups", names, self._describe_groups)
        unseen = [
            name
            for name, answer in answers.items()
            if answer.code == codes.GROUP_ID_NOT_FOUND or (answer.code == 0 and answer.value.state == "Dead")
        ]
        found: Found[str, GroupDescription] = found_of(
            {name: answer for name, answer in answers.items() if name not in unseen}
        )
        if unseen:
            # Groups of the new protocol are not shown by this request, but they are listed, with their state.
            listed = {group.group: group for group in self.groups()}
            for name in unseen:
                group = listed.get(name, GroupListing(name, "", "Dead", ""))
                members = 0 if group.state in ("Empty", "Dead") else 1
                found[name] = GroupDescription(group.state, members, is_share=group.group_type.lower() == "share")
        return found

    def _describe_groups(self, groups: Sequence[str], coordinator: int) -> dict[str, Answer]:
        request = DescribeGroupsRequest(groups=groups, include_authorized_operations=False)
        return {
            group.group_id: Answer(
                group.error_code,
                getattr(group, "error_message", None),
                GroupDescription(group.group_state, len(group.members)),
            )
            for group in self.send(request, coordinator).groups
        }

    def _of_coordinators(
        self, doing: str, names: Collection[str], ask: Callable[[Sequence[str], int], Mapping[str, Answer]]
    ) -> dict[str, Answer]:
        """Ask each coordinator for its groups; those of one that does not answer fail alone, and it is asked once.

        Raises
        ------
        ClusterError
            if no coordinator answers.
        """
        silent: dict[int, ClusterError] = {}
        of_silent: set[str] = set()

        def round_trip(asked: Sequence[str]) -> dict[str, Answer]:
            answers, by_coordinator = self._coordinators(asked)
            for coordinator, groups in by_coordinator.items():
                if coordinator not in silent:
                    try:
                        answers |= ask(groups, coordinator)
                        continue
                    except ClusterError as error:
                        silent[coordinator] = error
                why = f"no answer from the group coordinator, broker {coordinator}: {silent[coordinator].reason}"
                answers |= {group: Answer(UNKNOWN_SERVER_ERROR, why) for group in groups}
                of_silent.update(groups)
            return answers

        answers = self._settle(doing, names, round_trip)
        if silent and of_silent >= set(answers):
            raise next(iter(silent.values()))
        return answers

    def positions_of_groups(self, names: Collection[str]) -> Found[str, Found[TopicPartition, GroupPosition]]:
        """Return the committed positions of many groups, with one request to each of their coordinators."""
        return found_of(self._of_coordinators("reading positions of groups", names, self._fetch_positions))

    def _fetch_positions(self, groups: Sequence[str], coordinator: int) -> dict[str, Answer]:
        # Version 10 speaks of topic ids; version 8 is the first to take many groups at once.
        if self._manager.broker_version_data.api_version(OffsetFetchRequest) >= OFFSET_FETCH.newest:
            asked = [OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
            response = self.send(
                OffsetFetchRequest(groups=asked, require_stable=False, max_version=OFFSET_FETCH.newest), coordinator
            )
            return {each.group_id: _positions(each.error_code, each.topics) for each in response.groups}
        answers = {}
        for group in groups:
            response = self.send(OffsetFetchRequest(group_id=group, topics=None, max_version=7), coordinator)
            answers[group] = _positions(response.error_code, response.topics)
        return answers

    def write_positions_of_groups(
        self,
        wanted: Mapping[str, Mapping[TopicPartition, GroupPosition]],
        before: Callable[[], None] = lambda: None,
    ) -> dict[str, list[ItemResult]]:
        """Commit positions for many groups, a request each, several of them under way to every coordinator.

        As nobody's member: the broker refuses it while a group has members. ``before`` is called right before each
        request is sent; what it raises keeps that from being sent, and all behind it. It must not wait: it is called
        in the thread that sends, and what was handed over just before would go out behind the wait.
        """
        return self._change_positions(
            "writing",
            wanted,
            lambda group, asked: _commit(group, {each: wanted[group][each] for each in asked}),
            before,
        )

    def _change_positions(
        self,
        doing: str,
        wanted: Mapping[str, Collection[TopicPartition]],
        request: Callable[[str, Sequence[TopicPartition]], Any],
        before: Callable[[], None],
    ) -> dict[str, list[ItemResult]]:
        """Send a request for each group; coordinators are looked up for many groups at once."""
        items = [(group, partition) for group, positions in wanted.items() for partition in positions]

        def ask(asked: Sequence[tuple[str, TopicPartition]]) -> dict[tuple[str, TopicPartition], Answer]:
            partitions: dict[str, list[TopicPartition]] = defaultdict(list)
            for group, partition in asked:
                partitions[group].append(partition)
            unknown, by_coordinator = self._coordinators(list(partitions))
            answers = {(group, each): answer for group, answer in unknown.items() for each in partitions[group]}
            requests = [
                (coordinator, group, request(group, partitions[group]))
                # In turns, so that all coordinators are at work.
                for row in zip_longest(*([(node, group) for group in led] for node, led in by_coordinator.items()))
                for coordinator, group in filter(None, row)
            ]
            responses = self._send_each([(coordinator, each) for coordinator, _, each in requests], before)
            for (_, group, _), response in zip(requests, responses, strict=True):
                if isinstance(response, client_errors.KafkaError):
                    failed = Answer(codes.COORDINATOR_NOT_AVAILABLE, f"no answer: {response}")
                    answers |= {(group, each): failed for each in partitions[group]}
                    continue
                # A refused deletion names no partition.
                if code := getattr(response, "error_code", 0):
                    answers |= {(group, each): Answer(code) for each in partitions[group]}
                    continue
                answers |= {
                    (group, TopicPartition(topic.name, each.partition_index)): Answer(each.error_code)
                    for topic in response.topics
                    for each in topic.partitions
                }
            return answers

        what = f"group {next(iter(wanted))}" if len(wanted) == 1 else counted(len(wanted), "group")
        answers = self._settle(f"{doing} positions of {what}", items, ask)
        return {
            group: item_results({each: answers[group, each] for each in positions})
            for group, positions in wanted.items()
        }

    def delete_positions_of_groups(
        self, wanted: Mapping[str, Collection[TopicPartition]]
    ) -> dict[str, list[ItemResult]]:
        """Delete positions of many groups, sent as they are written.

        The broker refuses it while a member of the group subscribes to the topic.
        """
        return self._change_positions("deleting", wanted, _deletion, lambda: None)

    def delete_groups(self, names: Collection[str]) -> list[ItemResult]:
        """Delete groups with their positions; the broker refuses it for one with members. ``existed``: it was there."""

        def ask(asked: Sequence[str]) -> dict[str, Answer]:
            answers, by_coordinator = self._coordinators(asked)
            for coordinator, coordinated in by_coordinator.items():
                response = self.send(DeleteGroupsRequest(groups_names=coordinated), coordinator)
                answers |= {each.group_id: Answer(each.error_code) for each in response.results}
            return answers

        answers = self._settle("deleting groups", names, ask)
        absent = {name for name, answer in answers.items() if answer.code == codes.GROUP_ID_NOT_FOUND}
        return [
            ItemResult(name, None if name in absent else answer.problem, existed=name not in absent)
            for name, answer in answers.items()
        ]

    def _coordinators(self, groups: Sequence[str]) -> tuple[dict[str, Answer], dict[int, list[str]]]:
        """Return the answers for groups whose coordinator cannot be known, and the others by coordinator."""
        many = FIND_COORDINATORS.oldest
        if self._manager.broker_version_data.api_version(FindCoordinatorRequest) >= many:
            request = FindCoordinatorRequest(
                key_type=_GROUP_COORDINATOR, coordinator_keys=list(groups), min_version=many
            )
            answered = [(each.key, each) for each in self.send(request).coordinators]
        else:
            answered = [
                (
                    group,
                    self.send(
                        FindCoordinatorRequest(
                            key=group, key_type=_GROUP_COORDINATOR, max_version=FIND_COORDINATOR.newest
                        )
                    ),
                )
                for group in groups
            ]
        answers: dict[str, Answer] = {}
        by_coordinator: dict[int, list[str]] = defaultdict(list)
        for group, coordinator in answered:
            if coordinator.error_code:
                answers[group] = Answer(coordinator.error_code, coordinator.error_message)
            else:
                by_coordinator[coordinator.node_id].append(group)
        return answers, by_coordinator


def _commit(group: str, positions: Mapping[TopicPartition, GroupPosition]) -> Any:
    """Return the request that commits positions for a group, as nobody's member."""
    committed = OffsetCommitRequest.OffsetCommitRequestTopic
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        retention_time_ms=-1,
        topics=[
            committed(
                name=topic,
                partitions=[
                    committed.OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=positions[TopicPartition(topic, index)].position,
                        committed_leader_epoch=positions[TopicPartition(topic, index)].leader_epoch,
                        committed_metadata=positions[TopicPartition(topic, index)].metadata,
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in grouped(positions).items()
        ],
        max_version=OFFSET_COMMIT.newest,
    )


def _deletion(group: str, partitions: Sequence[TopicPartition]) -> Any:
    """Return the request that deletes positions of a group."""
    deleted = OffsetDeleteRequest.OffsetDeleteRequestTopic
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            deleted(
                name=topic,
                partitions=[deleted.OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
            )
            for topic, indexes in grouped(partitions).items()
        ],
    )


def _positions(code: int, topics: Iterable[Any]) -> Answer:
    found: Found[TopicPartition, GroupPosition] = Found()
    answered = [code]
    for topic in topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            answered.append(each.error_code)
            if each.error_code:
                found.problems[partition] = spelled(each.error_code, None)
            elif each.committed_offset >= 0:
                epoch = getattr(each, "committed_leader_epoch", None)
                found[partition] = GroupPosition(
                    each.committed_offset, each.metadata or "", -1 if epoch is None else epoch
                )
    # One partition that is unstable for a moment makes the whole answer worth asking for again.
    passing = next((each for each in answered if each in codes.TRANSIENT), code)
    return Answer(passing, None, found)
