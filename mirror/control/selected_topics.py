"""What a file selects differently from what has been copied so far, and names in it that match nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from mirror.config.settings import FlowSettings
from mirror.kafka.cluster import Cluster
from mirror.kafka.topic_ids import differ
from mirror.model.counts import first_of
from mirror.model.partition import TopicPartition
from mirror.model.patterns import PatternError, PatternFilter, PatternList
from mirror.model.position import Position

_NAMED = 5


def selected_topics_notes(
    topics: Collection[str], settings: FlowSettings, positions: Mapping[TopicPartition, Position]
) -> tuple[str, ...]:
    """Return, for people, what they may not have meant: the file is taken as it is all the same.

    Parameters
    ----------
    topics
        the topics of the source.
    """
    source = settings.flow.source
    # Of a class of one's own nobody knows what it is made of.
    include = settings.topic_filter.include if isinstance(settings.topic_filter, PatternFilter) else ()
    offsets = () if settings.same_offsets is None else settings.same_offsets.topics.patterns
    selected = [each for each in topics if settings.replicates(each)]
    notes = [
        *_unmatched("topics", include, topics, f"topic of {source}"),
        *_unmatched("mirror.offsets.topics", offsets, selected, f"topic that is copied from {source}"),
    ]
    if left := deselected_topics(settings, positions):
        notes.append(f"copied so far, and no longer selected by topics: {first_of(left, _NAMED)}")
    return (*notes, *offsets_given_up(settings, positions))


def deselected_topics(settings: FlowSettings, positions: Iterable[TopicPartition]) -> tuple[str, ...]:
    """Return the topics on record, of these positions, that the file does not select any more."""
    return tuple(sorted({each.topic for each in positions if not settings.replicates(each.topic)}))


def grown_past(source: Cluster, positions: Mapping[TopicPartition, Position]) -> list[str]:
    """Return the topics of these positions of which the source has more than was copied, or does not tell.

    Raises
    ------
    ClusterError
        if it does not answer.
    """
    there = source.topics({each.topic for each in positions})
    chosen = [each for each in positions if each.topic in there]
    anew = {each for each in chosen if differ(positions[each].topic_id, there[each.topic].topic_id)}
    ends = source.offsets(chosen, "latest")
    # One that has no leader, or may not be seen, tells nothing, and may have more.
    untold = there.problems.keys() & {each.topic for each in positions}
    copied = {each: 0 if each in anew else positions[each].upstream for each in chosen}
    return sorted(untold | {each.topic for each in chosen if each not in ends or ends[each] > copied[each]})


def offsets_given_up(settings: FlowSettings, positions: Mapping[TopicPartition, Position]) -> tuple[str, ...]:
    """Return, for people, which copies have had the source's offsets, and are translated from now on."""
    topics = {
        source.topic
        for source, position in positions.items()
        if position.same_offsets and settings.replicates(source.topic) and settings.pad_limit(source.topic) is None
    }
    if not topics:
        return ()
    message = (
        "copied with the source's offsets so far, and no longer selected for them (mirror.offsets, "
        f"mirror.offsets.topics): {first_of(sorted(topics), _NAMED)}; translated from now on, and a copy with other "
        "offsets has to be made anew to have them again"
    )
    return (message,)


def _unmatched(key: str, patterns: Sequence[str], names: Collection[str], what: str) -> list[str]:
    """Return which entries of a list of names and expressions match nothing by themselves."""
    return [f"{key}: {each} matches no {what}" for each in patterns if names and not _matches_any(each, names)]


def _matches_any(pattern: str, names: Collection[str]) -> bool:
    try:
        return any(map(PatternList((pattern,)).matches, names))
    except PatternError:
        # A part of an expression that had commas.
        return True
