"""Converts table definitions to the schemas and tables of Pinot, and to Avro schemas.

Pinot 0.11 and 1.x accept the JSON: streams under `ingestionConfig`, no `schemaName`, no comparison column
(every version defaults to the time column), rows and time as flush limits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mirror.model.rows import Column, ColumnType
from pinot.tables import UNKNOWN, Table

KAFKA_20: Final = "org.apache.pinot.plugin.stream.kafka20.KafkaConsumerFactory"
"""Class name in Pinot 0.11 to 1.5; in later versions an alias of the current class."""

_AVRO_DECODER: Final = "org.apache.pinot.plugin.inputformat.avro.SimpleAvroMessageDecoder"
_LONG_TEXT: Final = 262_144
"""Maximum number of characters of a text column. The default of Pinot is 512."""
_PINOT_TYPES: Final = {ColumnType.LONG: "LONG", ColumnType.DOUBLE: "DOUBLE", ColumnType.STRING: "STRING"}


@dataclass(frozen=True)
class Placement:
    """Source of a table's rows, and options for storing them.

    `kafka_properties` are passed to the consumer unchanged (security), `upsert_options` to `upsertConfig`.
    `segment_rows` and `segment_hours`: limits at which a consuming segment ends.
    """

    bootstrap_servers: str
    topic: str
    retention_days: int
    replication: int = 1
    segment_rows: int = 2_000_000
    segment_hours: int = 6
    consumer_factory: str = KAFKA_20
    kafka_properties: Mapping[str, str] = field(default_factory=dict)
    upsert_options: Mapping[str, str | int | bool] = field(default_factory=dict)

    @property
    def has_references(self) -> bool:
        """True if a property refers to an environment variable of Pinot (`${NAME}`)."""
        return any(value.startswith("${") for value in self.kafka_properties.values())


def avro_schema(table: Table) -> dict[str, Any]:
    """Return the Avro schema of the table's topic: plain records without a header.

    Fields may only be appended: the reader has a single schema, and skips unknown fields only at the end.
    Increment `version` with every such change.
    """
    return {
        "type": "record",
        "name": table.name,
        "namespace": "headrace",
        "version": table.version,
        "fields": [_avro_field(table, column) for column in table.columns],
    }


def _avro_field(table: Table, column: Column) -> dict[str, Any]:
    if column.name in table.nullable:
        return {"name": column.name, "type": ["null", column.type.value], "default": None}
    return {"name": column.name, "type": column.type.value}


def pinot_schema(table: Table) -> dict[str, Any]:
    """Return the request body of `POST /schemas` for a table."""
    schema: dict[str, Any] = {
        "schemaName": table.name,
        "dimensionFieldSpecs": [_field(table, column) for column in table.dimensions],
        "metricFieldSpecs": [_field(table, column) for column in table.metrics],
        "dateTimeFieldSpecs": [
            {
                "name": table.time_column,
                "dataType": "LONG",
                "format": "1:MILLISECONDS:EPOCH",
                "granularity": "1:MILLISECONDS",
            }
        ],
    }
    if table.key:
        schema["primaryKeyColumns"] = list(table.key)
    return schema


def _field(table: Table, column: Column) -> dict[str, Any]:
    spec: dict[str, Any] = {"name": column.name, "dataType": _PINOT_TYPES[column.type]}
    if column.name in table.nullable:
        spec["defaultNullValue"] = UNKNOWN
    if column.name in table.long:
        spec["maxLength"] = _LONG_TEXT
    return spec


def pinot_table(table: Table, placement: Placement) -> dict[str, Any]:
    """Return the request body of `POST /tables` for a table."""
    document: dict[str, Any] = {
        "tableName": table.name,
        "tableType": "REALTIME",
        "segmentsConfig": {
            "timeColumnName": table.time_column,
            "replication": str(placement.replication),
            "replicasPerPartition": str(placement.replication),
            "retentionTimeUnit": "DAYS",
            "retentionTimeValue": str(placement.retention_days),
        },
        "tenants": {},
        "metadata": {},
        "tableIndexConfig": {
            "loadMode": "MMAP",
            "nullHandlingEnabled": bool(table.nullable),
            "invertedIndexColumns": list(table.inverted),
            "noDictionaryColumns": [column.name for column in table.metrics],
        },
        "ingestionConfig": {"streamIngestionConfig": {"streamConfigMaps": [_stream(table, placement)]}},
    }
    if table.key:
        document["upsertConfig"] = {"mode": "FULL", "hashFunction": "MURMUR3", **placement.upsert_options}
        document["routing"] = {"instanceSelectorType": "strictReplicaGroup"}
    return document


def _stream(table: Table, placement: Placement) -> dict[str, str]:
    stream = {
        "streamType": "kafka",
        "stream.kafka.consumer.type": "lowlevel",
        "stream.kafka.topic.name": placement.topic,
        "stream.kafka.broker.list": placement.bootstrap_servers,
        "stream.kafka.consumer.factory.class.name": placement.consumer_factory,
        "stream.kafka.decoder.class.name": _AVRO_DECODER,
        "stream.kafka.decoder.prop.schema": json.dumps(avro_schema(table), separators=(",", ":")),
        "stream.kafka.consumer.prop.auto.offset.reset": "smallest",
        "realtime.segment.flush.threshold.rows": str(placement.segment_rows),
        "realtime.segment.flush.threshold.time": f"{placement.segment_hours}h",
    }
    return {**stream, **placement.kafka_properties}
