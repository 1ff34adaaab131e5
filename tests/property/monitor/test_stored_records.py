"""Any contents of a record of the incidents topic are an incident, an alert, or damaged."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import DamagedState
from mirror.model.bounds import LARGEST_MS
from monitor.alerts.alert import rfc3339
from monitor.alerts.stored_alerts import read_alerts
from monitor.records.record import IncidentRecord, Phase, TimelineEntry, record_from_json, record_to_json

ONE = IncidentRecord("i", "orders", "east", 5, None, 7.0, (TimelineEntry(5, Phase.DETECTED, "late"),))
FIELDS = sorted(json.loads(record_to_json(ONE)))
values: st.SearchStrategy[object] = st.sampled_from(
    [
        None,
        True,
        "",
        "x",
        "\0",
        "٣",
        "9" * 5_000,
        [],
        [None],
        [[[[1]]]],
        {},
        {"": []},
        [{"phase": "detected"}],
    ]
) | st.sampled_from([0, -1, 1.5, 2**63, 10**15, 10**400, float("nan"), float("inf"), -float("inf")])


@given(st.dictionaries(st.sampled_from(FIELDS), values, min_size=1, max_size=3))
def test_an_incident_is_read_or_damaged(changed: dict[str, object]) -> None:
    with suppress(DamagedState):
        found = record_from_json(json.dumps(json.loads(record_to_json(ONE)) | changed).encode())
        assert all(0 <= at <= LARGEST_MS for at in (found.opened_ms, found.judged_ms, found.closed_ms or 0))
        rfc3339(found.opened_ms)


@pytest.mark.parametrize(
    "value", [b"", b"\xff", b"[" * 100_000, b"9" * 5_000, b"[]", b"null", b"x" * 1_000_000]
)
def test_what_is_no_record_at_all_is_damaged(value: bytes) -> None:
    with pytest.raises(DamagedState, match="incident"):
        record_from_json(value)
    assert read_alerts([value]) == []


@given(
    st.dictionaries(
        st.sampled_from(["name", "summary", "since_ms", "until_ms", "datastream", "cluster"]), values
    )
)
def test_an_alert_is_read_or_left_out(changed: dict[str, object]) -> None:
    alert = {"name": "HeadraceDatastreamHalted", "summary": "s", "since_ms": 5}
    alert |= {"datastream": "", "cluster": "", "receiver": ""} | changed
    for one in read_alerts([json.dumps({"alerts": [alert]}).encode()]):
        assert 0 <= one.alert.since_ms <= LARGEST_MS
        assert 0 <= one.alert.until_ms <= LARGEST_MS


def test_what_is_written_is_read_again() -> None:
    closed = replace(ONE, closed_ms=9, judged_ms=8)
    assert record_from_json(record_to_json(closed)) == closed
