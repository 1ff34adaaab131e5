"""The partition counts of a Metadata response, without the rest of it.

The control process asks for them every few seconds, of clusters with very many partitions: kafka-python would
make objects of each. Versions 9 to 12, the flexible ones.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from mirror.errors import CorruptData
from mirror.protocol.frame import View, read_bytes, read_count, skip_tags
from mirror.protocol.varint import decode_unsigned

FROM: Final = 9
_WITH_ID_FROM: Final = 10
_ID_SIZE: Final = 16
_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")
_BEFORE_LISTS: Final = 14
"""Of a partition: error, number, leader and its epoch. Replicas, those in sync and those offline follow."""
_OF_ONE_BYTE: Final = 0x80


class TopicCounts(NamedTuple):
    """Partition count by topic, of those without an error."""

    throttle_time_ms: int
    counts: Mapping[str, int]


def decode_counts(version: int, body: View) -> TopicCounts:
    """Raises CorruptData for anything that is not a whole response of that version."""
    try:
        return _decode(version, memoryview(body), bytes(body))
    except (struct.error, IndexError, UnicodeDecodeError):
        raise CorruptData("a Metadata response ends too early") from None


def _decode(version: int, data: View, copied: bytes) -> TopicCounts:
    """`copied`: the same bytes, in which single ones are found faster."""
    (throttle_ms,) = _INT.unpack_from(data)
    brokers, position = read_count(data, 4, flexible=True)
    for _ in range(brokers):
        _host, position = read_bytes(data, position + 4, flexible=True)
        _rack, position = read_bytes(data, position + 4, flexible=True)
        position = skip_tags(data, position)
    _cluster, position = read_bytes(data, position, flexible=True)
    topics, position = read_count(data, position + 4, flexible=True)
    counts: dict[str, int] = {}
    for _ in range(topics):
        (error,) = _SHORT.unpack_from(data, position)
        name, position = read_bytes(data, position + 2, flexible=True)
        position += (_ID_SIZE if version >= _WITH_ID_FROM else 0) + 1
        count, position = read_count(data, position, flexible=True)
        position = skip_tags(data, _skip_partitions(data, copied, position, count) + 4)
        if not error:
            counts[str(name or b"", "utf-8")] = count
    if position > len(data):
        raise CorruptData("a Metadata response ends too early")
    return TopicCounts(throttle_ms, counts)


def _skip_partitions(data: View, copied: bytes, position: int, count: int) -> int:
    for _ in range(count):
        position += _BEFORE_LISTS
        for _ in range(3):
            length = copied[position]
            if length < _OF_ONE_BYTE:
                position += 1
            else:
                length, position = decode_unsigned(data, position)
            position += 4 * (length - 1) if length else 0
        position = position + 1 if not copied[position] else skip_tags(data, position)
    return position
