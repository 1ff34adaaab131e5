"""Test the duration of past breaches, from closed incidents."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from monitor.actions import PastBreach
from monitor.adapters.breaches import MOST, from_answers, from_records
from monitor.records.record import IncidentRecord, Phase, RebalanceGain


@pytest.mark.parametrize(
    ("act", "was_helped"),
    [
        ("rebalance r-0000000001 asked for: 2 partitions move", True),
        ("rebalance r-0000000001 requested: 2 partitions move", True),
        ("hot partition t-0; rebalance r-0000000001 asked for: 2 partitions move", True),
        ("no rebalance is asked for: monitor.act is false", False),
        ("no rebalance requested: monitor.act is false", False),
        ("a rebalance would not help: nothing moves", False),
        ("a rebalance could not be asked for: the service is away", False),
        ("could not request a rebalance: the service is away", False),
        ("would ask for a rebalance, and only observes: 2 partitions move", False),
        ("would request a rebalance, but only observes: 2 partitions move", False),
    ],
)
def test_a_breach_was_helped_where_a_rebalance_was_asked_for(act: str, was_helped: bool) -> None:
    record = IncidentRecord("a", "orders", "east", 1_000, 5_000).noted(2_000, Phase.ACTED, act)
    assert from_records([record], "orders") == (PastBreach(4.0, was_helped),)
    assert from_answers([asdict(record)]) == (PastBreach(4.0, was_helped),)


def test_a_long_incident_that_was_helped_stays_so_when_its_timeline_forgets_it() -> None:
    record = IncidentRecord("a", "orders", "east", 1_000, 5_000, gain=RebalanceGain(2_000, 60.0, 30.0))
    assert from_records([record], "orders") == (PastBreach(4.0, was_helped=True),)
    assert from_answers([asdict(record)]) == (PastBreach(4.0, was_helped=True),)


def test_only_the_newest_of_the_datastream_that_are_over_count() -> None:
    records = [IncidentRecord(str(end), "orders", "east", 0, end) for end in range(100)]
    others = [IncidentRecord("x", "clicks", "east", 0, 5), IncidentRecord("y", "orders", "east", 0)]
    assert from_records([*others, *records], "orders") == tuple(
        PastBreach(end / 1000, was_helped=False) for end in range(MOST)
    )
