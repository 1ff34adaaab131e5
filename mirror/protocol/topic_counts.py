"""Decodes only the partition counts of a Metadata response.

The control process requests these counts every few seconds. With very many partitions, this module is faster
than kafka-python, which creates objects for each partition. The parser supports the flexible versions 9 to
12.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from mirror.errors import CorruptData
from mirror.protocol.frame import View, decode_unsigned, read_bytes, read_count, skip_tags

FROM: Final = 9
_WITH_ID_FROM: Final = 10
_ID_SIZE: Final = 16
_INT: Final = struct.Struct(">i")
_SHORT: Final = struct.Struct(">h")
_BEFORE_LISTS: Final = 14
"""Size of a partition's error, number, leader and leader epoch.

In a response, the replicas, in-sync replicas and offline replicas follow these fields.
"""
_OF_ONE_BYTE: Final = 0x80


class TopicCounts(NamedTuple):
    """Maps each topic without an error to its partition count."""

    throttle_time_ms: int
    counts: Mapping[str, int]


def decode_counts(version: int, body: View) -> TopicCounts:
    """Decode a complete Metadata response of that version. Raises CorruptData for malformed data."""
    try:
        return _decode(version, memoryview(body), bytes(body))
    except (struct.error, IndexError, UnicodeDecodeError):
        raise CorruptData("truncated Metadata response") from None


def _decode(version: int, data: View, copied: bytes) -> TopicCounts:
    """Decode a Metadata response. `copied`: the same data as `bytes`, faster to index than a memoryview."""
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
        raise CorruptData("truncated Metadata response")
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
