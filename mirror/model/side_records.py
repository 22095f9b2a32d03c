"""The two shapes MirrorMaker 2's side records are made of: big-endian numbers, and strings behind an int16 length.

Kafka's protocol types without tags or trailing bytes (spec section 3). A reader passes over what does not parse.
"""

from __future__ import annotations

import struct


class Malformed(ValueError):
    """Bytes that are not a record of the expected form."""


def string(text: str) -> bytes:
    """Encode a STRING."""
    content = text.encode()
    return struct.pack(">h", len(content)) + content


def read_string(data: bytes, position: int) -> tuple[str, int]:
    """Read a STRING at ``position``; return it and the position behind it.

    Raises
    ------
    Malformed
        if the bytes end before it does, or are no UTF-8.
    """
    try:
        (length,) = struct.unpack_from(">h", data, position)
        content = data[position + 2 : position + 2 + length]
        if length < 0 or len(content) < length:
            raise Malformed("a string reaches past the end")
        return content.decode(), position + 2 + length
    except (struct.error, UnicodeDecodeError) as error:
        raise Malformed(str(error)) from error


def read_numbers(layout: struct.Struct, data: bytes, position: int) -> tuple[int, ...]:
    """Read the numbers of ``layout`` at ``position``.

    Raises
    ------
    Malformed
        if the bytes end before they do.
    """
    try:
        return layout.unpack_from(data, position)
    except struct.error as error:
        raise Malformed(str(error)) from error
