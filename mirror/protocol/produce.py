"""Produce requests and responses, versions 3 to 13; from 13 on topics go by id, from 12 on a
transaction adds its partitions by itself (KIP-890).

A request is a list of buffers: the batches are sent from where they lie. One batch for each partition,
and each partition once: brokers keep only the last batch of a partition that is named twice, and
answer without an error. Responses list partitions in any order.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from mirror.errors import CorruptData
from mirror.protocol.fetch import LeaderHint
from mirror.protocol.frame import (
    NO_TAGS,
    Nodes,
    TopicKey,
    View,
    read_bytes,
    read_count,
    read_nodes,
    read_tags,
    read_topic,
    skip_tags,
    write_count,
    write_string,
    write_topic,
)
from mirror.protocol.varint import encode_unsigned

API: Final = 0
VERSIONS: Final = (3, 13)
BY_ID_FROM: Final = 13
IMPLICIT_TRANSACTION_FROM: Final = 12
ZSTD_FROM: Final = 7
_FLEXIBLE_FROM: Final = 9
_RECORD_ERRORS_FROM: Final = 8
_LOG_START_FROM: Final = 5
_ALL_REPLICAS: Final = -1
_NODES_TAG: Final = 0

Batch = bytes | bytearray | memoryview


class ProducedPartition(NamedTuple):
    """The answer for one batch.

    `base_offset`: where its first record lies, -1 on errors.
    `record_errors`: (index in the batch, message) of records that made the broker refuse it.
    `append_ms`: when the broker appended it, by its clock; -1 where the topic keeps create times.
    """

    topic: TopicKey
    partition: int
    error: int
    base_offset: int
    record_errors: tuple[tuple[int, str], ...]
    message: str
    leader: LeaderHint | None
    append_ms: int = -1


class ProduceResponse(NamedTuple):
    """A whole response. `nodes`: leaders that are named."""

    throttle_ms: int
    partitions: list[ProducedPartition]
    nodes: Nodes


def is_flexible(version: int) -> bool:
    """Whether that version has the flexible encoding."""
    return version >= _FLEXIBLE_FROM


_INT: Final = struct.Struct(">i")
_OPENING: Final = struct.Struct(">hi")


def encode_request(
    version: int,
    topics: Mapping[TopicKey, Sequence[tuple[int, Batch]]],
    timeout_ms: int,
    transactional_id: bytes | None = None,
) -> tuple[list[Batch], int]:
    """(buffers, their size in all) of a Produce request's body with acks from all replicas."""
    flexible = version >= _FLEXIBLE_FROM
    head = write_string(transactional_id, flexible=flexible)
    head += _OPENING.pack(_ALL_REPLICAS, timeout_ms)
    head += write_count(len(topics), flexible=flexible)
    buffers: list[Batch] = []
    size = 0
    for topic, batches in topics.items():
        head += write_topic(topic, by_id=version >= BY_ID_FROM, flexible=flexible)
        head += write_count(len(batches), flexible=flexible)
        for partition, batch in batches:
            length = len(batch)
            head += _INT.pack(partition)
            head += encode_unsigned(length + 1) if flexible else _INT.pack(length)
            buffers.append(head)
            buffers.append(batch)
            size += len(head) + length
            head = NO_TAGS if flexible else b""
        if flexible:
            head += NO_TAGS
    if flexible:
        head += NO_TAGS
    if head:
        buffers.append(head)
    return buffers, size + len(head)


def decode_response(version: int, body: View) -> ProduceResponse:
    """Raises CorruptData for anything that is not a whole response of that version."""
    try:
        return _decode(version, body)
    except (struct.error, IndexError, UnicodeDecodeError):
        raise CorruptData("a Produce response ends too early") from None


def _decode(version: int, body: View) -> ProduceResponse:
    flexible = version >= _FLEXIBLE_FROM
    partitions: list[ProducedPartition] = []
    topics, position = read_count(body, 0, flexible=flexible)
    for _ in range(topics):
        topic, position = read_topic(body, position, by_id=version >= BY_ID_FROM, flexible=flexible)
        count, position = read_count(body, position, flexible=flexible)
        for _ in range(count):
            partition, position = _partition(version, topic, body, position)
            partitions.append(partition)
        if flexible:
            position = skip_tags(body, position)
    (throttle_ms,) = _INT.unpack_from(body, position)
    tags = read_tags(body, position + 4)[0] if flexible else {}
    nodes = read_nodes(tags[_NODES_TAG]) if _NODES_TAG in tags else {}
    return ProduceResponse(throttle_ms, partitions, nodes)


_HEAD_3: Final = struct.Struct(">ihqq")
"""Partition, error, base offset, append time."""
_HEAD_5: Final = struct.Struct(">ihqq8x")
"""The log's start, which is passed over, too."""
_LEADER: Final = struct.Struct(">ii")
_NOTHING_ELSE: Final = memoryview(b"\x01\x00\x00")
"""No record errors, no message, no tags: how nearly every answer for a partition ends."""
_Complaint = tuple[tuple[tuple[int, str], ...], str, LeaderHint | None]
"""Record errors, message, leader."""
_NO_COMPLAINT: Final[_Complaint] = ((), "", None)


def _partition(version: int, topic: bytes, body: View, position: int) -> tuple[ProducedPartition, int]:
    flexible = version >= _FLEXIBLE_FROM
    head = _HEAD_5 if version >= _LOG_START_FROM else _HEAD_3
    number, error, base, append_ms = head.unpack_from(body, position)
    position += head.size
    if flexible and body[position : position + len(_NOTHING_ELSE)] == _NOTHING_ELSE:
        rest, position = _NO_COMPLAINT, position + len(_NOTHING_ELSE)
    else:
        rest, position = _complaint(version, body, position)
    errors, message, leader = rest
    found = ProducedPartition(topic, number, error, base, errors, message, leader, append_ms)
    return found, position


def _complaint(version: int, body: View, position: int) -> tuple[_Complaint, int]:
    flexible = version >= _FLEXIBLE_FROM
    errors: tuple[tuple[int, str], ...] = ()
    message = ""
    if version >= _RECORD_ERRORS_FROM:
        errors, position = _record_errors(body, position, flexible=flexible)
        text, position = read_bytes(body, position, flexible=flexible)
        message = "" if text is None else str(text, "utf-8")
    leader = None
    if flexible:
        if body[position] == 0:
            position += 1
        else:
            tags, position = read_tags(body, position)
            leader = LeaderHint._make(_LEADER.unpack_from(tags[0])) if 0 in tags else None
    return (errors, message, leader), position


def _record_errors(body: View, position: int, *, flexible: bool) -> tuple[tuple[tuple[int, str], ...], int]:
    count, position = read_count(body, position, flexible=flexible)
    if not count:
        return (), position
    errors: list[tuple[int, str]] = []
    for _ in range(count):
        (index,) = _INT.unpack_from(body, position)
        text, position = read_bytes(body, position + 4, flexible=flexible)
        errors.append((index, "" if text is None else str(text, "utf-8")))
        if flexible:
            position = skip_tags(body, position)
    return tuple(errors), position
