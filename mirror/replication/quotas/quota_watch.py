"""Reports of lanes delayed by a quota: of their task, their datastream or a broker.

Such lanes copy at the intended rate, so they are not paused. A quota is reported once it delays a lane for a
considerable share of the time. The report ends when the quota hardly delays the lane.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from mirror.lane.flow import HeldTime, TokenBucket
from mirror.lane.lane import Lane
from mirror.lane.lifecycle import LaneState
from mirror.model.datastreams.lanes import LaneHeldBack, QuotaHold, QuotaOwner
from mirror.replication.channels.fetcher import FetchChannel
from mirror.replication.channels.sender import ProduceChannel
from mirror.replication.context import EngineContext
from mirror.replication.lanes.registry import LaneRegistry
from mirror.wording import rate_text

_LOOK_SECONDS: Final = 5.0
_HELD_SHARE: Final = 0.2
"""Minimum share of the time for a delay to be reported."""
_FREE_SHARE: Final = 0.05
"""Share of the time below which the report ends."""
_OTHER_SHARE: Final = 0.25
"""Change of the share that triggers a new report."""
_AT_BROKERS: Final = "the brokers' quota of cluster"


class QuotaDelay(NamedTuple):
    """A quota and its owner, with the share of the time for which it delays a lane; `broker`: the throttling
    broker, if it is the quota of a cluster."""

    share: float
    quota: str
    owner: QuotaOwner
    broker: int | None = None


class QuotaWatch:
    """Tracker of lanes that wait for a quota of Headrace, and of channels throttled by brokers."""

    def __init__(self, context: EngineContext, lanes: LaneRegistry) -> None:
        self._context = context
        self._lanes = lanes
        self._waiting: dict[Lane, tuple[HeldTime, TokenBucket]] = {}
        self._reported: dict[Lane, QuotaDelay] = {}
        self._looked = self._context.loop.now()

    def waits(self, lane: Lane, bucket: TokenBucket, seconds: float) -> None:
        """Record that the lane is not fetched for that time because the bucket is empty."""
        now = self._context.loop.now()
        held, _ = self._waiting.get(lane) or (HeldTime(), bucket)
        held.hold(now, now + seconds)
        self._waiting[lane] = held, bucket

    def pump(self, now: float) -> None:
        """Report changes every few seconds."""
        seconds = now - self._looked
        if seconds < _LOOK_SECONDS:
            return
        self._looked = now
        found = self._take_own(now, seconds)
        for owner, direction, channel in self._channels():
            spent, lanes = channel.take_throttled(now)
            for lane in lanes:
                delay = QuotaDelay(spent / seconds, f"{_AT_BROKERS} {direction}", owner, channel.broker)
                _note(found, lane, delay)
        self._report(found)

    def _channels(self) -> Iterator[tuple[QuotaOwner, str, FetchChannel | ProduceChannel]]:
        for name, source in self._lanes.sources.items():
            yield from ((QuotaOwner.SOURCE, f"{name} for reading", channel) for channel in source.channels)
        for name, sink in self._lanes.sinks.items():
            yield from ((QuotaOwner.DESTINATION, f"{name} for writing", channel) for channel in sink.channels)

    def _take_own(self, now: float, seconds: float) -> dict[Lane, QuotaDelay]:
        """Return the delays caused by quotas of Headrace."""
        found: dict[Lane, QuotaDelay] = {}
        for lane, (held, bucket) in list(self._waiting.items()):
            share = held.take(now) / seconds
            if share:
                found[lane] = QuotaDelay(share, _name_of(bucket), QuotaOwner(bucket.owner))
            else:
                del self._waiting[lane]
        return found

    def _report(self, found: dict[Lane, QuotaDelay]) -> None:
        for lane in [one for one in self._reported if one not in found]:
            found[lane] = QuotaDelay(0.0, "", self._reported[lane].owner)
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


def _note(found: dict[Lane, QuotaDelay], lane: Lane, delay: QuotaDelay) -> None:
    """Record a delay in `found` if it is the longest of the lane."""
    known = found.get(lane)
    if known is None or delay.share > known.share:
        found[lane] = delay


def _name_of(bucket: TokenBucket) -> str:
    if bucket.for_catching_up:
        left = rate_text(bucket.bytes_per_second)
        return f"priority of partitions that would lose records sooner, with {left} left for others here,"
    return f"the quota of its {bucket.owner}, {rate_text(bucket.bytes_per_second)} here,"
