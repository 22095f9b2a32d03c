"""Names that match nothing, and topics that a file leaves out from now on, are named before it is taken."""

from __future__ import annotations

from mirror.control.selected_topics import offsets_given_up, selected_topics_notes
from mirror.engine.translated_copies import TranslatedCopies
from mirror.model.flow_state import FlowState
from mirror.model.partition import TopicPartition
from mirror.model.position import Position
from tests.unit.control.builders import flow_settings

ORDERS, AUDIT = TopicPartition("orders", 0), TopicPartition("audit", 0)
TRANSLATED, SAME = Position(5, 5, 0, complete=True), Position(5, 5, 0, complete=True, same_offsets=True)
ON_RECORD = {ORDERS: TRANSLATED, AUDIT: SAME}
NAMES = ("orders", "audit", "bills")


def test_a_file_that_selects_as_before_is_taken_without_a_word() -> None:
    settings = flow_settings("mirror.offsets = same", "mirror.offsets.topics = audit")
    assert selected_topics_notes(NAMES, settings, ON_RECORD) == ()
    assert selected_topics_notes((), settings, {}) == (), "of a source without topics nothing can be told"


def test_a_name_that_matches_no_topic_is_named_and_so_is_what_is_left_out_by_it() -> None:
    """The plan said that there are no changes, and a running engine ceased to copy orders within two seconds."""
    settings = flow_settings("topics = ordrs, audit, b(il|u)ls")
    left, given_up = selected_topics_notes(NAMES, settings, ON_RECORD)[1:]
    assert selected_topics_notes(NAMES, settings, ON_RECORD)[0] == "topics: ordrs matches no topic of east"
    assert left == "copied so far, and no longer selected by topics: orders"
    assert given_up.startswith("copied with the source's offsets so far, and no longer selected for them")


def test_a_mistyped_name_does_not_switch_the_source_s_offsets_off_without_a_word() -> None:
    settings = flow_settings("mirror.offsets = same", "mirror.offsets.topics = auditt")
    unmatched, given_up = selected_topics_notes(NAMES, settings, ON_RECORD)
    assert unmatched == "mirror.offsets.topics: auditt matches no topic that is copied from east"
    assert "no longer selected for them (mirror.offsets, mirror.offsets.topics): audit; translated from now" in given_up
    translated = TranslatedCopies()
    translated.begin(settings, FlowState(positions=ON_RECORD))
    assert translated.given_up == offsets_given_up(settings, ON_RECORD) == (given_up,)
