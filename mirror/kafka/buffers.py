"""Memory for large answers, used again as soon as nobody looks at the answer it held.

A fresh buffer of some megabytes costs as much as reading the socket into it: the system hands out pages one by one, and
each is cleared first. The buffers of answers that were dealt with are still warm.

Invariants:

(a) Large answers are read into a connection's own pool of buffers (``kafka/buffers.py``). A buffer is used again when
    no view of it is left, which Python tells by refusing to resize it; fresh memory of megabytes costs as much as
    reading the socket.
"""

from __future__ import annotations

# Smaller answers are cheap wherever they lie.
_SMALLEST_BYTES = 1 << 16
_ROUNDED_TO_BYTES = 1 << 20


class BufferPool:
    """Hands out writable views; a buffer is free again when no view of it, nor any slice of one, is left."""

    def __init__(self, most_bytes: int = 32 << 20) -> None:
        """Keep no more than ``most_bytes``; what is asked for beyond that is made afresh."""
        self._most_bytes = most_bytes
        self._buffers: list[bytearray] = []

    def view(self, size: int) -> memoryview:
        """Return a view of ``size`` bytes; what they hold is undefined."""
        if size < _SMALLEST_BYTES:
            return memoryview(bytearray(size))
        free = [buffer for buffer in self._buffers if _is_free(buffer)]
        for buffer in free:
            if len(buffer) >= size:
                return memoryview(buffer)[:size]
        made = bytearray(-(-size // _ROUNDED_TO_BYTES) * _ROUNDED_TO_BYTES)
        # Those that are too small make room for what is needed now.
        kept = [buffer for buffer in self._buffers if not any(buffer is each for each in free)]
        if sum(map(len, kept)) + len(made) <= self._most_bytes:
            self._buffers = [*kept, made]
        return memoryview(made)[:size]


def _is_free(buffer: bytearray) -> bool:
    """Tell whether no view is left: Python refuses to resize a buffer that somebody looks at."""
    try:
        last = buffer.pop()
    except BufferError:
        return False
    # In this order the memory is never moved.
    buffer.append(last)
    return True
