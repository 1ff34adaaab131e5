"""Reports of lanes delayed by a quota: of their task, their datastream or a broker.

Such lanes copy at the intended rate, so they are not paused. The quota is reported once it delays a lane for
a considerable share of the time, until it hardly does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from mirror.lane.flow import HeldTime, TokenBucket
from mirror.lane.lifecycle import LaneState
from mirror.model.datastreams.lanes import LaneHeldBack, QuotaHold, QuotaOwner
from mirror.replication.channels.fetcher import FetchChannel
from mirror.replication.channels.sender import ProduceChannel
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.live_lane import LiveLane
from mirror.wording import rate_text

_LOOK_SECONDS: Final = 5.0
_HELD_SHARE: Final = 0.2
"""Share of the time from which on a delay is reported."""
_FREE_SHARE: Final = 0.05
"""Share of the time below which the report ends."""
_OTHER_SHARE: Final = 0.25
"""Change of the share that triggers a new report."""
_AT_BROKERS: Final = "the brokers' quota of cluster"


class QuotaDelay(NamedTuple):
    """A quota and its owner, with the share of the time for which it delays a lane; `broker`: the broker that
    throttles, for a quota of a cluster."""

    share: float
    quota: str
    owner: QuotaOwner
    broker: int | None = None


class QuotaWatch:
    """Tracker of lanes that wait for a quota of Headrace, and of channels throttled by brokers."""

    def __init__(self, runner: LaneRunner) -> None:
        self._runner = runner
        self._bench = runner.bench
        self._waiting: dict[LiveLane, tuple[HeldTime, TokenBucket]] = {}
        self._reported: dict[LiveLane, QuotaDelay] = {}
        self._looked = self._bench.loop.now()

    def waits(self, lane: LiveLane, bucket: TokenBucket, seconds: float) -> None:
        """Record that the lane is not fetched for that time because the bucket is empty."""
        now = self._bench.loop.now()
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
                brake = QuotaDelay(spent / seconds, f"{_AT_BROKERS} {direction}", owner, channel.broker)
                _note(found, lane, brake)
        self._report(found)

    def _channels(self) -> Iterator[tuple[QuotaOwner, str, FetchChannel | ProduceChannel]]:
        for name, source in self._runner.sources.items():
            yield from ((QuotaOwner.SOURCE, f"{name} for reading", one) for one in source.channels)
        for name, sink in self._runner.sinks.items():
            yield from ((QuotaOwner.DESTINATION, f"{name} for writing", one) for one in sink.channels)

    def _take_own(self, now: float, seconds: float) -> dict[LiveLane, QuotaDelay]:
        """Return the delays by quotas of Headrace."""
        found: dict[LiveLane, QuotaDelay] = {}
        for lane, (held, bucket) in list(self._waiting.items()):
            share = held.take(now) / seconds
            if share:
                found[lane] = QuotaDelay(share, _name_of(bucket), QuotaOwner(bucket.owner))
            else:
                del self._waiting[lane]
        return found

    def _report(self, found: dict[LiveLane, QuotaDelay]) -> None:
        for lane in [one for one in self._reported if one not in found]:
            found[lane] = QuotaDelay(0.0, "", self._reported[lane].owner)
        for lane, brake in found.items():
            said = self._reported.get(lane)
            if self._runner.lanes.get(lane.key) is not lane or lane.state is LaneState.STOPPED:
                self._reported.pop(lane, None)
            elif said is None:
                if brake.share >= _HELD_SHARE:
                    self._report_delay(lane, brake)
            elif brake.share < _FREE_SHARE:
                del self._reported[lane]
                self._runner.events.append(LaneHeldBack(lane.key, ""))
            elif brake.quota != said.quota or abs(brake.share - said.share) >= _OTHER_SHARE:
                self._report_delay(lane, brake)

    def _report_delay(self, lane: LiveLane, brake: QuotaDelay) -> None:
        self._reported[lane] = brake
        share = min(brake.share, 1.0)
        text = f"{brake.quota} throttles it {share:.0%} of the time"
        self._runner.events.append(LaneHeldBack(lane.key, text, QuotaHold(brake.owner, share, brake.broker)))


def _note(found: dict[LiveLane, QuotaDelay], lane: LiveLane, brake: QuotaDelay) -> None:
    """Keep only the quota that delays a lane most."""
    known = found.get(lane)
    if known is None or brake.share > known.share:
        found[lane] = brake


def _name_of(bucket: TokenBucket) -> str:
    if bucket.for_catching_up:
        left = rate_text(bucket.bytes_per_second)
        return f"priority of partitions that would lose records sooner, with {left} left for others here,"
    return f"the quota of its {bucket.owner}, {rate_text(bucket.bytes_per_second)} here,"
