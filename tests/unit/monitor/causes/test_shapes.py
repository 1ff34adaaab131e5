"""Test the diagnosis of slow clusters, quotas and outages with a whole engine, in virtual time.

The measurements go from the engine through the pipe of its worker and `/v1/lanes` to the diagnosis.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pytest

from api.resources.lanes import LaneAnswer
from mirror.instance.workers.lane_table import LaneTable
from mirror.model.datastreams.lanes import QuotaOwner
from mirror.model.datastreams.policy import CopyPolicy
from mirror.model.metrics import Drops, MirrorMetric
from mirror.model.movement.exemptions import NO_EXEMPTION, LatencyExemption
from mirror.model.topics import TopicSelection
from mirror.worker.protocol import LaneRates, MessageReader, encode_message
from mirror.worker.reports import MetricReports
from monitor.adapters.lane_answers import evidence_of
from monitor.causes.diagnosis import Cause, Diagnosis
from monitor.causes.judge import diagnose
from monitor.latency import Source
from tests.fakes.broker.faults import Delay, Throttle
from tests.fakes.broker.mirrored import MirroredFakes

PRODUCE, FETCH, LIST_OFFSETS, INIT_PRODUCER_ID = 0, 1, 2, 22
LIMIT_MS: Final = 500
INTERVAL_SECONDS: Final = 5.0
_TICK_SECONDS: Final = 0.1


class DiscardingSink:
    """Sink that discards measurements."""

    def publish(self, metrics: Sequence[MirrorMetric]) -> None:
        """Discard the metrics."""

    def drops(self) -> Drops:
        return Drops()


class Mirrored:
    """Partition 0 of a topic with a batch every 100 ms."""

    def __init__(
        self,
        fakes: MirroredFakes,
        policy: CopyPolicy | None = None,
        prepare: Callable[[], LatencyExemption] | None = None,
    ) -> None:
        self.fakes = fakes
        self.interval_seconds = INTERVAL_SECONDS
        self._heard = 0
        fakes.make_topic("t")
        exemption = prepare() if prepare is not None else NO_EXEMPTION
        fakes.start("t", group="orders", policy=policy or CopyPolicy(), exemption=exemption)
        self._table = LaneTable(fakes.clock)
        self._table.begin(fakes.lane("t").spec, 0)
        self._reports = MetricReports(fakes.engine, DiscardingSink(), fakes.clock, INTERVAL_SECONDS)
        self._listen()

    def run(self, seconds: float, size: int = 200) -> None:
        ticks = round(seconds / _TICK_SECONDS)
        for tick in range(1, ticks + 1):
            now_ms = self.fakes.clock.now_ms()
            self.fakes.source.write("t", [(now_ms, b"k", os.urandom(size), [])], 0)
            self.fakes.run(_TICK_SECONDS)
            if tick == ticks or tick % round(self.interval_seconds / _TICK_SECONDS) == 0:
                self._listen()

    def diagnosed(self) -> Diagnosis:
        now, now_ms = self.fakes.clock.monotonic(), self.fakes.clock.now_ms()
        lanes = [
            LaneAnswer.from_lane(key, state, now, now_ms).model_dump(mode="json")
            for key, state in self._table.states.items()
        ]
        answer = {"lanes": lanes, "instances": []}
        return diagnose(evidence_of(answer, Source("orders", "source"), TopicSelection("t")), LIMIT_MS)

    def _listen(self) -> None:
        for event in self.fakes.events[self._heard :]:
            self._table.note(event)
        self._heard = len(self.fakes.events)
        (message,) = self._reports.closing()
        (said,) = MessageReader().feed(encode_message(message))
        assert isinstance(said, LaneRates)
        self._table.measure(said.rates, waiting=said.waiting, limited=said.limited)


@pytest.fixture
def mirrored(fakes: MirroredFakes) -> Mirrored:
    return Mirrored(fakes)


def test_a_destination_that_acknowledges_late_is_the_cause(mirrored: Mirrored) -> None:
    mirrored.fakes.target.faults.plant(PRODUCE, Delay(0.8), times=None)
    mirrored.run(15)
    found = mirrored.diagnosed()
    assert found.cause is Cause.DESTINATION_BOUND, found
    assert found.evidence["produce_ms"] > LIMIT_MS  # type: ignore[operator]


def test_also_where_it_takes_less_than_is_written(mirrored: Mirrored) -> None:
    mirrored.fakes.target.faults.plant(PRODUCE, Delay(0.8), times=None)
    mirrored.run(25, size=20_000)
    found = mirrored.diagnosed()
    assert (found.cause, found.placement_can_help) == (Cause.DESTINATION_BOUND, False), found


def test_a_source_that_answers_late_is_the_cause(mirrored: Mirrored) -> None:
    mirrored.fakes.source.faults.plant(FETCH, Delay(1.5), times=None)
    mirrored.run(15)
    found = mirrored.diagnosed()
    assert (found.cause, found.placement_can_help) == (Cause.SOURCE_BOUND, False), found
    phases = {name: float(length) for name, length in found.evidence.items() if name.endswith("_ms")}
    assert max(phases, key=phases.__getitem__) == "wait_ms", found


def test_a_destination_that_has_not_acknowledged_yet_is_the_cause(mirrored: Mirrored) -> None:
    mirrored.run(5)
    mirrored.fakes.target.faults.plant(PRODUCE, Delay(3_600), times=None)
    mirrored.run(4)
    found = mirrored.diagnosed()
    assert found.cause is Cause.DESTINATION_BOUND, found
    assert float(found.evidence["produce_unanswered_seconds"]) == pytest.approx(4, abs=0.5)
    assert " 4 s " in found.sentence
    mirrored.run(8)
    away = mirrored.diagnosed()
    assert (away.cause, "does not respond" in away.sentence) == (Cause.DESTINATION_AWAY, True), away


@pytest.mark.parametrize("api", [INIT_PRODUCER_ID, PRODUCE], ids=["identity", "progress"])
def test_a_destination_that_has_not_answered_a_lane_that_begins_is_the_cause(
    mirrored: Mirrored, api: int
) -> None:
    mirrored.fakes.target.faults.plant(api, Delay(3_600), times=None)
    mirrored.run(4)
    lane = mirrored.fakes.lane("t")
    assert (lane.ownership.identity, lane.queue.in_flight, mirrored.fakes.target.faults.taken) == (None, 0, 1)
    found = mirrored.diagnosed()
    assert found.cause is Cause.DESTINATION_BOUND, found
    assert float(found.evidence["produce_unanswered_seconds"]) == pytest.approx(4, abs=0.5)
    assert " 4 s " in found.sentence
    mirrored.run(8)
    assert lane.ownership.is_identifying
    away = mirrored.diagnosed()
    assert (away.cause, "does not respond" in away.sentence) == (Cause.DESTINATION_AWAY, True), away


def test_answers_that_come_in_time_are_not_overdue_together(mirrored: Mirrored) -> None:
    for api in (INIT_PRODUCER_ID, LIST_OFFSETS, PRODUCE):
        mirrored.fakes.target.faults.plant(api, Delay(0.4), times=None)
    lane = mirrored.fakes.lane("t")
    waited = 0.0
    while lane.ownership.identity is None:
        mirrored.run(0.1)
        waited += 0.1 * lane.ownership.is_identifying
        assert "unanswered" not in str(mirrored.diagnosed().evidence)
    assert waited > 1, "three responses"


def test_a_destination_that_acknowledges_less_than_once_in_an_interval_is_the_cause(
    mirrored: Mirrored,
) -> None:
    mirrored.interval_seconds = 1.0
    mirrored.run(5)
    mirrored.fakes.target.faults.plant(PRODUCE, Delay(4.0), times=None)
    mirrored.run(1)
    for _ in range(20):
        mirrored.run(1)
        found = mirrored.diagnosed()
        assert found.cause in {Cause.DESTINATION_BOUND, Cause.DESTINATION_AWAY}, found


def test_a_source_that_has_not_answered_yet_is_the_cause(mirrored: Mirrored) -> None:
    mirrored.run(5)
    mirrored.fakes.source.faults.plant(FETCH, Delay(3_600), times=None)
    mirrored.run(4)
    found = mirrored.diagnosed()
    assert found.cause is Cause.SOURCE_BOUND, found
    assert float(found.evidence["fetch_unanswered_seconds"]) > 1


def test_answers_that_a_quota_puts_off_are_not_overdue(mirrored: Mirrored) -> None:
    mirrored.fakes.target.faults.plant(PRODUCE, Throttle(4_000), times=None)
    for _ in range(10):
        mirrored.run(3)
        assert "unanswered" not in str(mirrored.diagnosed().evidence)


@pytest.fixture
def distant() -> Iterator[Mirrored]:
    """A destination at a round trip of 100 ms, each of whose connections carries 40 KB a second."""
    fakes = MirroredFakes(1, options={"write_connections": 3, "read_connections": 0})
    fakes.network.round_trip, fakes.network.window_bytes = 0.1, 4_000
    fakes.network.later, fakes.target.pace = fakes.target.later, lambda: (0.05, 0.05)
    yield Mirrored(fakes)
    fakes.close()


def test_a_window_that_carries_less_than_is_written_is_the_cause(distant: Mirrored) -> None:
    distant.run(5)
    distant.run(10, size=20_000)
    found = distant.diagnosed()
    assert (found.cause, found.placement_can_help) == (Cause.NETWORK, False), found
    figures = ("limited_at", "window_bytes", "round_trip_ms", "connections", "allowed_connections")
    at, *numbers = (found.evidence[name] for name in figures)
    assert ("destination" in str(at), numbers) == (True, [4_000, 100.0, 3, 3])
    assert "socket.receive.buffer.bytes" in found.sentence
    assert "write_connections" in found.sentence


@pytest.mark.parametrize("size", [200, 2_000], ids=["few records", "half of what a connection carries"])
def test_a_slow_broker_far_away_is_the_cause_and_not_the_network(distant: Mirrored, size: int) -> None:
    distant.fakes.target.faults.plant(PRODUCE, Delay(0.8), times=None)
    distant.run(30, size=size)
    found = distant.diagnosed()
    assert found.cause is Cause.DESTINATION_BOUND, found


def test_a_broker_far_away_that_throttles_is_the_cause_and_not_the_network(distant: Mirrored) -> None:
    distant.fakes.target.faults.plant(PRODUCE, Throttle(2_000), times=None)
    distant.run(20, size=20_000)
    found = distant.diagnosed()
    assert found.cause is Cause.BROKER_QUOTA, found


def test_a_broker_far_away_that_freezes_is_the_cause_and_not_the_network(distant: Mirrored) -> None:
    distant.run(10, size=20_000)
    distant.fakes.target.faults.plant(PRODUCE, Delay(3_600), times=None)
    distant.run(25, size=20_000)
    found = distant.diagnosed()
    assert found.cause is Cause.DESTINATION_AWAY, found


def test_brokers_that_throttle_are_the_cause_and_named(mirrored: Mirrored) -> None:
    mirrored.fakes.target.faults.plant(PRODUCE, Throttle(2_000), times=None)
    mirrored.run(30)
    found = mirrored.diagnosed()
    assert found.cause is Cause.BROKER_QUOTA, found
    assert found.evidence["broker"] == mirrored.fakes.target.partition("t", 0).leader


def test_the_quota_of_a_datastream_is_the_cause(fakes: MirroredFakes) -> None:
    mirrored = Mirrored(fakes, CopyPolicy(bytes_per_second=20_000))
    mirrored.run(40, size=20_000)
    found = mirrored.diagnosed()
    assert found.cause is Cause.OUR_QUOTA, found
    assert found.evidence["quota"] == QuotaOwner.DATASTREAM


def test_what_an_outage_has_left_is_a_backlog(mirrored: Mirrored) -> None:
    mirrored.run(5)
    mirrored.fakes.source.faults.plant(FETCH, Delay(3_600), times=None)
    mirrored.run(60)
    away = mirrored.diagnosed()
    assert away.cause is Cause.SOURCE_AWAY, away
    mirrored.fakes.source.faults.clear()
    mirrored.fakes.engine.share_quotas({mirrored.fakes.lane("t").key.group: 4_000.0})
    mirrored.run(45, size=20)
    found = mirrored.diagnosed()
    assert found.cause is Cause.BACKLOG, found


@pytest.mark.parametrize(
    ("exempt_since_seconds", "cause"),
    [(None, Cause.INITIAL_COPY), (40.0, Cause.AFTER_PAUSE)],
)
def test_what_a_person_has_left_is_called_so_and_not_the_source(
    fakes: MirroredFakes, exempt_since_seconds: float | None, cause: Cause
) -> None:
    def prepare() -> LatencyExemption:
        for _ in range(40):
            fakes.source.write("t", [(fakes.clock.now_ms(), b"k", os.urandom(20_000), [])], 0)
            fakes.clock.advance(1.0)
        now = fakes.clock.now_ms()
        if exempt_since_seconds is None:
            return LatencyExemption(now, grace_from_ms=now)
        return LatencyExemption(0, now - int(exempt_since_seconds * 1000), now, now)

    fakes.target.faults.plant(PRODUCE, Delay(1.5), times=None)
    mirrored = Mirrored(fakes, prepare=prepare)
    found = []
    for _ in range(4):
        mirrored.run(3)
        found.append(mirrored.diagnosed().cause)
    assert found[:2] == [cause] * 2
    assert Cause.SOURCE_BOUND not in found, "the destination is slow"
