"""Produce requests and responses, versions 3 to 13.

From 13 on, topics are named by id; from 12 on, a transaction adds its partitions implicitly (KIP-890).

A request is a list of buffers, so batches are sent without copying. A partition occurs once, with one batch:
for a duplicate partition, brokers keep only the last batch and report no error. Responses list partitions in
any order.
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
    encode_unsigned,
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

API: Final = 0
VERSIONS: Final = (3, 13)
BY_ID_FROM: Final = 13
NAMED_VERSIONS: Final = (VERSIONS[0], BY_ID_FROM - 1)
"""Versions for topics without an id, as in `fetch`."""
IMPLICIT_TRANSACTION_FROM: Final = 12
ZSTD_FROM: Final = 7
_FLEXIBLE_FROM: Final = 9
_RECORD_ERRORS_FROM: Final = 8
_LOG_START_FROM: Final = 5
_ALL_REPLICAS: Final = -1
_NODES_TAG: Final = 0

Batch = bytes | bytearray | memoryview


class ProducedPartition(NamedTuple):
    """Part of a Produce response for one batch.

    `base_offset`: offset of the batch's first record, -1 on error. `record_errors`: (index in the batch,
    message) of the records that caused a rejection. `append_ms`: append time by the broker's clock; -1 for
    topics that use create time.
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
    """A complete Produce response. `nodes`: addresses of the leaders named in the response."""

    throttle_ms: int
    partitions: list[ProducedPartition]
    nodes: Nodes


def is_flexible(version: int) -> bool:
    """Return whether that version of Produce uses the flexible encoding."""
    return version >= _FLEXIBLE_FROM


_INT: Final = struct.Struct(">i")
_OPENING: Final = struct.Struct(">hi")


def encode_request(
    version: int,
    topics: Mapping[TopicKey, Sequence[tuple[int, Batch]]],
    timeout_ms: int,
    transactional_id: bytes | None = None,
) -> tuple[list[Batch], int]:
    """Encode a Produce request with acks=all. Return the buffers of its body, and their total size."""
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
    """Decode a complete Produce response of that version. Raises CorruptData for malformed data."""
    try:
        return _decode(version, body)
    except (struct.error, IndexError, UnicodeDecodeError):
        raise CorruptData("truncated Produce response") from None


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
"""Fields of a partition's response: partition, error code, base offset, append time."""
_HEAD_5: Final = struct.Struct(">ihqq8x")
"""The fields of `_HEAD_3`, followed by the log start offset, which is skipped."""
_LEADER: Final = struct.Struct(">ii")
_NOTHING_ELSE: Final = memoryview(b"\x01\x00\x00")
"""The usual end of a partition's response: no record errors, no message, no tags."""
_Complaint = tuple[tuple[tuple[int, str], ...], str, LeaderHint | None]
"""Fields of a partition's response: errors of records, error message, and new leader."""
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
