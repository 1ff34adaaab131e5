"""The running count of lanes in time equals a check of each lane."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.instance.workers.lane_table import NOBODY, LanesInTime, LaneTable
from mirror.model.datastreams.lanes import (
    LaneHeldBack,
    LaneKey,
    LanePaused,
    LaneResumed,
    LaneStarted,
    LaneStopped,
)
from mirror.model.movement.history import LanePosition, LogStart, Retention
from mirror.worker.protocol import LaneRate
from monitor.lane_verdicts import judged
from monitor.movement.states import MovementState
from tests.builders import SOURCE, a_key, a_spec
from tests.fakes.clock import ManualClock

KEYS = [a_key("t-0"), a_key("t-1"), a_key("t-0", "bills")]
STARTS = tuple(LogStart(100.0 * number, 10 * number) for number in range(4))
positions = st.builds(
    LanePosition,
    checkpoint=st.sampled_from([125, 125, 125, 130, 130, 100]),
    readable_end=st.just(130),
    end=st.just(130),
    log_start=st.integers(0, 20),
    hidden_ms=st.none(),
    withheld=st.just(()),
    retention=st.sampled_from([Retention(60_000), Retention(60_000), Retention(None, 10_000)]),
    is_watched=st.sampled_from([True, True, False]),
    starts=st.sampled_from([(), (), STARTS]),
)
ages = st.sampled_from([0, 400, 400, 400, 60_000, None])


class Lanes:
    """A table whose lanes belong to one worker."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.table = LaneTable(self.clock)

    def begin(self, key: LaneKey) -> None:
        if key not in self.table.states:
            self.table.begin(a_spec(str(key.partition), key.group), 0)

    def hold(self, key: LaneKey) -> None:
        if key not in self.table.states:
            self.table.hold(a_spec(str(key.partition), key.group), "no worker may")

    def stop(self, key: LaneKey) -> None:
        if key in self.table.states:
            self.table.stop(key)

    def report(self, key: LaneKey, position: LanePosition, lag_ms: int | None) -> None:
        self.clock.advance(5.0)
        rate = LaneRate(key, SOURCE, 100.0, 1.0, 3, lag_ms, (), position)
        self.table.measure([rate], self.clock.monotonic() - 5.0)

    def mute(self, key: LaneKey) -> None:
        self.table.mute([one for one in KEYS if self._is_copied(one)])

    def unmute(self, key: LaneKey) -> None:
        self.table.unmute({one for one in KEYS if self._is_copied(one)})

    def unwatch(self, key: LaneKey) -> None:
        self.table.unwatch([one for one in KEYS if self._is_copied(one)], self.clock.monotonic() - 1.0)

    def _is_copied(self, key: LaneKey) -> bool:
        state = self.table.states.get(key)
        return state is not None and state.worker != NOBODY


def _steps() -> st.SearchStrategy[Callable[[Lanes], None]]:
    def step(kind: str, key: LaneKey, position: LanePosition, age: int | None) -> Callable[[Lanes], None]:
        steps: dict[str, Callable[[Lanes], None]] = {
            "start": lambda lanes: lanes.table.note(LaneStarted(key, 0)),
            "pause": lambda lanes: lanes.table.note(LanePaused(key, "why")),
            "resume": lambda lanes: lanes.table.note(LaneResumed(key)),
            "held back": lambda lanes: lanes.table.note(LaneHeldBack(key, "a quota")),
            "stopped": lambda lanes: lanes.table.note(LaneStopped(key, None)),
            "forget": lambda lanes: lanes.table.forget([key]),
            "report": lambda lanes: lanes.report(key, position, age),
            "wait": lambda lanes: lanes.clock.advance(60.0),
            **{name: _by_name(name, key) for name in ("begin", "hold", "stop", "mute", "unmute", "unwatch")},
        }
        return steps[kind]

    often = ["start", "start", *["report"] * 6]
    others = ["begin", "hold", "stop", "pause", "resume", "held back", "stopped", "forget", "wait"]
    kinds = st.sampled_from([*often, *others, "mute", "unmute", "unwatch"])
    return st.builds(step, kinds, st.sampled_from(KEYS), positions, ages)


def _by_name(name: str, key: LaneKey) -> Callable[[Lanes], None]:
    return lambda lanes: getattr(lanes, name)(key)


@given(st.lists(_steps(), min_size=20, max_size=60))
def test_what_is_counted_is_what_is_there(steps: list[Callable[[Lanes], None]]) -> None:
    lanes = Lanes()
    for key in KEYS:
        lanes.begin(key)
        lanes.table.note(LaneStarted(key, 0))
    for step in steps:
        step(lanes)
        assert lanes.table.in_time == LanesInTime.of(lanes.table.states)
    _assert_as_judged_one_by_one(lanes, 0.0)
    _assert_as_judged_one_by_one(lanes, 3_600.0)


def _assert_as_judged_one_by_one(lanes: Lanes, later: float) -> None:
    now, states, found = lanes.clock.monotonic() + later, lanes.table.states, lanes.table.in_time
    calm = [one for key, one in states.items() if key not in found.others]
    assert found.counts == Counter(one.spec.key.group for one in calm)
    losses: dict[str, float] = {}
    for one in calm:
        verdict = judged(one, now)
        assert (verdict.state, verdict.eta_seconds) == (MovementState.OK, None)
        if verdict.seconds_to_loss is not None:
            group = one.spec.key.group
            losses[group] = min(losses.get(group, inf), verdict.seconds_to_loss)
    assert losses == {group: pytest.approx(max(at - now, 0.0)) for group, at in found.loss_at.items()}
