"""Hostile values for every field that can be sent or stored."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

VALUES: Final[Mapping[str, str]] = {
    "nothing": "null",
    "truth": "true",
    "negative": "-1",
    "zero": "0",
    "fraction": "1.5",
    "20,000": "20000",
    "5,000 digits": "1" * 5_000,
    "text of 5,000 digits": f'"{"1" * 5_000}"',
    "not a number": "NaN",
    "infinity": "-Infinity",
    "beyond infinity": "1e999",
    "half of a pair": '"\\udfff"',
    "raw half of a pair": '"RAW"',
    "empty": '""',
    "blank": '" "',
    "a megabyte": f'"{"x" * 2**20}"',
    "140,000 characters": f'"{"x" * 140_000}"',
    "control characters": '"a\\u0000\\u001b[2Jb"',
    "path": '"../../etc/passwd"',
    "dots": '".."',
    "wide": '"\\ud83d\\ude00 ключ"',
    "list": "[1]",
    "object": '{"a":{"b":[]}}',
    "nested": "[" * 3_000 + "]" * 3_000,
    "nested objects": '{"a":' * 900 + "1" + "}" * 900,
    "no port": '"a:b"',
    "trailing comma": '"host:9092,"',
    "port 0": '"host:0"',
    "port 70000": '"host:70000"',
    "no host": '":9092"',
    "exponential expression": '"(a+)+$"',
    "look-around": '"a(?=b)"',
    "unclosed": '"(("',
    "ranges": '"0-999999999999"',
}
"""Values as JSON texts."""

REST_FIELDS: Final[Sequence[tuple[str, ...]]] = (
    ("name",),
    ("source",),
    ("source", "cluster"),
    ("source", "topics"),
    ("source", "exclude"),
    ("source", "internal"),
    ("source", "match_all"),
    ("destination",),
    ("destination", "cluster"),
    ("destination", "name"),
    ("destination", "adopt"),
    ("destination", "grow_existing"),
    ("destination", "excluded_settings"),
    ("destination", "shared"),
    ("owner",),
    ("start",),
    ("guarantee",),
    ("policies",),
    ("policies", "isolation"),
    ("policies", "on_loss"),
    ("policies", "on_rejection"),
    ("policies", "path"),
    ("policies", "transforms"),
    ("quota",),
    ("quota", "bytes_per_second"),
    ("groups",),
    ("groups", "include"),
    ("groups", "exclude"),
    ("groups", "interval_seconds"),
    ("groups", "direction"),
    ("limits",),
    ("limits", "min_tasks"),
    ("limits", "max_tasks"),
    ("limits", "max_partitions_per_task"),
    ("objective",),
    ("objective", "milliseconds"),
    ("objective", "percentile"),
    ("objectives",),
    ("monitor",),
    ("canary",),
    ("audit",),
    ("audit_lateness_seconds",),
    ("start_positions",),
    ("placement",),
    ("placement", "capacity_bytes_per_second"),
    ("placement", "capacity_messages_per_second"),
    ("placement", "utilisation_percent"),
    ("placement", "scale_in_headroom"),
    ("placement", "strategy"),
    ("placement", "load_provider"),
    ("metadata",),
    ("metadata", "owner"),
    ("metadata", "group.id"),
    ("metadata", "headrace-objectives"),
    ("metadata", "headrace-monitor"),
    ("metadata", "headrace-audit"),
    ("metadata", "headrace-audit-lateness"),
    ("metadata", "headrace-groups"),
    ("metadata", "headrace-groups-exclude"),
    ("metadata", "headrace-groups-interval"),
    ("metadata", "headrace-groups-direction"),
    ("metadata", "headrace-start-positions"),
    ("metadata", "headrace-placement"),
    ("metadata", "system.taskPrefix"),
    ("metadata", "system.ttl.ms"),
    ("metadata", "system.creation.ms"),
    ("metadata", "headrace.guarantee"),
    ("metadata", "headrace.bytes-per-second"),
    ("metadata", "headrace.transforms"),
    ("metadata", "headrace.excluded-settings"),
    ("metadata", "headrace.adopt-existing"),
    ("metadata", "headrace.canary"),
    ("metadata", "headrace.unreported-of"),
    ("metadata", "sasl.jaas.config"),
    ("metadata", "anything"),
)
"""Fields of the body that creates a datastream on /v1."""

BROOKLIN_FIELDS: Final[Sequence[tuple[str, ...]]] = (
    ("name",),
    ("connectorName",),
    ("transportProviderName",),
    ("source",),
    ("source", "connectionString"),
    ("destination",),
    ("destination", "connectionString"),
    ("metadata",),
    ("metadata", "owner"),
    ("metadata", "minTasks"),
    ("metadata", "maxTasks"),
    ("metadata", "partitionsPerTask"),
    ("metadata", "system.taskPrefix"),
    ("metadata", "system.ttl.ms"),
    ("metadata", "system.auto.offset.reset"),
    ("metadata", "system.destination.destinationTopicPrefix"),
)
"""Fields of the body that creates a datastream on /datastream."""

STORED_FIELDS: Final[Sequence[tuple[str, ...]]] = (
    ("name",),
    ("source",),
    ("topics",),
    ("topics", "include"),
    ("topics", "exclude"),
    ("topics", "internal"),
    ("destination",),
    ("naming",),
    ("status",),
    ("start",),
    ("start_ms",),
    ("limits",),
    ("limits", "min_tasks"),
    ("limits", "max_tasks"),
    ("limits", "max_partitions_per_task"),
    ("objective",),
    ("objective", "milliseconds"),
    ("objective", "percentile"),
    ("metadata",),
    ("metadata", "owner"),
    ("metadata", "group.id"),
    ("metadata", "headrace-objectives"),
    ("metadata", "headrace-start-positions"),
    ("metadata", "headrace-placement"),
    ("metadata", "headrace-monitor"),
    ("metadata", "headrace-audit"),
    ("metadata", "headrace-audit-lateness"),
    ("metadata", "headrace-groups"),
    ("metadata", "headrace-groups-exclude"),
    ("metadata", "headrace-groups-interval"),
    ("metadata", "headrace-groups-direction"),
    ("metadata", "system.taskPrefix"),
    ("metadata", "system.ttl.ms"),
    ("metadata", "system.creation.ms"),
    ("metadata", "headrace.canary"),
    ("metadata", "headrace.adopt-existing"),
    ("metadata", "headrace.bytes-per-second"),
    ("metadata", "headrace.grow-existing"),
    ("metadata", "headrace.guarantee"),
    ("metadata", "headrace.isolation"),
    ("metadata", "headrace.on-loss"),
    ("metadata", "headrace.on-rejection"),
    ("metadata", "headrace.path"),
    ("metadata", "headrace.shared-destination"),
    ("metadata", "headrace.transforms"),
    ("metadata", "headrace.excluded-settings"),
    ("metadata", "headrace.unreported-of"),
    ("metadata", "anything"),
    ("pauses",),
    ("pauses", "t"),
    ("pauses", "t", "partitions"),
    ("pauses", "t", "reason"),
    ("pauses", "t", "since_ms"),
    ("pauses", "t", "requested_by"),
    ("pauses", "t", "until_ms"),
    ("halt",),
    ("halt", "reason"),
    ("halt", "since_ms"),
    ("halt", "requested_by"),
    ("halt", "until_ms"),
    ("creation",),
    ("creation", "key"),
    ("creation", "wish"),
    ("resumptions",),
    ("resumptions", "t"),
    ("resumptions", "t", "partitions"),
    ("resumptions", "t", "since_ms"),
    ("resumptions", "t", "until_ms"),
    ("resumptions", "t", "began_ms"),
    ("unreported-of",),
)
"""Fields of a definition in ZooKeeper."""

NODES: Final[Mapping[str, bytes]] = {
    "nothing": b"",
    "no text": b"\xff\xfe\x00",
    "no JSON": b"{",
    "nested": b"[" * 100_000,
    "nested objects": b'{"a":' * 100_000,
    "a list": b"[]",
    "an empty object": b"{}",
    "digits": b'{"epoch":' + b"1" * 5_000 + b"}",
    "not a number": b'{"name":NaN}',
    "other types": b'{"name":5,"group":[],"epoch":"x","events":5,"documents":7,"rates":[]}',
    "half of a pair": b'{"name":"\\udfff","group":"\\udfff","reason":"\\udfff"}',
}
"""Contents of malformed documents."""


def with_value(document: Mapping[str, Any], field: Sequence[str], value: str) -> bytes:
    """Return the document as JSON with this text as the value of a field."""
    copy: dict[str, Any] = json.loads(json.dumps(document))
    below = copy
    for name in field[:-1]:
        if not isinstance(below.get(name), dict):
            below[name] = {}
        below = below[name]
    below[field[-1]] = "@@@"
    return json.dumps(copy).replace('"@@@"', value).encode().replace(b"RAW", b"\xed\xbf\xbf")


def every_value(document: Mapping[str, Any], fields: Sequence[Sequence[str]]) -> Iterator[tuple[str, bytes]]:
    """Yield each field with each value: a case name, and the document as JSON."""
    for field in fields:
        for name, value in VALUES.items():
            yield f"{'.'.join(field)}: {name}", with_value(document, field, value)


def every_key(document: Mapping[str, Any], field: str) -> Iterator[tuple[str, bytes]]:
    """Yield a mapping field with each text value as a key."""
    for name, value in VALUES.items():
        if value.startswith('"'):
            yield (
                f"a key of {field}: {name}",
                with_value(document, (field, "@@key"), '"x"').replace(
                    b'"@@key"', value.encode().replace(b"RAW", b"\xed\xbf\xbf")
                ),
            )
