"""The codecs of record batches, framed as Java's clients frame them.

Invariants:

(a) lz4 must be written with independent blocks; Java's reader refuses linked ones.
"""

from __future__ import annotations

import struct

import cramjam

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

_SNAPPY_STREAM = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
_SNAPPY_BLOCK_BYTES = 32 * 1024

_LZ4_MAGIC_BYTES = 4
_LZ4_HAS_CONTENT_SIZE = 0x08
_WORD = 0xFFFFFFFF
_XXH_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)

DecompressionError = cramjam.DecompressionError


class UnknownCodec(ValueError):
    """A number that stands for no codec."""


def decompress(codec: int, data: memoryview) -> bytes:
    """Return what ``data`` was before it was compressed.

    Raises
    ------
    DecompressionError, struct.error, IndexError
        if it does not hold together.
    UnknownCodec
        if there is no such codec.
    """
    match codec:
        case 0:
            return bytes(data)
        case 1:
            return bytes(cramjam.gzip.decompress(data))
        case 2:
            return _snappy_decompress(bytes(data))
        case 3:
            return bytes(cramjam.lz4.decompress(data))
        case 4:
            return bytes(cramjam.zstd.decompress(data))
    raise UnknownCodec(f"unknown compression codec {codec}")


def compress(codec: int, data: bytes) -> bytes:
    """Return ``data`` compressed.

    Raises
    ------
    UnknownCodec
        if there is no such codec.
    """
    match codec:
        case 0:
            return data
        case 1:
            return bytes(cramjam.gzip.compress(data))
        case 2:
            return _snappy_compress(data)
        case 3:
            # Kafka's Java reader refuses linked blocks. The level is the fast one, as Java's producers use it.
            stream = cramjam.lz4.Compressor(level=1, block_linked=False)
            stream.compress(data)
            return bytes(stream.finish())
        case 4:
            return bytes(cramjam.zstd.compress(data))
    raise UnknownCodec(f"unknown compression codec {codec}")


def with_lz4_header_checksum(data: memoryview) -> memoryview:
    """Return an lz4 frame with the header checksum that its format asks for.

    In message format 0 Kafka computed it over the frame's magic number too (KIP-57).
    """
    frame = bytearray(data)
    end = _LZ4_MAGIC_BYTES + (10 if frame[_LZ4_MAGIC_BYTES] & _LZ4_HAS_CONTENT_SIZE else 2)
    frame[end] = _short_xxh32(frame[_LZ4_MAGIC_BYTES:end]) >> 8 & 0xFF
    return memoryview(frame)


def _short_xxh32(data: bytearray) -> int:
    """Return XXH32 (seed 0) of fewer than 16 bytes."""
    first, second, third, fourth, fifth = _XXH_PRIMES
    state = fifth + len(data)
    words = len(data) // 4
    for word in struct.unpack_from(f"<{words}I", data):
        state = _rotated(state + word * third, 17) * fourth
    for byte in data[4 * words :]:
        state = _rotated(state + byte * fifth, 11) * first
    state &= _WORD
    state = (state ^ state >> 15) * second & _WORD
    state = (state ^ state >> 13) * third & _WORD
    return state ^ state >> 16


def _rotated(number: int, bits: int) -> int:
    number &= _WORD
    return number << bits | number >> (32 - bits)


def _snappy_decompress(data: bytes) -> bytes:
    """Java's producers frame snappy blocks as the xerial stream; others write one raw block."""
    if not data.startswith(_SNAPPY_STREAM[:8]):
        return bytes(cramjam.snappy.decompress_raw(data))
    out, position = bytearray(), len(_SNAPPY_STREAM)
    while position < len(data):
        (length,) = struct.unpack_from(">i", data, position)
        position += 4
        out += bytes(cramjam.snappy.decompress_raw(data[position : position + length]))
        position += length
    return bytes(out)


def _snappy_compress(data: bytes) -> bytes:
    out = bytearray(_SNAPPY_STREAM)
    for start in range(0, len(data), _SNAPPY_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _SNAPPY_BLOCK_BYTES]))
        out += struct.pack(">i", len(block)) + block
    return bytes(out)
