"""Fetch requests and responses, versions 4 to 17. From version 13 on, topics are named by id.

The records of a partition are a view of the response, not a copy. The order of partitions in a request
matters, because the broker fills the response in that order; the order in a response does not matter.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror.errors import CorruptData
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

API: Final = 1
_MARGIN: Final = 1024 * 1024
"""Additional bytes of a response for aborted transactions and for fields of the whole response."""
_PARTITION_BYTES: Final = 512
"""Additional bytes of a response for the fields of one partition other than its records."""
VERSIONS: Final = (4, 17)
BY_ID_FROM: Final = 13
NAMED_VERSIONS: Final = (VERSIONS[0], BY_ID_FROM - 1)
"""Versions for topics without an id (in clusters before Kafka 2.8, and during an upgrade from them)."""
_FLEXIBLE_FROM: Final = 12
_SESSIONS_FROM: Final = 7
_EPOCH_FROM: Final = 9
_LOG_START_FROM: Final = 5
_RACK_FROM: Final = 11
_NO_REPLICA_FROM: Final = 15
_UNKNOWN: Final = -1
_NODES_TAG: Final = 0


class FetchPosition(NamedTuple):
    """Position to fetch a partition from: an offset, the epochs of the leader and of the last record read (-1
    if unknown), and a byte limit."""

    leader_epoch: int
    offset: int
    last_epoch: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A Fetch request. `topics` and `forgotten` are in the order in which they are sent."""

    wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool
    topics: Mapping[TopicKey, Sequence[tuple[int, FetchPosition]]]
    session_id: int = 0
    session_epoch: int = -1
    forgotten: Mapping[TopicKey, Sequence[int]] | None = None
    rack: bytes = b""


class LeaderHint(NamedTuple):
    """Current leader of a partition, as named by a broker that is not the leader (KIP-951)."""

    leader: int
    epoch: int


class FetchedPartition(NamedTuple):
    """Part of a Fetch response for one partition.

    `aborted`: (producer id, first offset) of aborted transactions, read_committed only. `diverging`: a leader
    epoch and its end offset, if the copied records differ from the leader's log. `preferred_replica`: broker
    to read the partition from instead, -1 for this one.
    """

    topic: TopicKey
    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start: int
    aborted: tuple[tuple[int, int], ...]
    diverging: tuple[int, int] | None
    leader: LeaderHint | None
    preferred_replica: int
    records: View


class FetchResponse(NamedTuple):
    """A complete Fetch response. `error`: code of the session. `nodes`: addresses of new leaders."""

    throttle_ms: int
    error: int
    session_id: int
    partitions: list[FetchedPartition]
    nodes: Nodes


def response_bytes(max_bytes: int, largest_batch_bytes: int, partitions: int) -> int:
    """Return the maximum size of a Fetch response: a broker exceeds `max_bytes` by at most one batch."""
    return max_bytes + largest_batch_bytes + _MARGIN + partitions * _PARTITION_BYTES


def is_flexible(version: int) -> bool:
    """Return whether that version of Fetch uses the flexible encoding."""
    return version >= _FLEXIBLE_FROM


_INT: Final = struct.Struct(">i")
_OPENING: Final = struct.Struct(">iiib")
_SESSION: Final = struct.Struct(">ii")
_POSITION_4: Final = struct.Struct(">iqi")
_POSITION_5: Final = struct.Struct(">iqqi")
_POSITION_9: Final = struct.Struct(">iiqqi")
_POSITION_12: Final = struct.Struct(">iiqiqi")


def encode_request(version: int, request: FetchRequest) -> bytes:
    """Return the encoded body of a Fetch request."""
    flexible = version >= _FLEXIBLE_FROM
    parts = [] if version >= _NO_REPLICA_FROM else [b"\xff\xff\xff\xff"]
    parts.append(
        _OPENING.pack(request.wait_ms, request.min_bytes, request.max_bytes, int(request.read_committed))
    )
    if version >= _SESSIONS_FROM:
        parts.append(_SESSION.pack(request.session_id, request.session_epoch))
    tail = NO_TAGS if flexible else b""
    parts.append(write_count(len(request.topics), flexible=flexible))
    for topic, positions in request.topics.items():
        parts.append(write_topic(topic, by_id=version >= BY_ID_FROM, flexible=flexible))
        parts.append(write_count(len(positions), flexible=flexible))
        parts.extend(_position(version, number, position) for number, position in positions)
        parts.append(tail)
    if version >= _SESSIONS_FROM:
        _encode_forgotten(version, request.forgotten or {}, parts)
    if version >= _RACK_FROM:
        parts.append(write_string(request.rack, flexible=flexible))
    parts.append(tail)
    return b"".join(parts)


