"""Writes and reads Avro files, which Spark, DuckDB, BigQuery, Hive and Flink can read.

A file has one row per record with its offset, timestamp, key, value and headers, all unchanged. Topic and
partition are in the folder names, which those engines present as columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, Any, Final

from fastavro import block_reader, parse_schema, schemaless_reader
from fastavro.write import Writer

from mirror.errors import CorruptData
from mirror.protocol.batches.records import Record

SUFFIX: Final = "avro"
_BLOCK_BYTES: Final = 256 * 1024


def _schema(timestamp: object) -> dict[str, Any]:
    optional = ["null", "bytes"]
    header = {
        "type": "record",
        "name": "Header",
        "fields": [{"name": "key", "type": "bytes"}, {"name": "value", "type": optional}],
    }
    return {
        "type": "record",
        "name": "KafkaRecord",
        "namespace": "headrace",
        "fields": [
            {"name": "offset", "type": "long"},
            {"name": "timestamp", "type": timestamp},
            {"name": "key", "type": optional},
            {"name": "value", "type": optional},
            {"name": "headers", "type": {"type": "array", "items": header}},
        ],
    }


_WRITTEN: Final = parse_schema(_schema({"type": "long", "logicalType": "timestamp-millis"}))
_READ: Final = parse_schema(_schema("long"))
"""Schema for reading: timestamps are plain numbers, because Kafka allows timestamps outside any calendar."""


class AvroWriter:
    """Writes records to a binary file, in Snappy-compressed blocks."""

    def __init__(self, file: IO[bytes]) -> None:
        self._writer = Writer(file, _WRITTEN, codec="snappy", sync_interval=_BLOCK_BYTES)

    def write(self, records: Sequence[Record]) -> None:
        """Append records to the file. Raises OSError."""
        for offset, timestamp, key, value, headers in records:
            self._writer.write(
                {
                    "offset": offset,
                    "timestamp": timestamp,
                    "key": key,
                    "value": value,
                    "headers": [{"key": name, "value": content} for name, content in headers],
                }
            )

    def flush(self) -> None:
        """Write the last block of records to the file. Raises OSError."""
        self._writer.flush()


def read_avro(file: IO[bytes]) -> Iterator[list[Record]]:
    """Yield the records of an Avro file, one block at a time. Raises CorruptData."""
    try:
        for block in block_reader(file):
            content = block.bytes_  # type: ignore[attr-defined] # missing in the stubs
            yield [_record(schemaless_reader(content, _READ)) for _ in range(block.num_records)]
    except (ValueError, EOFError, LookupError, TypeError, AttributeError, RuntimeError) as error:
        raise CorruptData(f"not an Avro file of records: {type(error).__name__}: {error}") from error


def _record(row: Any) -> Record:
    headers = tuple((header["key"], header["value"]) for header in row["headers"])
    return Record(row["offset"], row["timestamp"], row["key"], row["value"], headers)
