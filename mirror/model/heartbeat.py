"""A heartbeat: the record that shows, wherever it is mirrored to, that the way there works (HB-01)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from mirror.model.side_records import Malformed, read_numbers, read_string, string

_VALUE = struct.Struct(">hq")
_VERSION = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Written for the flow ``source_alias -> target_alias`` at ``timestamp_ms``."""

    source_alias: str
    target_alias: str
    timestamp_ms: int

    def key_bytes(self) -> bytes:
        """Return the key as MM2 writes it (spec 3.2)."""
        return string(self.source_alias) + string(self.target_alias)

    def value_bytes(self) -> bytes:
        """Return the value as MM2 writes it (spec 3.2)."""
        return _VALUE.pack(_VERSION, self.timestamp_ms)

    @classmethod
    def parse(cls, key: bytes | None, value: bytes | None) -> Heartbeat | None:
        """Read a record of a heartbeats topic; None for one that is none."""
        try:
            source, position = read_string(key or b"", 0)
            target, _ = read_string(key or b"", position)
            _, timestamp_ms = read_numbers(_VALUE, value or b"", 0)
        except Malformed:
            return None
        return cls(source, target, timestamp_ms)
