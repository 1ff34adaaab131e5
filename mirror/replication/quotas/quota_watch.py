"""Reports which lanes are delayed by a quota of their task, their datastream or a broker.

Such lanes are not paused, because they copy at the intended rate. A report starts when the quota delays a
lane for a large share of the time (`_HELD_SHARE`), within two seconds, and ends when the share is small
(`_FREE_SHARE`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from mirror.lane.flow import HeldTime, TokenBucket
from mirror.lane.lane import Lane
from mirror.lane.lifecycle import LaneState
from mirror.model.datastreams.lanes import LaneHeldBack, QuotaHold, QuotaOwner
from mirror.replication.channels.fetch_channel import FetchChannel
from mirror.replication.channels.parallel_writes import ParallelWrites
from mirror.replication.channels.produce_channel import ProduceChannel
from mirror.replication.context import EngineContext
from mirror.replication.lanes.registry import LaneRegistry
from mirror.wording import rate_text

_LOOK_SECONDS: Final = 1.0
_REPORT_SECONDS: Final = 5.0
"""Seconds between two reports of changed delays. A new delay is reported earlier."""
_HELD_SHARE: Final = 0.2
"""Share of the time from which on a delay is reported."""
_FREE_SHARE: Final = 0.05
"""Share of the time below which the report of a delay ends."""
_OTHER_SHARE: Final = 0.25
"""Change of a delay's share of the time with which the delay is reported again."""
_AT_BROKERS: Final = "the brokers' quota of cluster"


Throttled = FetchChannel | ProduceChannel | ParallelWrites
"""Connections to one broker, which may throttle them."""


class QuotaDelay(NamedTuple):
    """A delay of a lane by a quota. `share`: share of the time. `broker`: the throttling broker, for a quota
    of a cluster."""

    share: float
    quota: str
    owner: QuotaOwner
    broker: int | None = None


class QuotaWatch:
    """Tracks the lanes that wait for a quota of Headrace, and the channels that brokers throttle."""

    def __init__(self, context: EngineContext, lanes: LaneRegistry) -> None:
        self._context = context
        self._lanes = lanes
        self._waiting: dict[Lane, tuple[HeldTime, TokenBucket]] = {}
        self._reported: dict[Lane, QuotaDelay] = {}
        self._delayed: dict[tuple[Lane, QuotaDelay], float] = {}
        """Seconds of each delay since the last report. The share in the key is 0."""
        self._looked = self._began = self._context.loop.now()

    def waits(self, lane: Lane, bucket: TokenBucket, seconds: float) -> None:
        """Note that the lane is not fetched for `seconds`, because a quota of Headrace is used up."""
        now = self._context.loop.now()
        held, _ = self._waiting.get(lane) or (HeldTime(), bucket)
        held.hold(now, now + seconds)
        self._waiting[lane] = held, bucket

    def pump(self, now: float) -> None:
        """Report new delays by quotas every second, and changed delays every few seconds."""
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        self._take_own(now)
        throttled: dict[tuple[Lane, QuotaDelay], float] = {}
        for owner, direction, channel in self._channels():
            spent, lanes = channel.take_throttled(now)
            delay = QuotaDelay(0.0, f"{_AT_BROKERS} {direction}", owner, channel.broker)
            for lane in lanes:  # connections to one broker share its quota, which throttles them together
                throttled[lane, delay] = max(spent, throttled.get((lane, delay), 0.0))
        for (lane, delay), spent in throttled.items():
            self._note(lane, delay, spent)
        passed = now - self._began
        found = self._longest(max(passed, _REPORT_SECONDS))
        if passed < _REPORT_SECONDS:
            self._report({lane: delay for lane, delay in found.items() if lane not in self._reported})
            return
        ended = {
            lane: QuotaDelay(0.0, "", delay.owner)
            for lane, delay in self._reported.items()
            if lane not in found
        }
        self._began = now
        self._delayed.clear()
        self._report(found | ended)

    def _channels(self) -> Iterator[tuple[QuotaOwner, str, Throttled]]:
        for name, source in self._lanes.sources.items():
            yield from ((QuotaOwner.SOURCE, f"{name} for reading", channel) for channel in source.channels)
        for name, sink in self._lanes.sinks.items():
            channels: Iterable[Throttled] = (*sink.channels, *sink.distant.known)
            yield from ((QuotaOwner.DESTINATION, f"{name} for writing", channel) for channel in channels)

    def _take_own(self, now: float) -> None:
        """Add up the delays by Headrace's own quotas since the previous call."""
        for lane, (held, bucket) in list(self._waiting.items()):
            if spent := held.take(now):
                self._note(lane, QuotaDelay(0.0, _name_of(bucket), QuotaOwner(bucket.owner)), spent)
            else:
                del self._waiting[lane]

    def _note(self, lane: Lane, delay: QuotaDelay, seconds: float) -> None:
        self._delayed[lane, delay] = self._delayed.get((lane, delay), 0.0) + seconds

    def _longest(self, passed: float) -> dict[Lane, QuotaDelay]:
        """Return the quota that delays each lane most, and its share of the elapsed time."""
        found: dict[Lane, QuotaDelay] = {}
        for (lane, delay), seconds in self._delayed.items():
            known = found.get(lane)
            if known is None or seconds / passed > known.share:
                found[lane] = delay._replace(share=seconds / passed)
        return found

    def _report(self, found: Mapping[Lane, QuotaDelay]) -> None:
        for lane, delay in found.items():
            reported = self._reported.get(lane)
            if self._lanes.by_key.get(lane.key) is not lane or lane.state is LaneState.STOPPED:
                self._reported.pop(lane, None)
            elif reported is None:
                if delay.share >= _HELD_SHARE:
                    self._report_delay(lane, delay)
            elif delay.share < _FREE_SHARE:
                del self._reported[lane]
                self._lanes.report(LaneHeldBack(lane.key, ""))
            elif delay.quota != reported.quota or abs(delay.share - reported.share) >= _OTHER_SHARE:
                self._report_delay(lane, delay)

    def _report_delay(self, lane: Lane, delay: QuotaDelay) -> None:
        self._reported[lane] = delay
        share = min(delay.share, 1.0)
        text = f"{delay.quota} throttles it {share:.0%} of the time"
        self._lanes.report(LaneHeldBack(lane.key, text, QuotaHold(delay.owner, share, delay.broker)))


def _name_of(bucket: TokenBucket) -> str:
    if bucket.for_catching_up:
        left = rate_text(bucket.bytes_per_second)
        return f"priority of partitions that would lose records sooner, with {left} left for others here,"
    return f"the quota of its {bucket.owner}, {rate_text(bucket.bytes_per_second)} here,"
