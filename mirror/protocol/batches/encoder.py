"""Encodes records as a batch of format 2. Layout of a record: Apache Kafka, `DefaultRecord`."""

from __future__ import annotations

from collections.abc import Sequence

from mirror.protocol.batches.batch import assemble
from mirror.protocol.batches.compression import Codec, compress
from mirror.protocol.batches.records import Record
from mirror.protocol.frame import encode_signed


def write_batch(records: Sequence[Record], codec: int = Codec.NONE) -> bytearray:
    """Encode records as a batch with consecutive offsets from 0 and without a producer id."""
    base = records[0].timestamp
    payload = b"".join(_written(record, index, base) for index, record in enumerate(records))
    return assemble(
        compress(codec, payload),
        codec=codec,
        base_timestamp=base,
        max_timestamp=max(record.timestamp for record in records),
        count=len(records),
    )


def _written(record: Record, place: int, base_timestamp: int) -> bytes:
    parts = [
        b"\x00",
        encode_signed(record.timestamp - base_timestamp),
        encode_signed(place),
        _sized(record.key),
        _sized(record.value),
        encode_signed(len(record.headers)),
    ]
    for key, value in record.headers:
        parts.append(_sized(key))
        parts.append(_sized(value))
    body = b"".join(parts)
    return encode_signed(len(body)) + body


def _sized(field: bytes | None) -> bytes:
    return b"\x01" if field is None else encode_signed(len(field)) + field
