"""A buffer is used again when nobody can see what it held, and not before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.kafka.buffers import BufferPool

MB = 1 << 20


def address(view: memoryview) -> int:
    """Which buffer a view looks at."""
    return id(view.obj)


def test_a_buffer_is_used_again_once_every_slice_of_it_is_gone() -> None:
    pool = BufferPool()
    first = pool.view(MB)
    slice_of_first, buffer = first[10:20], address(first)
    assert address(pool.view(MB)) != buffer
    del first
    assert address(pool.view(MB)) != buffer
    del slice_of_first
    again = pool.view(MB - 1)
    assert (address(again), len(again)) == (buffer, MB - 1)


def test_no_more_is_kept_than_allowed_and_small_answers_not_at_all() -> None:
    pool = BufferPool(2 * MB)
    views = [pool.view(MB) for _ in range(5)]
    assert len({address(view) for view in views}) == 5
    kept = [view.obj for view in views[:2]]
    views.clear()
    for _ in range(5):
        assert any(pool.view(MB).obj is buffer for buffer in kept)
    small = pool.view(10)
    assert len(small) == len(small.obj) == 10  # type: ignore[arg-type]


def test_a_larger_answer_takes_the_place_of_free_buffers_that_are_too_small() -> None:
    pool = BufferPool(3 * MB)
    pool.view(2 * MB)
    buffer = address(pool.view(3 * MB))
    assert address(pool.view(3 * MB)) == buffer


@given(st.lists(st.tuples(st.integers(1, 3 * MB), st.booleans()), max_size=30))
def test_whoever_holds_a_view_finds_in_it_what_was_written(steps: list[tuple[int, bool]]) -> None:
    """No two views that are held look at the same bytes."""
    pool = BufferPool(4 * MB)
    held: list[tuple[int, memoryview]] = []
    for number, (size, keeps) in enumerate(steps):
        view = pool.view(size)
        assert len(view) == size
        view[:1] = view[-1:] = bytes([number])
        if keeps:
            held.append((number, view))
        del view
        assert all(view[0] == view[-1] == number for number, view in held)
