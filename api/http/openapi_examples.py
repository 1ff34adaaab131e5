"""Generates examples for all schemas from one example value for each field name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mirror.model.reasons import legible

_PREFIX: Final = "#/components/schemas/"
_MS: Final = 1_764_000_000_000
_NOTHING: Final = object()
_OF_TYPE: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}

_VALUES: Final[Mapping[str, tuple[Any, ...]]] = {
    "advice": ("list existing ones with headrace datastream list",),
    "ActingAnswer.reason": ("migration of the source",),
    "MonitorBody.reason": ("migration of the source",),
    "after": ("orders\\..*",),
    "before": ("orders",),
    "by": (None,),
    "bytes_per_second": (1_250_000.0,),
    "ClusterLoadsAnswer.age_ms": (4_000,),
    "ClusterLoadsAnswer.measured_at_ms": (_MS,),
    "ClusterLoadsAnswer.partitions": (2,),
    "ClusterLoadsAnswer.reason": ("the latest measurement is 4 s old",),
    "ClusterLoadsAnswer.since_ms": (_MS - 60_000,),
    "ClusterLoadsAnswer.state": ("known",),
    "changes": ({"limits": {"max_tasks": 8}},),
    "cluster": ("source",),
    "cursor": ("b3JkZXJz",),
    "DestinationBody.cluster": ("destination",),
    "ChangedDestinationBody.cluster": ("destination",),
    "DatastreamLoads.bytes_per_second": (2_500_000.0,),
    "DatastreamLoads.left_out": (1,),
    "DatastreamLoads.planned_ms": (_MS,),
    "data_plane": ("compiled",),
    "datastream": ("orders",),
    "destination": ("destination",),
    "destination_topic": ("orders.created",),
    "detail": ("datastream orders does not exist",),
    "DestinationBody.name": ("*",),
    "ChangedDestinationBody.name": ("*",),
    "epoch": (12,),
    "errors": (None,),
    "events": ([],),
    "exclude": ("orders\\.internal",),
    "excluded_settings": ([],),
    "field": ("/source/topics",),
    "from_instance": ("one",),
    "from_task": ("orders_0",),
    "gaps": ([],),
    "guarantee": ("effectively-once",),
    "group": ("billing",),
    "halt": (None,),
    "held": (0,),
    "holder": ("5d0c11ae at mirror-1.example.net:4711",),
    "held_back": (None,),
    "HoldAnswer.broker": (3,),
    "HoldAnswer.owner": ("destination brokers",),
    "HoldAnswer.share": (0.45,),
    "UnansweredAnswer.produce_seconds": (14.2,),
    "source_window": (None,),
    "destination_window": (None,),
    "WindowAnswer.broker": (3,),
    "WindowAnswer.window_bytes": (125_000,),
    "WindowAnswer.round_trip_ms": (100.2,),
    "WindowAnswer.connections": (64,),
    "WindowAnswer.allowed_connections": (64,),
    "host": ("mirror-1.example.net",),
    "identity": ("p-0000000000",),
    "incarnation": ("9f2c61d0",),
    "If-Match": ('"1764000000000-3"',),
    "Idempotency-Key": ('"8e03978e-40d5-43dd-bc93-6894a57f9324"',),
    "instance": ("one",),
    "InstanceAnswer.name": ("one",),
    "is_balanced": (True,),
    "is_lower_bound": (False,),
    "is_offending": (False,),
    "is_ready": (True,),
    "is_well": (True,),
    "kind": ("NotFound",),
    "known": (2,),
    "lag_ms": (40,),
    "lag_records": (120,),
    "leader": ("one",),
    "LeaseAnswer.lease": ("8e03978e40d543dd",),
    "RebalanceBody.lease": ("",),
    "limit": (100,),
    "LaneAnswer.reason": ("",),
    "left_alone": ("",),
    "Last-Event-ID": ("0-0",),
    "loads_known": (True,),
    "max_tasks": (8,),
    "MovementAnswer.reason": ("",),
    "MovementAnswer.state": ("OK",),
    "messages_per_second": (900.0,),
    "metadata": ({"purpose": "analytics"},),
    "milliseconds": (60_000,),
    "ServiceObjectiveBody.milliseconds": (2_000,),
    "target_percent": (99.5,),
    "name": ("orders",),
    "next_offset": (1_000,),
    "no_answer": ("",),
    "offending_partitions": ([],),
    "offset": (500,),
    "offsets": ({"delivered": 1_000}, 0),
    "offset_map": ([[0, 0, 1_000]],),
    "owner": ("team-orders",),
    "partition": ("orders.created-0", 0),
    "partitions": ({"orders.created": "0,1"}, ["orders.created-0"], [0, 1]),
    "open": (True,),
    "operation": ("r-0000000000",),
    "OperationAnswer.created_ms": (_MS,),
    "OperationAnswer.finished_ms": (_MS + 900,),
    "OperationAnswer.id": ("r-0000000000",),
    "OperationAnswer.plan_epoch": (12,),
    "IncidentAnswer.closed_ms": (_MS + 240_000,),
    "IncidentAnswer.id": ("orders-1764000000000",),
    "IncidentAnswer.worst_ms": (81_230.0,),
    "TimelineAnswer.times": (1,),
    "TimelineAnswer.text": ("p99 is 81 s; objective: p99 within 60 s",),
    "OperationAnswer.sentence": ("4 tasks on 2 instances, 2 partitions move for orders",),
    "OperationAnswer.state": ("done",),
    "paused": ("",),
    "pauses": ({},),
    "per_second": ({"records_copied": 900.0},),
    "phase": ("copying",),
    "pointer": ("/source/topics",),
    "prefix": ("orders",),
    "problem": (None,),
    "PartitionLoadAnswer.age_ms": (4_000,),
    "PartitionLoadAnswer.measured_at_ms": (_MS,),
    "PlanAnswer.reason": ("2 partitions move from one to two",),
    "process_id": (4711,),
    "provider": ("pinot",),
    "rate_source": ("slope",),
    "ProblemField.detail": ("invalid regular expression: missing ]",),
    "reason": ("maintenance of the source",),
    "reasons": (["2 tasks carry 1.2 MB/s of 4 MB/s"],),
    "refused": ("",),
    "request": ("request-0000000007",),
    "RebalanceAnswer.sentence": ("queued; the leader answers with a plan",),
    "request_id": ("4f1c9d0e7a62b358",),
    "requested_by": ("team-orders",),
    "required_tasks": (2,),
    "rest_address": ("mirror-1.example.net:32311",),
    "sentence": ("follows the plan",),
    "stage": ("exact",),
    "start_offset": (0,),
    "silent_instances": ([],),
    "start": ("earliest",),
    "start_positions": ({"orders": {"0": 12}},),
    "state": ("paused",),
    "source": ("source",),
    "status": ("READY", 404),
    "task": ("orders_0",),
    "task_lower_bound": (2,),
    "tasks": (2,),
    "tasks_after": (3,),
    "tasks_before": (2,),
    "title": ("Not Found",),
    "to_instance": ("two",),
    "to_task": ("orders_1",),
    "to_offset": (500,),
    "to_topic": ("orders.created",),
    "topic": ("orders.created",),
    "topics": ("orders\\..*",),
    "transforms": ([],),
    "unanswered": (None,),
    "unknown": ([], 0),
    "UntranslatedPosition.reason": ("not mirrored",),
    "UntranslatedPosition.topic": ("payments",),
    "unplaced_partitions": ([],),
    "CapacityAnswer.bytes_per_second": (83_000_000,),
    "CapacityAnswer.origin": ("learned",),
    "CapacityAnswer.why": ("rate of one core in the most expensive of 9 hours: 6480 worker intervals",),
    "high": (91_000_000,),
    "learned_bytes_per_second": (86_000_000,),
    "low": (81_000_000,),
    "utilisation_percent": (70,),
    "weight": (1.0,),
    "worker": (0,),
    "worker_cpu": (0.4,),
    "timestamp_offset_seconds": (-60.0,),
    "worker_waited": (0.02,),
}
"""Example values by field, or by schema and field if a name has several meanings.

