"""Documents made from the table definitions, and readability of rows of older versions."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from mirror.model.metrics import MirrorMetric, PlacementEvent
from mirror.model.rows import avro_schema as writer_schema
from mirror.model.rows import columns_of
from pinot.schemas import Placement, avro_schema, pinot_schema, pinot_table
from pinot.tables import MIRROR_METRICS, PLACEMENT_EVENTS, TABLES, Table

HISTORY = Path(__file__).parents[2] / "data" / "avro"
PLACEMENT = Placement("127.0.0.1:9192", "a-topic", 3)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_has_one_place_in_pinots_schema(table: Table) -> None:
    schema = pinot_schema(table)
    specs = [*schema["dimensionFieldSpecs"], *schema["metricFieldSpecs"], *schema["dateTimeFieldSpecs"]]
    assert sorted(spec["name"] for spec in specs) == sorted(column.name for column in table.columns)
    assert set(schema.get("primaryKeyColumns", ())) <= {column.name for column in table.columns}
    texts = {spec["name"] for spec in schema["metricFieldSpecs"] if spec["dataType"] == "STRING"}
    assert not texts, "Pinot cannot sum texts"


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_is_keyed_or_appended_to(table: Table) -> None:
    document = pinot_table(table, PLACEMENT)
    assert ("upsertConfig" in document) == bool(table.key)
    stream = document["ingestionConfig"]["streamIngestionConfig"]["streamConfigMaps"][0]
    assert json.loads(stream["stream.kafka.decoder.prop.schema"]) == avro_schema(table)
    assert stream["stream.kafka.topic.name"] == "a-topic"
    assert "schemaName" not in document["segmentsConfig"]


@pytest.mark.parametrize(
    ("table", "record"), [(MIRROR_METRICS, MirrorMetric), (PLACEMENT_EVENTS, PlacementEvent)]
)
def test_what_the_mirror_writes_is_what_the_table_reads(table: Table, record: type[Any]) -> None:
    assert table.columns == columns_of(record)
    assert avro_schema(table)["fields"] == writer_schema(record)["fields"]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_fields_are_only_ever_appended(table: Table) -> None:
    """Every published version is stored in tests/data/avro; a newer one starts with its fields."""
    present = avro_schema(table)
    versions = sorted(HISTORY.glob(f"{table.name}-*.json"), key=lambda path: int(path.stem.split("-")[1]))
    assert [int(path.stem.split("-")[1]) for path in versions] == list(range(1, table.version + 1))
    for path in versions:
        fields = json.loads(path.read_text())["fields"]
        assert present["fields"][: len(fields)] == fields
    assert json.loads(versions[-1].read_text()) == present, "append the new version to tests/data/avro"


def test_a_reader_of_the_older_version_reads_a_newer_row() -> None:
    table = TABLES[0]
    older = avro_schema(table)
    newer = {**older, "version": 99, "fields": [*older["fields"], {"name": "more", "type": "string"}]}
    row = {
        column["name"]: {"long": 7, "double": 1.5, "string": "text"}.get(str(column["type"]))
        for column in newer["fields"]
    }
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, newer, row)
    found = fastavro.schemaless_reader(io.BytesIO(buffer.getvalue()), older, None)
    assert isinstance(found, dict)
    assert found == {name: value for name, value in row.items() if name != "more"}
