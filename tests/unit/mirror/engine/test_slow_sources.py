"""Test a source that responds late: it is reported, and the lag is never 0 meanwhile; in virtual time."""

from __future__ import annotations

import os
from collections.abc import Callable

from structlog.typing import EventDict

from mirror.replication.reports.measurements import has_response, lag_ms
from tests.fakes.broker.faults import Delay, Throttle
from tests.fakes.broker.mirrored import MirroredFakes

FETCH = 1
LATE_SECONDS = 6.0
"""Delay of a response, longer than the tolerated silence."""
UNNOTICED_SECONDS = 6.0
"""Time for which the last response counts as current."""
MIB = 2**20


def copied(fakes: MirroredFakes, partitions: int = 2) -> None:
    """Start lanes of topic t and run until they have reached the end of the source."""
    fakes.make_topic("t", partitions)
    for number in range(partitions):
        fakes.write("t", 0, 10, number)
    fakes.start("t", partitions)
    for number in range(partitions):
        fakes.run_to("t", 10, number)
    fakes.run_until(lambda: ages(fakes, partitions) == [0] * partitions, "no record waits")


def ages(fakes: MirroredFakes, partitions: int = 2) -> list[int | None]:
    """Return the reported age of waiting records of each lane, in ms."""
    now, now_ms = fakes.clock.monotonic(), fakes.clock.now_ms()
    lanes = [fakes.lane("t", number) for number in range(partitions)]
    return [lag_ms(lane, now_ms, has_response=has_response(lane, now)) for lane in lanes]


def run_without_zero(fakes: MirroredFakes, seconds: float) -> None:
    """Run and check that no lane reports an age of 0."""
    until = fakes.clock.monotonic() + seconds
    while fakes.clock.monotonic() < until:
        fakes.run(0.1)
        assert 0 not in ages(fakes), fakes.describe()


def test_a_slow_source_is_shown_in_time_and_without_a_break(
    fakes: MirroredFakes, logged: list[EventDict]
) -> None:
    copied(fakes)
    began = fakes.clock.monotonic()
    fakes.source.faults.plant(FETCH, Delay(LATE_SECONDS), times=None)
    fakes.run(UNNOTICED_SECONDS)
    lanes = [fakes.lane("t", number) for number in range(2)]
    while not all(lane.observed.stalled_by for lane in lanes):
        run_without_zero(fakes, 0.1)
    assert fakes.clock.monotonic() - began < 15
    fakes.run(2 * LATE_SECONDS)
    said = [lane.observed.stalled_by for lane in lanes]
    assert all("cluster source: " in one and " responds after 6 s, since 20" in one for one in said)
    events = len(fakes.events)
    for first in range(10, 40, 10):
        fakes.write("t", first, 10)
        run_without_zero(fakes, 4 * LATE_SECONDS)
        assert fakes.lane("t").checkpoint == first + 10, "it copies nevertheless"
    assert [lane.observed.stalled_by for lane in lanes] == said
    assert len(fakes.events) == events, "reported once"
    assert len({one["address"] for one in logged if one["event"] == "broker unavailable"}) == 2
    assert sum(one["event"] == "broker unavailable" for one in logged) == 2, "one per broker"
    assert not any(one["event"] == "broker available again" for one in logged)


def test_a_prompt_answer_ends_it(fakes: MirroredFakes) -> None:
    copied(fakes)
    fakes.source.faults.plant(FETCH, Delay(LATE_SECONDS), times=None)
    fakes.run_until(lambda: all(fakes.lane("t", n).observed.stalled_by for n in range(2)), "it is reported")
    fakes.source.faults.clear()
    began = fakes.clock.monotonic()
    fakes.run_until(
        lambda: not any(fakes.lane("t", n).observed.stalled_by for n in range(2)), "the report ends"
    )
    fakes.run_until(lambda: ages(fakes) == [0, 0], "no record waits")
    assert fakes.clock.monotonic() - began < LATE_SECONDS + 2, "the pending response and one more"


def test_a_source_that_falls_silent_after_it_was_slow_does_not_answer(fakes: MirroredFakes) -> None:
    copied(fakes)
    fakes.source.faults.plant(FETCH, Delay(LATE_SECONDS), times=None)
    fakes.run_until(
        lambda: "responds after" in fakes.lane("t").observed.stalled_by, "slow responses are reported"
    )
    for node in (1, 2):
        fakes.source.server.set_frozen(node, frozen=True)
    fakes.run_until(lambda: "does not respond" in fakes.lane("t").observed.stalled_by, "silence is reported")
    run_without_zero(fakes, 60)


def test_a_large_answer_that_takes_long_for_its_bytes_is_not_called_slow(
    new_fakes: Callable[..., MirroredFakes],
) -> None:
    fakes = new_fakes(brokers=1)
    fakes.make_topic("t", 4)
    for _ in range(10):
        for number in range(4):
            fakes.source.write("t", [(fakes.clock.now_ms(), b"k", os.urandom(900_000), [])], number)
    fakes.source.faults.plant(FETCH, Delay(5.7), times=None)
    fakes.start("t", 4)
    lanes = [fakes.lane("t", number) for number in range(4)]
    while any(lane.checkpoint < 6 for lane in lanes):
        fakes.run(0.25)
        assert not any(lane.observed.stalled_by for lane in lanes)
    assert any(lane.read.high_watermark > lane.checkpoint for lane in lanes), (
        "the lanes were behind throughout"
    )


def test_nobody_says_that_nothing_waits_while_a_quota_of_the_source_keeps_it_from_being_asked(
    fakes: MirroredFakes,
) -> None:
    copied(fakes)
    fakes.source.faults.plant(FETCH, Throttle(20_000), times=None)
    fakes.run(1 + UNNOTICED_SECONDS)
    run_without_zero(fakes, 10)
    assert not any(fakes.lane("t", number).observed.stalled_by for number in range(2)), (
        "requests are answered in time"
    )