The first value of the field's type is used.
"""


class Examples:
    """Generates examples for the schemas of one OpenAPI document."""

    def __init__(self, schemas: Mapping[str, Any]) -> None:
        self._schemas = schemas

    def of(self, schema: Mapping[str, Any], owner: str = "", field: str = "") -> Any:
        """Return an example value that the schema allows. `owner`, `field`: model and field in which the
        example appears."""
        if "$ref" in schema:
            name = str(schema["$ref"]).removeprefix(_PREFIX)
            target = self._schemas[name]
            if "enum" not in target:
                return self.of(target, name)
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            return self.of({**target, **beside}, owner, field)
        if "examples" in schema:
            return schema["examples"][0]
        options = schema.get("anyOf") or schema.get("oneOf")
        for value in _VALUES.get(f"{owner}.{field}", _VALUES.get(field, ())):
            if any(_is_of_type(value, option) for option in options or (schema,)):
                return value
        if options:
            return self._first(options, schema, owner, field)
        return self._plain(schema, owner, field)

    def _first(self, options: list[Any], schema: Mapping[str, Any], owner: str, field: str) -> Any:
        """Return an example for the first alternative of a schema that is not null.

        If null is allowed and the other options are simple types, return null.
        """
        real = [option for option in options if option.get("type") != "null"]
        is_described = any("$ref" in option or "enum" in option or "items" in option for option in real)
        if len(real) < len(options) and not is_described:
            return None
        return self.of({"title": schema.get("title", ""), **real[0]}, owner, field)

    def _plain(self, schema: Mapping[str, Any], owner: str, field: str) -> Any:
        for key in ("const", "default"):
            if schema.get(key) not in (None, "", {}, []):
                return schema[key]
        if "enum" in schema:
            return schema["enum"][0]
        kind = schema.get("type")
        if kind == "object":
            return self._object(schema, owner)
        if kind == "array":
            return self._array(schema, owner, field)
        if kind in ("integer", "number"):
            return _number(schema, field)
        return {"string": legible(field.replace("_", " ")), "boolean": False}.get(str(kind))

    def _object(self, schema: Mapping[str, Any], owner: str) -> dict[str, Any]:
        needed = schema.get("required", ())
        found = {
            name: self.of(field, owner, name)
            for name, field in schema.get("properties", {}).items()
            if name in needed or {"$ref", "type", "anyOf", "oneOf", "enum", "const"} & field.keys()
        }
        more = schema.get("additionalProperties")
        if isinstance(more, dict) and not found:
            found["example"] = self.of(more)
        return found

    def _array(self, schema: Mapping[str, Any], owner: str, field: str) -> list[Any]:
        if "prefixItems" in schema:
            return [self.of(item, owner) for item in schema["prefixItems"]]
        return [self.of(schema.get("items", {}), owner, field.removesuffix("s"))]


def _is_of_type(value: Any, schema: Mapping[str, Any]) -> bool:
    if value is None:
        return schema.get("type") == "null"
    if "enum" in schema:
        return value in schema["enum"]
    kind = schema.get("type")
    if kind is None:
        return "$ref" not in schema
    is_of = isinstance(value, _OF_TYPE.get(kind, ())) and (kind == "boolean" or not isinstance(value, bool))
    if not is_of or kind not in ("array", "object") or not value:
        return is_of
    inner = schema.get("items" if kind == "array" else "additionalProperties")
    first = value[0] if kind == "array" else next(iter(value.values()))
    return not isinstance(inner, dict) or _is_of_type(first, inner)


def _number(schema: Mapping[str, Any], field: str) -> int | float:
    if field.endswith("_ms") and not field.endswith(("lag_ms", "age_ms")):
        return _MS
    least = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
    return int(max(least, 0))
