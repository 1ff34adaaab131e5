"""Test the reasons that forbid a rebalance, and the decision after a dry run."""

from __future__ import annotations

import re

import pytest

from mirror.model.capacity.freeze import read_freeze
from mirror.model.datastreams.objectives import Mode
from mirror.model.identifiers import DatastreamName
from monitor.actions import (
    DAY_MS,
    ActingPolicy,
    ActionOutcome,
    ActionRecord,
    PredictedSaving,
    RebalanceAction,
    decide,
    reason_against,
)

ORDERS, CLICKS = DatastreamName("orders"), DatastreamName("clicks")
NOW = 1_763_942_400_000  # 2025-11-24 00:00 UTC
FREEZE = read_freeze("00:00 to 01:00")


def acts(*moments: tuple[DatastreamName, int]) -> ActionRecord:
    return ActionRecord(acts=[RebalanceAction(name, NOW - ago) for name, ago in moments])


@pytest.mark.parametrize(
    ("policy", "record", "reason"),
    [
        (ActingPolicy(), ActionRecord(), ""),
        (ActingPolicy(may_act=False), ActionRecord(), r"monitor\.act\b"),
        (ActingPolicy(), ActionRecord("a migration"), ": a migration"),
        (ActingPolicy(freezes=(FREEZE,)), ActionRecord(), "00:00 to 01:00"),
        (ActingPolicy(), ActionRecord(waiting="clicks"), "clicks"),
        (
            ActingPolicy(most_a_day=2),
            acts((CLICKS, 5), (CLICKS, DAY_MS - 1)),
            r"2 rebalances .*\(monitor\.most_a_day\)",
        ),
        (ActingPolicy(most_a_day=2), acts((CLICKS, 5), (CLICKS, DAY_MS)), ""),
        (ActingPolicy(most_a_day=2), acts((CLICKS, 5), (CLICKS, -DAY_MS)), ""),  # the clock was a day ahead
        (ActingPolicy(most_a_day=1), acts((CLICKS, -5)), r"1 rebalance .*"),
        (ActingPolicy(most_a_day_of_each=1), acts((CLICKS, 5)), ""),
        (
            ActingPolicy(most_a_day_of_each=1),
            acts((ORDERS, 5)),
            r"1 rebalance .*\(monitor\.most_a_day_of_each\)",
        ),
        (ActingPolicy(most_a_day=0), ActionRecord(), r"0 rebalances .*\(monitor\.most_a_day\)"),
    ],
)
def test_what_is_against_it_is_said(policy: ActingPolicy, record: ActionRecord, reason: str) -> None:
    found = reason_against(policy, record, ORDERS, NOW)
    assert re.search(reason, found) if reason else found == ""


def test_a_dry_run_decides_the_rest() -> None:
    much, little, preview = (
        PredictedSaving(60.0, "saves much"),
        PredictedSaving(0.5, "saves little"),
        "2 partitions move",
    )
    acting = decide(Mode.ACT, 2, preview, much)
    assert acting.outcome is ActionOutcome.ACTS
    assert re.fullmatch(f"{preview}; .*{much.sentence}", acting.sentence)
    observing = decide(Mode.OBSERVE, 2, preview, much)
    assert observing.outcome is ActionOutcome.WOULD_ACT
    assert observing.sentence.endswith(f": {acting.sentence}")
    for mode in Mode:
        assert decide(mode, 0, "nothing moves", much).outcome is ActionOutcome.REFUSES
        refused = decide(mode, 2, preview, little)
        assert refused.outcome is ActionOutcome.REFUSES
        assert re.search(f": {preview}; .*{little.sentence}$", refused.sentence)
    unknown = PredictedSaving(None, "saves an unknown time")
    assert decide(Mode.ACT, 2, preview, unknown).outcome is ActionOutcome.ACTS
