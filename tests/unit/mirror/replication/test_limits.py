"""Test the limits that a starting lane has learned from rejections."""

from __future__ import annotations

from dataclasses import replace

from mirror.lane.lane import Lane
from mirror.lane.ledger import Ledger, OffsetClass
from mirror.lane.rules import Refusal
from mirror.replication.limits import RoutingRuleCache, TopicLimits, open_refused
from mirror.replication.options import CopyingOptions
from tests.builders import a_spec


def test_refusals_are_forgotten_when_the_checkpoint_that_a_lane_starts_from_is_behind_them() -> None:
    cache, limits = RoutingRuleCache(CopyingOptions()), TopicLimits()
    lane = Lane(a_spec(), 1_000, ())
    refused = dict.fromkeys((17, 130), Refusal(OffsetClass.DEAD_LETTERED, 0))
    lane.read.rules = replace(
        lane.read.rules, omitted=refused, unopened={40: Refusal(OffsetClass.FILTERED, 0)}
    )
    for checkpoint, position, omitted, unopened in (
        (0, 0, {17, 130}, {40}),
        (17, 17, {17, 130}, {40}),
        (100, 100, {130}, set()),
        (131, -1, {17, 130}, {40}),
        (131, 131, set(), set()),
    ):
        lane.progress.ledger, lane.read.position = Ledger(checkpoint), position
        found = cache.rules(lane, limits)
        assert (set(found.omitted), set(found.unopened)) == (omitted, unopened)
    assert cache.rules(lane, limits) is cache.rules(lane, limits)


def test_what_was_refused_is_opened_with_what_was_refused_before_and_not_copied_yet() -> None:
    lane = Lane(a_spec(), 1_000, ())
    open_refused(lane, 10, 20, singly=False)
    assert (lane.read.rules.opened_from, lane.read.rules.opened_below) == (10, 20)
    open_refused(lane, 30, 40, singly=True)
    assert (lane.read.rules.opened_from, lane.read.rules.opened_below, lane.read.rules.opens_singly) == (
        10,
        40,
        True,
    )
    lane.progress.ledger = Ledger(45)
    open_refused(lane, 50, 60, singly=False)
    assert (lane.read.rules.opened_from, lane.read.rules.opened_below, lane.read.rules.opens_singly) == (
        50,
        60,
        False,
    )
