"""What a translated position is called, in a table or a report."""

from __future__ import annotations

from mirror.model.translation import Bounded, NothingRead, describe


def test_of_a_group_that_has_read_nothing_since_the_flow_back_put_it_somewhere_it_is_said_where_it_goes_on() -> None:
    assert describe(NothingRead(60, 55)) == (
        "the group has read nothing on the source since the flow back put it at 60 there: it goes on where it stands on "
        "the target"
    )


def test_what_is_read_again_at_most_is_said_and_so_is_that_it_is_nothing() -> None:
    assert describe(Bounded(60, 2)) == "60, at most 2 records behind"
    assert describe(Bounded(60, 0)) == "60, so that no record is read again"
