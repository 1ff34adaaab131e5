"""Sums of audited windows beside the counts of producers and consumers."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import fastavro
from hypothesis import given
from hypothesis import strategies as st

from mirror.audit.verdicts import Verdict
from mirror.jobs.audits.window_sums import WindowSum, window_sums
from mirror.model.audit_window import AuditWindow
from mirror.model.rows import avro_schema

EXAMPLE = Path(__file__).parents[4] / "deploy" / "examples" / "audited_producer.py"
WINDOW_MS = 600_000


def example() -> Any:
    spec = spec_from_file_location("audited_producer", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(key: str, count: int, time_ms: int = 1, **more: Any) -> dict[str, Any]:
    empty = {c["name"]: "" if c["type"] == "string" else 0 for c in avro_schema(AuditWindow)["fields"]}
    made: dict[str, Any] = empty | {"id": key, "count": count, "time_ms": time_ms, "topic": "t"}
    made |= {"datastream": "d", "tier": "mirror", "verdict": "complete", "bucket_end_ms": WINDOW_MS}
    return made | more


def read(rows: Any) -> list[Mapping[str, Any]]:
    schema = fastavro.parse_schema(avro_schema(AuditWindow))
    found: Any = [fastavro.schemaless_reader(io.BytesIO(value), schema, None) for _, value in rows]
    assert [one["id"].encode() for one in found] == [key for key, _ in rows]
    return list(found)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 9)), max_size=20))
def test_the_last_row_of_an_id_counts_in_any_order(rows: list[tuple[str, int, int]]) -> None:
    distinct = {(key, time_ms): count for key, time_ms, count in rows}
    made = [row(key, count, time_ms) for (key, time_ms), count in distinct.items()]
    newest = {key: max(time_ms for one, time_ms in distinct if one == key) for key, _ in distinct}
    expected = sum(distinct[key, time_ms] for key, time_ms in newest.items())
    for order in (made, made[::-1]):
        assert sum(one.sums["count"] for one in window_sums(order)) == expected


def test_the_counts_of_the_example_producer_are_compared_with_those_of_the_mirror() -> None:
    counts = example().TierCounts("producer", "shop")
    for timestamp in (0, 1, WINDOW_MS - 1, WINDOW_MS):
        counts.add("t", timestamp)
    sent = read(list(counts.rows(now_ms=5)))
    counts.add("t", 2)
    sent += read(list(counts.rows(now_ms=6)))
    assert not list(counts.rows(now_ms=7))
    mirrored = [row("p0", 3), row("p1", 1), row("later", 1, bucket_start_ms=WINDOW_MS)]
    first, second = window_sums([*sent, *mirrored, *sent])
    assert (first.tiers, first.differences, first.is_complete) == ({"producer": 4}, {}, True)
    assert (second.start_ms, second.tiers, second.is_complete) == (WINDOW_MS, {"producer": 1}, True)
    short = window_sums([*sent, *mirrored[1:]])[0]
    assert (short.differences, short.is_complete) == ({"producer": 3}, False)
    assert [one.datastream for one in window_sums(sent)] == ["", ""]
    assert not any(one.is_complete for one in window_sums(sent))


def test_each_datastream_of_a_topic_is_compared() -> None:
    rows = [row("a", 2), row("b", 1, datastream="other"), row("c", 2, tier="consumer", datastream="")]
    assert [one.is_complete for one in window_sums(rows)] == [True, False]
    (only,) = window_sums(rows, "other")
    assert only.differences == {"consumer": 1}


def test_the_worst_verdict_and_late_records_make_a_window_incomplete() -> None:
    (found,) = window_sums([row("a", 2), row("b", 1, verdict="missing", missing=1)])
    assert (found.verdict, found.sums["missing"], found.is_complete) == (Verdict.MISSING, 1, False)
    assert not WindowSum("d", "t", 0, 1, Counter(late=1), Verdict.LATE).is_complete
    assert found.to_json()["verdict"] == "missing"
