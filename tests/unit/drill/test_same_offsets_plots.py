"""What lies at each offset of a log: every offset once, and what is alike in one piece."""

from __future__ import annotations

from mirror.drill.same_offsets_plots import Lies, Piece, offsets_plot, picture_of
from mirror.evidence.pictures import svg


def test_every_offset_of_a_log_is_told_once() -> None:
    source = picture_of(
        "east", (100, 130), [(100, 110), (110, 115), (116, 120), (121, 128)], [100, 110, 121], Lies.REMOVED
    )
    assert source.pieces == (
        Piece(0, 100, Lies.REMOVED),
        Piece(100, 115, Lies.RECORDS),
        Piece(115, 116, Lies.MARKERS),
        Piece(116, 120, Lies.ABORTED),
        Piece(120, 121, Lies.MARKERS),
        Piece(121, 128, Lies.RECORDS),
        Piece(128, 130, Lies.MARKERS),
    )
    assert sum(source.count(what) for what in Lies) == 130


def test_a_batch_that_reaches_over_the_start_is_there_from_the_start_on() -> None:
    copy = picture_of("west", (105, 110), [(100, 110)], [100], Lies.PADDING)
    assert copy.pieces == (Piece(0, 105, Lies.PADDING), Piece(105, 110, Lies.RECORDS))


def test_an_empty_log_is_all_that_was_before_it_and_can_be_drawn() -> None:
    empty = picture_of("west", (0, 0), [], [], Lies.PADDING)
    assert empty.pieces == ()
    assert "offset" in svg(offsets_plot([empty, picture_of("east", (7, 7), [], [], Lies.REMOVED)]))