def _encode_forgotten(version: int, forgotten: Mapping[TopicKey, Sequence[int]], parts: list[bytes]) -> None:
    flexible = version >= _FLEXIBLE_FROM
    parts.append(write_count(len(forgotten), flexible=flexible))
    for topic, numbers in forgotten.items():
        parts.append(write_topic(topic, by_id=version >= BY_ID_FROM, flexible=flexible))
        parts.append(write_count(len(numbers), flexible=flexible))
        parts.append(struct.pack(f">{len(numbers)}i", *numbers))
        if flexible:
            parts.append(NO_TAGS)


def _position(version: int, number: int, position: FetchPosition) -> bytes:
    leader_epoch, offset, last_epoch, max_bytes = position
    if version >= _FLEXIBLE_FROM:
        return _POSITION_12.pack(number, leader_epoch, offset, last_epoch, _UNKNOWN, max_bytes) + NO_TAGS
    if version >= _EPOCH_FROM:
        return _POSITION_9.pack(number, leader_epoch, offset, _UNKNOWN, max_bytes)
    if version >= _LOG_START_FROM:
        return _POSITION_5.pack(number, offset, _UNKNOWN, max_bytes)
    return _POSITION_4.pack(number, offset, max_bytes)


def decode_response(version: int, body: View) -> FetchResponse:
    """Decode a complete Fetch response of that version. Raises CorruptData for malformed data."""
    try:
        return _decode(version, body)
    except (struct.error, IndexError, UnicodeDecodeError):
        raise CorruptData("truncated Fetch response") from None


_SESSION_HEAD: Final = struct.Struct(">ihi")


def _decode(version: int, body: View) -> FetchResponse:
    flexible = version >= _FLEXIBLE_FROM
    error = session_id = 0
    if version >= _SESSIONS_FROM:
        throttle_ms, error, session_id = _SESSION_HEAD.unpack_from(body)
        position = _SESSION_HEAD.size
    else:
        (throttle_ms,) = _INT.unpack_from(body)
        position = 4
    partitions: list[FetchedPartition] = []
    topics, position = read_count(body, position, flexible=flexible)
    for _ in range(topics):
        topic, position = read_topic(body, position, by_id=version >= BY_ID_FROM, flexible=flexible)
        count, position = read_count(body, position, flexible=flexible)
        for _ in range(count):
            partition, position = _partition(version, topic, body, position)
            partitions.append(partition)
        if flexible:
            position = skip_tags(body, position)
    tags = read_tags(body, position)[0] if flexible else {}
    nodes = read_nodes(tags[_NODES_TAG]) if _NODES_TAG in tags else {}
    return FetchResponse(throttle_ms, error, session_id, partitions, nodes)


_HEAD_4: Final = struct.Struct(">ihqq")
_HEAD_5: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qq")
_EPOCH_END: Final = struct.Struct(">iq")
_LEADER: Final = struct.Struct(">ii")


def _partition(version: int, topic: bytes, body: View, position: int) -> tuple[FetchedPartition, int]:
    flexible = version >= _FLEXIBLE_FROM
    log_start = preferred = _UNKNOWN
    if version >= _LOG_START_FROM:
        number, error, high, stable, log_start = _HEAD_5.unpack_from(body, position)
        position += _HEAD_5.size
    else:
        number, error, high, stable = _HEAD_4.unpack_from(body, position)
        position += _HEAD_4.size
    aborted, position = _aborted(body, position, flexible=flexible)
    if version >= _RACK_FROM:
        (preferred,) = _INT.unpack_from(body, position)
        position += 4
    records, position = read_bytes(body, position, flexible=flexible, wide=True)
    diverging = leader = None
    if flexible:
        if body[position] == 0:
            position += 1
        else:
            tags, position = read_tags(body, position)
            diverging = _EPOCH_END.unpack_from(tags[0]) if 0 in tags else None
            leader = LeaderHint._make(_LEADER.unpack_from(tags[1])) if 1 in tags else None
    if records is None:
        records = body[position:position]
    return (
        FetchedPartition(
            topic, number, error, high, stable, log_start, aborted, diverging, leader, preferred, records
        ),
        position,
    )


def _aborted(body: View, position: int, *, flexible: bool) -> tuple[tuple[tuple[int, int], ...], int]:
    count, position = read_count(body, position, flexible=flexible)
    if not count:
        return (), position
    aborted: list[tuple[int, int]] = []
    for _ in range(count):
        aborted.append(_ABORTED.unpack_from(body, position))
        position += _ABORTED.size
        if flexible:
            position = skip_tags(body, position)
    return tuple(aborted), position
