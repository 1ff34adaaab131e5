"""What forbids a rebalance, and what a dry run leads to."""

from __future__ import annotations

import re

import pytest

from mirror.model.datastreams.objectives.mode import Mode
from mirror.model.identifiers import DatastreamName
from mirror.model.sizing.freeze import read_freeze
from monitor.actions.policy import DAY_MS, Act, ActingPolicy, Outcome, Record, decide, reason_against
from monitor.actions.worth import Worth

ORDERS, CLICKS = DatastreamName("orders"), DatastreamName("clicks")
NOW = 1_763_942_400_000  # 2025-11-24 00:00 UTC
FREEZE = read_freeze("00:00 to 01:00")


def acts(*moments: tuple[DatastreamName, int]) -> Record:
    return Record(acts=[Act(name, NOW - ago) for name, ago in moments])


@pytest.mark.parametrize(
    ("policy", "record", "reason"),
    [
        (ActingPolicy(), Record(), ""),
        (ActingPolicy(may_act=False), Record(), r"monitor\.act\b"),
        (ActingPolicy(), Record("a migration"), ": a migration"),
        (ActingPolicy(freezes=(FREEZE,)), Record(), "00:00 to 01:00"),
        (ActingPolicy(), Record(waiting="clicks"), "clicks"),
        (
            ActingPolicy(most_a_day=2),
            acts((CLICKS, 5), (CLICKS, DAY_MS - 1)),
            r"2 rebalances .*\(monitor\.most_a_day\)",
        ),
        (ActingPolicy(most_a_day=2), acts((CLICKS, 5), (CLICKS, DAY_MS)), ""),
        (ActingPolicy(most_a_day_of_each=1), acts((CLICKS, 5)), ""),
        (
            ActingPolicy(most_a_day_of_each=1),
            acts((ORDERS, 5)),
            r"1 rebalance .*\(monitor\.most_a_day_of_each\)",
        ),
        (ActingPolicy(most_a_day=0), Record(), r"0 rebalances .*\(monitor\.most_a_day\)"),
    ],
)
def test_what_is_against_it_is_said(policy: ActingPolicy, record: Record, reason: str) -> None:
    found = reason_against(policy, record, ORDERS, NOW)
    assert re.search(reason, found) if reason else found == ""


def test_a_dry_run_decides_the_rest() -> None:
    much, little, preview = Worth(60.0, "saves much"), Worth(0.5, "saves little"), "2 partitions move"
    acting = decide(Mode.ACT, 2, preview, much)
    assert acting.outcome is Outcome.ACTS
    assert re.fullmatch(f"{preview}; .*{much.sentence}", acting.sentence)
    observing = decide(Mode.OBSERVE, 2, preview, much)
    assert observing.outcome is Outcome.WOULD_ACT
    assert observing.sentence.endswith(f": {acting.sentence}")
    for mode in Mode:
        assert decide(mode, 0, "nothing moves", much).outcome is Outcome.REFUSES
        refused = decide(mode, 2, preview, little)
        assert refused.outcome is Outcome.REFUSES
        assert re.search(f": {preview}; .*{little.sentence}$", refused.sentence)
    unknown = Worth(None, "saves an unknown time")
    assert decide(Mode.ACT, 2, preview, unknown).outcome is Outcome.ACTS
