"""Encoding of the content of nodes: JSON documents, compressed chunks, and partitions as ranges.

A node holds 1 MiB, so documents that can grow are compressed JSON in chunks.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from mirror.errors import DamagedState, InvalidRequest
from mirror.model.bounds import LARGEST_PARTITION
from mirror.model.documents import LARGEST, parsed
from mirror.model.topics import TopicPartition

CHUNK_BYTES: Final = LARGEST
LARGEST_DOCUMENT: Final = 64 * 1024 * 1024
"""Maximum size of a decompressed document in bytes, enough for a million partitions."""
MOST_PARTITIONS: Final = 2_000_000
_ZLIB: Final = b"x"
"""First byte of compressed data. No JSON document starts with it."""


def encode(value: Mapping[str, Any]) -> bytes:
    """Encode a small document as plain JSON. Raises InvalidRequest if it does not fit into a node."""
    data = _json(value)
    if len(data) > CHUNK_BYTES:
        raise InvalidRequest(
            f"cannot store {len(data)} bytes in a znode", advice=f"the limit is {CHUNK_BYTES} bytes"
        )
    return data


def decode(data: bytes, path: str) -> dict[str, Any]:
    """Parse a JSON object whose values can all be encoded again. Raises DamagedState with the path."""
    try:
        value = parsed(data)
    except InvalidRequest as error:
        raise DamagedState(
            f"znode {path} does not contain JSON ({error.message})", advice="restore or delete it"
        ) from error
    if not isinstance(value, dict):
        raise DamagedState(f"znode {path} does not contain a JSON object", advice="restore or delete it")
    return value


def encode_compact(value: Mapping[str, Any]) -> bytes:
    """Encode a document for one node: as plain JSON, or compressed if it does not fit otherwise. Raises
    InvalidRequest if it does not fit in either form."""
    plain = _json(value)
    if len(plain) <= CHUNK_BYTES:
        return plain
    data, *further = encode_chunks(value)
    if further:
        size = len(data) + sum(map(len, further))
        raise InvalidRequest(
            f"cannot store {size} compressed bytes in a znode", advice=f"the limit is {CHUNK_BYTES} bytes"
        )
    return data


def decode_compact(data: bytes, path: str) -> dict[str, Any]:
    """Decode a document of `encode_compact`. Raises DamagedState."""
    is_compressed = data[:1] == _ZLIB
    return decode_chunks([data], path) if is_compressed else decode(data, path)


def encode_chunks(value: Mapping[str, Any], chunk_bytes: int = CHUNK_BYTES) -> list[bytes]:
    """Compress a document, and split it into chunks that each fit into a node."""
    packed = zlib.compress(_json(value), level=1)
    return [packed[start : start + chunk_bytes] for start in range(0, len(packed), chunk_bytes)]


def decode_chunks(chunks: Iterable[bytes], path: str) -> dict[str, Any]:
    """Join and decode the chunks of a document. Raises DamagedState for incomplete or damaged chunks, and
    above `LARGEST_DOCUMENT`."""
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(b"".join(chunks), LARGEST_DOCUMENT)
    except zlib.error as error:
        raise DamagedState(f"znode {path} is incomplete or damaged") from error
    if not inflater.eof:
        raise DamagedState(
            f"znode {path} is incomplete or decompresses to more than {LARGEST_DOCUMENT} bytes"
        )
    return decode(data, path)


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), sort_keys=True).encode()


def encode_partitions(partitions: Iterable[TopicPartition]) -> dict[str, str]:
    """Encode partitions as ranges of each topic, for example `{"orders": "0-3,7"}`."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        by_topic.setdefault(topic, []).append(number)
    return {topic: encode_ranges(numbers) for topic, numbers in by_topic.items()}


def decode_partitions(text: Mapping[str, str]) -> frozenset[TopicPartition]:
    """Decode partitions from ranges, the inverse of `encode_partitions`.

    Raises ValueError if the text is malformed or contains more than `MOST_PARTITIONS` partitions.
    """
    found: set[TopicPartition] = set()
    for topic, ranges in text.items():
        found.update(TopicPartition(topic, number) for number in decode_ranges(ranges))
        if len(found) > MOST_PARTITIONS:
            raise ValueError(f"more than {MOST_PARTITIONS} partitions")
    return frozenset(found)


def encode_ranges(numbers: Iterable[int]) -> str:
    """Encode one or more numbers as ranges, for example `0-3,7`."""
    parts = []
    first, *others = sorted(numbers)
    last = first
    for number in [*others, None]:
        if number is not None and number == last + 1:
            last = number
            continue
        parts.append(str(first) if first == last else f"{first}-{last}")
        if number is not None:
            first = last = number
    return ",".join(parts)


def decode_ranges(ranges: str) -> Iterable[int]:
    """Decode numbers from ranges, the inverse of `encode_ranges`.

    Raises ValueError if the text is malformed or contains more than `MOST_PARTITIONS` numbers.
    """
    count = 0
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        numbers = range(_partition(first), _partition(last or first) + 1)
        count += len(numbers)
        if count > MOST_PARTITIONS:
            raise ValueError(f"more than {MOST_PARTITIONS} partitions")
        yield from numbers


def _partition(text: str) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(LARGEST_PARTITION))
    if not is_number or int(text) > LARGEST_PARTITION:
        raise ValueError(f"invalid partition number {text[:20]!r}")
    return int(text)
