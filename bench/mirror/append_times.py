"""CPU time per batch of computing bounds for append times, which keep wrong clocks out of the latency.

An engine copies between two fake clusters, and the calls of its lanes are recorded. Each round replays them
in a pair: on the bounds, and on an object without any. `live`: each response has one batch. `backlog`: all
batches are there before. `wrong clocks`: as live, with timestamps a minute behind. `ROUNDS` pairs (200).
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from mirror.model.movement.append_times import UNKNOWN_SPAN, AppendSpan, AppendTimes
from tests.fakes.broker.mirrored import MirroredFakes

_PARTITIONS: Final = 10
_BATCHES: Final = 60
_TOPIC: Final = "t"
_BEHIND_MS: Final = 60_000

Call = tuple[str, tuple[Any, ...]]


class Recorder(AppendTimes):
    """Bounds for append times that record the calls of a lane."""

    def __init__(self, calls: list[Call]) -> None:
        super().__init__()
        self.calls = calls

    def quiet(self, requested_at: float) -> None:
        """Record the call."""
        self.calls.append(("quiet", (requested_at,)))
        super().quiet(requested_at)

    def record_end(self, end: int, requested_at: float, now: float, now_ms: int, kept: int) -> None:
        """Record the call."""
        self.calls.append(("record_end", (end, requested_at, now, now_ms, kept)))
        super().record_end(end, requested_at, now, now_ms, kept)

    def span(self, first: int, last: int) -> AppendSpan:
        """Record the call."""
        self.calls.append(("span", (first, last)))
        return super().span(first, last)

    def appended_ms(self, timestamp: int, span: AppendSpan) -> int:
        """Record the call."""
        self.calls.append(("appended_ms", (timestamp, span)))
        return super().appended_ms(timestamp, span)

    def learn(self, timestamp: int, span: AppendSpan, now: float) -> None:
        """Record the call."""
        self.calls.append(("learn", (timestamp, span, now)))
        super().learn(timestamp, span, now)


class Unbounded:
    """Append times without bounds: every timestamp counts as right."""

    def quiet(self, requested_at: float) -> None:
        """Ignore the call."""

    def record_end(self, end: int, requested_at: float, now: float, now_ms: int, kept: int) -> None:
        """Ignore the call."""

    def span(self, first: int, last: int) -> AppendSpan:
        """Return unknown bounds."""
        return UNKNOWN_SPAN

    def appended_ms(self, timestamp: int, span: AppendSpan) -> int:
        """Return the timestamp."""
        return timestamp

    def learn(self, timestamp: int, span: AppendSpan, now: float) -> None:
        """Ignore the call."""


def recorded(*, is_live: bool, behind_ms: int = 0) -> list[list[Call]]:
    """Copy the batches; return the recorded calls of each lane."""
    fakes = MirroredFakes()
    fakes.make_topic(_TOPIC, _PARTITIONS)
    fakes.start(_TOPIC, _PARTITIONS)
    fakes.run(2)
    calls: list[list[Call]] = [[] for _ in range(_PARTITIONS)]
    for number, one in enumerate(calls):
        fakes.lane(_TOPIC, number).read.times = Recorder(one)
    for batch in range(_BATCHES):
        for number in range(_PARTITIONS):
            stamp_ms = fakes.clock.now_ms() - behind_ms
            fakes.source.write(_TOPIC, [(stamp_ms, b"key", b"%d" % batch, [])], number)
        if is_live:
            fakes.run(0.2)
    for number in range(_PARTITIONS):
        fakes.run_to(_TOPIC, _BATCHES, number)
    return calls


def seconds_of(make: Callable[[], object], calls: list[list[Call]]) -> float:
    """Return the CPU time of the recorded calls on a new object for each lane."""
    bound = []
    for one in calls:
        times = make()
        bound.append([(getattr(times, name), arguments) for name, arguments in one])
    began = time.process_time()
    for lane in bound:
        for method, arguments in lane:
            method(*arguments)
    return time.process_time() - began


def main() -> None:
    """Print microseconds of CPU time per batch: of the bounds, and the difference between both runs."""
    rounds, count = int(os.environ.get("ROUNDS", "200")), _BATCHES * _PARTITIONS
    print(f"{rounds} pairs of {count} batches; microseconds of processor time per batch\n")
    print("| batches | calls per batch | bounds | more than without: median | quartiles |")
    print("|---|---|---|---|---|")
    kinds = {
        "live": recorded(is_live=True),
        "backlog": recorded(is_live=False),
        "wrong clocks": recorded(is_live=True, behind_ms=_BEHIND_MS),
    }
    gc.disable()
    for label, calls in kinds.items():
        pairs = []
        for number in range(rounds):
            order = (AppendTimes, Unbounded) if number % 2 else (Unbounded, AppendTimes)
            spent = {make: seconds_of(make, calls) for make in order}
            pairs.append((spent[AppendTimes], spent[AppendTimes] - spent[Unbounded]))
        bounds, more = np.array(pairs).T * 1e6 / count
        low, middle, high = np.percentile(more, (25, 50, 75))
        each = sum(map(len, calls)) / count
        print(f"| {label} | {each:.1f} | {np.median(bounds):.1f} | {middle:.1f} | {low:.1f} to {high:.1f} |")
    gc.enable()


if __name__ == "__main__":
    main()
