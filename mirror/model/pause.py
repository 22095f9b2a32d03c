"""Pauses of a flow: which topics are not to be copied for now, and what the flow's leader says of that.

Both are records of the state topic on the target. A wish speaks of all topics or of those whose whole name matches a
regular expression, and holds until a later one speaks of the same topic: the order of the log decides, never a clock.
Each wish is one record, so that of two people who pause and resume at once the last one wins as a whole.

The cut of a failover is a wish of its own, about all topics: it ends no other, so that what somebody had paused by hand
is paused as before when the cut is ended. Its end takes its record back: versions that know of no cuts go on then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from mirror.model.counts import counted
from mirror.model.grouped import grouped
from mirror.model.partition import TopicPartition

CUT = "cut"


@dataclass(frozen=True, slots=True)
class PauseWish:
    """That topics of a flow are not copied from now on, or are copied again.

    Attributes
    ----------
    wish
        tells it from every other one.
    topics
        a regular expression for whole names of topics on the source; None: all of them, also later ones.
    is_pause
        whether they are paused; otherwise they are copied again.
    by, at_ms
        who wants it, and since when, in ms since the epoch.
    is_cut
        whether it is that of a failover or a failback, which is about all topics; otherwise it was made by hand.
    log_ends
        of a cut: where the logs of the target ended when it was made, by topic, in the order of their partitions; None
        for a partition whose leader did not say. None as a whole: not on record.
    log_ids
        of a cut: the ids of those topics; None: not on record.
    """

    wish: str
    topics: str | None
    is_pause: bool
    by: str
    at_ms: int
    is_cut: bool = False
    log_ends: Mapping[str, Sequence[int | None]] | None = field(default=None, hash=False)
    log_ids: Mapping[str, str] | None = field(default=None, hash=False)

    @property
    def key(self) -> list[str | None]:
        """Return what its record is kept under: the newest that names the same topics replaces it.

        Versions that know of no cuts do not understand the key of one, and copy nothing as long as it has a value.
        """
        if self.is_cut:
            return ["pause", None, CUT]
        return ["pause"] if self.topics is None else ["pause", self.topics]

    def content(self) -> dict[str, Any]:
        """Return the value of its record."""
        logs = {"log_ends": self.log_ends, "log_ids": self.log_ids}
        known = {name: each for name, each in logs.items() if each is not None}
        return {"wish": self.wish, "paused": self.is_pause, "by": self.by, "at_ms": self.at_ms, **known}

    @classmethod
    def of(cls, topics: str | None, content: dict[str, Any], *, is_cut: bool = False) -> PauseWish:
        """Return the wish that a record holds.

        Raises
        ------
        ValueError, KeyError, TypeError
            if it is none that this version understands.
        """
        if topics is not None:
            try:
                re.compile(topics)
            except re.error as problem:
                raise ValueError(f"{topics!r} is not a regular expression: {problem}") from problem
        if not isinstance(content["paused"], bool):
            raise ValueError("it does not say whether the topics are paused")
        logs = content.get("log_ends"), content.get("log_ids")
        return cls(content["wish"], topics, content["paused"], content["by"], content["at_ms"], is_cut, *logs)

    def log_end(self, partition: TopicPartition) -> int | None:
        """Return where a log of the target ended when the flow was cut: 0 if it was not there; None: not on record."""
        if self.log_ends is None:
            return None
        ends = self.log_ends.get(partition.topic, ())
        return ends[partition.partition] if partition.partition < len(ends) else 0

    def continuing(self, cut: PauseWish) -> PauseWish:
        """Return it, a cut that is made again, as one since ``cut``, which is in force.

        What has been written since that one counts, also if it is not on record where logs ended then: where they end
        by now says nothing of it.
        """
        return replace(self, at_ms=cut.at_ms, log_ends=cut.log_ends, log_ids=cut.log_ids)

    def speaks_of(self, topic: str) -> bool:
        """Whether it is about a topic of the source."""
        return self.topics is None or re.fullmatch(self.topics, topic) is not None

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        what = "all topics" if self.topics is None else f"topics that match {self.topics}"
        why = ", the cut of a failover" if self.is_cut else ""
        return f"{what}, {'paused' if self.is_pause else 'resumed'} by {self.by} at {since}{why}"


@dataclass(frozen=True, slots=True)
class Pauses:
    """What is wished of a flow's topics, in the order of the log.

    Attributes
    ----------
    wishes
        those by hand: the newest of each expression; nothing from before the newest that speaks of all topics.
    obscure
        why one of them is not understood: then no topic is copied, for it might be about any.
    cut
        that of a failover or a failback; None: there is none, or it was ended.
    """

    wishes: tuple[PauseWish, ...] = ()
    obscure: str | None = None
    cut: PauseWish | None = None

    def with_wish(self, wish: PauseWish) -> Pauses:
        """Return them with one that was read behind them."""
        if wish.is_cut:
            return replace(self, cut=wish if wish.is_pause else None)
        others = () if wish.topics is None else self.without(wish.topics).wishes
        return replace(self, wishes=(*others, wish))

    def without(self, topics: str | None) -> Pauses:
        """Return them without the one by hand that is kept for these topics."""
        return replace(self, wishes=tuple(each for each in self.wishes if each.topics != topics))

    def without_cut(self) -> Pauses:
        """Return those by hand."""
        return replace(self, cut=None)

    def is_paused(self, topic: str) -> bool:
        """Whether a topic of the source is not to be copied."""
        newest = next((each for each in reversed(self.wishes) if each.speaks_of(topic)), None)
        return self.obscure is not None or self.is_cut or (newest is not None and newest.is_pause)

    @property
    def is_cut(self) -> bool:
        """Whether the flow is cut by a failover or a failback."""
        return self.cut is not None

    @property
    def may_be_cut(self) -> bool:
        """Whether the flow is cut, or a wish is not understood: one of a later version may be a cut."""
        return self.is_cut or self.obscure is not None

    @property
    def known(self) -> tuple[PauseWish, ...]:
        """All that counts, also what has ended a pause by hand."""
        return (*self.wishes, *((self.cut,) if self.cut is not None else ()))

    def has(self, wish: str) -> bool:
        """Whether a wish still counts, for some topics at least."""
        return any(each.wish == wish for each in self.known)

    @property
    def in_force(self) -> tuple[PauseWish, ...]:
        """The wishes by which something is paused."""
        return tuple(each for each in self.known if each.is_pause)

    @property
    def pauses_any(self) -> bool:
        """Whether some topic may be paused."""
        return self.obscure is not None or bool(self.in_force)

    @property
    def shown(self) -> tuple[PauseWish, ...]:
        """What is paused; of what was resumed only exceptions from a pause by hand."""
        by_hand = self.wishes if any(each.is_pause for each in self.wishes) else ()
        return (*by_hand, *((self.cut,) if self.cut is not None else ()))

    def descriptions(self) -> tuple[str, ...]:
        """Return :attr:`shown` in words for people."""
        if self.obscure is not None:
            return (f"nothing is copied, since a record of a pause or resume is not understood: {self.obscure}",)
        return tuple(map(str, self.shown))


@dataclass(frozen=True, slots=True)
class PauseReport:
    """What the flow's leader says of its paused topics; what was said by an earlier leader does not count.

    Attributes
    ----------
    engine
        the leader's id.
    wishes
        the wishes that it has taken in.
    busy
        the partitions of paused topics to whose copies something may still be appended.
    unsettled
        the others of which it is not known how far they are copied, and why: their recorded positions may lie before
        the end of what was copied.
    unrefused
        the partitions to whose copies nobody appends any more, but where the target would take what was sent before
        and has not arrived: until something else is copied there nothing refuses it.
    weakness
        why the target does not refuse that; empty while it does.
    """

    engine: str
    wishes: tuple[str, ...]
    busy: frozenset[TopicPartition] = frozenset()
    unsettled: dict[TopicPartition, str] = field(default_factory=dict)
    unrefused: frozenset[TopicPartition] = frozenset()
    weakness: str = ""

    def content(self) -> dict[str, Any]:
        """Return the value of its record."""
        return {
            "engine": self.engine,
            "wishes": list(self.wishes),
            "busy": grouped(sorted(self.busy)),
            "unsettled": [[*source, why] for source, why in sorted(self.unsettled.items())],
            "unrefused": grouped(sorted(self.unrefused)),
            "weakness": self.weakness,
        }

    @classmethod
    def of(cls, content: dict[str, Any]) -> PauseReport:
        """Return the report that a record holds."""
        return cls(
            content["engine"],
            tuple(content["wishes"]),
            _partitions(content["busy"]),
            {TopicPartition(topic, partition): why for topic, partition, why in content["unsettled"]},
            _partitions(content.get("unrefused", {})),
            content.get("weakness", ""),
        )


def limit_words(late: Mapping[TopicPartition, str]) -> str | None:
    """Say for people to which copies something may be appended although nobody sends it any more; None: to none.

    Parameters
    ----------
    late
        why that is not refused, by partition of the source.
    """
    if not late:
        return None
    first = min(late)
    others = " and others" if len(late) > 1 else ""
    return (
        f"what was sent before to the copies of {counted(len(late), 'partition')} and has not arrived would still be "
        f"appended ({first}{others}): {late[first]}"
    )


def _partitions(by_topic: Mapping[str, Iterable[int]]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for topic, numbers in by_topic.items() for number in numbers)


def paused_of(pauses: Pauses, sources: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
    """Return those of some partitions of the source whose topics are paused."""
    sources = list(sources)
    topics = {topic for topic in {source.topic for source in sources} if pauses.is_paused(topic)}
    return frozenset(source for source in sources if source.topic in topics)
