"""Test that the tests with hostile values cover every field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from api.resources.datastreams.datastream_models import DatastreamBody
from mirror.coordination.stores.definition_document import to_document
from mirror.model.datastreams import metadata
from mirror.model.datastreams.creation import Creation
from mirror.model.datastreams.datastream import Halt, LatencyObjective, PartitionPause, StartPosition
from mirror.model.datastreams.typed_keys import PLACES
from mirror.model.movement.exemptions import Resumption
from tests.builders import a_datastream
from tests.hostile import REST_FIELDS, STORED_FIELDS

Field = tuple[str, ...]
_SCHEMA: Final[Mapping[str, Any]] = DatastreamBody.model_json_schema()


def of_schema(schema: Mapping[str, Any], place: Field = ()) -> Iterator[Field]:
    """Yield every property, recursively."""
    found = _SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    for one in found.get("anyOf", ()):
        yield from of_schema(one, place)
    for name, below in found.get("properties", {}).items():
        yield (*place, name)
        yield from of_schema(below, (*place, name))


def of_document(document: Mapping[str, Any], place: Field = ()) -> Iterator[Field]:
    for name, value in document.items():
        yield (*place, name)
        if isinstance(value, Mapping):
            yield from of_document(value, (*place, name))


def test_every_field_of_a_creation_is_tried() -> None:
    assert set(of_schema(_SCHEMA)) <= set(REST_FIELDS)


def test_every_field_that_is_stored_is_tried() -> None:
    full = a_datastream(
        "full",
        "t",
        metadata={"owner": "tests"},
        start=StartPosition.TIMESTAMP,
        start_ms=1_700_000_000_000,
        objective=LatencyObjective(5),
        pauses={"t": PartitionPause(frozenset({0}), "why", 1)},
        halt=Halt("why", 1),
        creation=Creation("key", "wish"),
        resumptions={"t": Resumption(frozenset({0}), 1, 2, 2)},
    )
    assert set(of_document(to_document(full))) <= set(STORED_FIELDS)


def test_every_key_of_the_metadata_that_means_something_is_tried() -> None:
    known = {
        *PLACES,
        metadata.OWNER,
        metadata.TASK_PREFIX,
        metadata.GROUP_ID,
        metadata.CREATED_MS,
        metadata.TTL_MS,
    }
    assert {("metadata", key) for key in known} <= set(STORED_FIELDS)
