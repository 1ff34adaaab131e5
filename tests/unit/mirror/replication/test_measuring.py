"""Test the figures that a lane reports: latency, lag, and overdue responses."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.lane.byte_budget import ByteBudget
from mirror.lane.lane import Lane
from mirror.lane.out_batch import OutBatch
from mirror.model.datastreams.lanes import WindowLimit
from mirror.model.rows import UNKNOWN, row_of
from mirror.protocol.batches.batch import ProducerStamp
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.records import Record
from mirror.protocol.fetch import FetchedPartition
from mirror.replication.lanes.delivery import LaneDelivery, UnsavedProgress
from mirror.replication.lanes.producer_identities import ProducerIdentities
from mirror.replication.lanes.source_ends import SourceEnds
from mirror.replication.reports.measurements import (
    MeasurementInterval,
    has_response,
    lag_ms,
    lag_records,
    take_metric,
    unanswered,
)
from tests.builders import a_spec
from tests.fakes.writer import FakeWriter

NOW_MS = 1_000_000
WHEN = MeasurementInterval(NOW_MS, 5_000, "one", 0.0)
DELIVERY = LaneDelivery(UnsavedProgress("test"))


class Reading:
    """A `channels.Reader` in a fixed state."""

    def __init__(self, *, current: bool = True, asked: float = inf) -> None:
        self.current = current
        self.asked = asked

    def include(self, lane: Lane) -> None:
        raise AssertionError

    exclude = detach = include

    def is_silent(self, now: float) -> bool:
        raise AssertionError

    def is_current(self, now: float) -> bool:
        return self.current

    def unanswered_since(self) -> float:
        return self.asked

    def window_limit(self) -> WindowLimit | None:
        raise AssertionError


def a_lane(high_watermark: int = 10) -> Lane:
    """Return a lane whose source would announce new records."""
    lane = Lane(a_spec(), 1_000, ())
    DELIVERY.unsaved.begin(lane, 0)
    lane.read.high_watermark = lane.read.stable_offset = high_watermark
    lane.reader, lane.writer = Reading(), FakeWriter()
    return lane


def note_end(lane: Lane, end: int, stable_offset: int, now_ms: int) -> None:
    """Receive an empty response with these ends."""
    part = FetchedPartition(b"t", 0, 0, end, stable_offset, 0, (), None, None, -1, memoryview(b""))
    SourceEnds(DELIVERY).note_response(lane, part, now_ms / 1000, now_ms)


def deliver(lane: Lane, count: int, began: float, fetched: float, sent: float, done: float) -> None:
    """Acknowledge one batch of records that are 100 ms old at that time."""
    records = [Record(offset, NOW_MS - 100, None, b"x") for offset in range(count)]
    outgoing = OutBatch(memoryview(write_batch(records)), ((0, count),), count, 0, count)
    outgoing.max_timestamp = NOW_MS - 100
    outgoing.received = began, fetched
    outgoing.charge(ByteBudget(10_000))
    lane.queue.unsent.append(outgoing)
    ProducerIdentities(DELIVERY).begin(lane, ProducerStamp(1, 0), 0)
    assert DELIVERY.next_batch(lane) is outgoing
    outgoing.sent_at = sent
    lane.read.position = count
    DELIVERY.acknowledge(lane, outgoing, 0, NOW_MS, done)
    DELIVERY.settle(lane)


def test_the_latency_is_split_by_where_it_was_spent() -> None:
    lane = a_lane()
    deliver(lane, 10, began=1.0, fetched=1.010, sent=1.030, done=1.060)
    metric = take_metric(lane, WHEN, DELIVERY.take_counters)
    assert metric is not None
    assert (metric.records_copied, metric.batches, metric.passthrough_batches) == (10, 1, 1)
    assert (metric.lag_records, metric.lag_ms, metric.uncompressed_bytes) == (0, 0, 10 * 8)
    spent = (metric.wait_ms, metric.fetch_ms, metric.queue_ms, metric.produce_ms)
    assert spent == pytest.approx((40, 10, 20, 30))
    assert sum(metric.latency_counts) == 10
    assert metric.latency_counts[7] == 10


def test_an_idle_lane_says_so_once() -> None:
    lane = a_lane(high_watermark=0)
    first = take_metric(lane, WHEN, DELIVERY.take_counters)
    assert first is not None
    assert (first.records_copied, first.lag_records) == (0, 0)
    assert take_metric(lane, WHEN, DELIVERY.take_counters) is None
    lane.read.high_watermark = 3
    behind = take_metric(lane, WHEN, DELIVERY.take_counters)
    assert behind is not None
    assert behind.lag_records == 3
    lane.progress.ledger.next = 3
    again = take_metric(lane, WHEN, DELIVERY.take_counters)
    assert again is not None
    assert again.lag_records == 0
    assert take_metric(lane, WHEN, DELIVERY.take_counters) is None


def test_before_the_source_has_answered_nothing_is_said() -> None:
    assert take_metric(a_lane(high_watermark=-1), WHEN, DELIVERY.take_counters) is None


def hold(lane: Lane, first: int, timestamp: int) -> None:
    """Queue a batch of one record."""
    outgoing = OutBatch(
        memoryview(write_batch([Record(first, timestamp, None, b"x")])), (), 1, first, first + 1
    )
    outgoing.first_timestamp = outgoing.max_timestamp = timestamp
    outgoing.charge(ByteBudget(10_000))
    lane.queue.unsent.append(outgoing)
    lane.queue.bytes_in_hand += len(outgoing.batch)
    lane.read.position = first + 1


def aged(lane: Lane, now_ms: int = NOW_MS) -> int | None:
    return lag_ms(lane, now_ms, has_response=has_response(lane, 0.0))


def test_a_lane_that_has_delivered_nothing_is_as_late_as_what_it_holds() -> None:
    lane = a_lane()
    hold(lane, 0, NOW_MS - 480_000)
    assert aged(lane) == 480_000
    DELIVERY.drop(lane)
    lane.reader = None
    assert aged(lane, NOW_MS + 5) == 480_005, "paused at its first record"


def test_the_age_of_what_was_never_seen_is_not_known() -> None:
    lane = a_lane()
    assert aged(lane) is None
    metric = take_metric(lane, WHEN, DELIVERY.take_counters)
    assert metric is not None
    assert metric.lag_ms is None
    assert row_of(metric)["lag_ms"] == UNKNOWN


def test_nothing_behind_an_open_transaction_has_an_age() -> None:
    lane = a_lane()
    lane.read.rules = replace(lane.read.rules, read_committed=True)
    deliver(lane, 4, 0.0, 0.0, 0.0, 0.0)
    note_end(lane, 10, 4, NOW_MS)
    assert aged(lane, NOW_MS + 7_200_000) == 0
    assert lag_records(lane) == 6
    note_end(lane, 10, 10, NOW_MS + 7_200_000)
    assert aged(lane, NOW_MS + 7_200_003) == 3, "it was not readable before"


def test_a_record_in_a_sparse_topic_is_not_as_old_as_the_one_before() -> None:
    lane = a_lane()
    deliver(lane, 10, 0.0, 0.0, 0.0, 0.0)
    note_end(lane, 10, 10, NOW_MS)
    note_end(lane, 11, 11, NOW_MS + 3_600_000)
    assert aged(lane, NOW_MS + 3_600_020) == 20


@pytest.mark.parametrize("what", ["not current", "detached", "unwritable", "held back"])
def test_a_lag_of_nothing_is_said_only_while_the_source_would_say_more(what: str) -> None:
    lane = a_lane()
    deliver(lane, 10, 0.0, 0.0, 0.0, 0.0)
    assert aged(lane) == 0
    assert take_metric(lane, WHEN, DELIVERY.take_counters) is not None
    assert take_metric(lane, WHEN, DELIVERY.take_counters) is not None
    assert take_metric(lane, WHEN, DELIVERY.take_counters) is None
    if what == "not current":
        lane.reader = Reading(current=False)
    elif what == "detached":
        lane.reader = None
    elif what == "held back":
        lane.read.waits = True
    else:
        lane.writer = None
    told = take_metric(lane, WHEN, DELIVERY.take_counters)
    assert told is not None
    assert told.lag_ms is None
    assert take_metric(lane, WHEN, DELIVERY.take_counters) is None, "once"


TIMES = st.integers(0, NOW_MS)


@pytest.mark.parametrize(("timestamp", "age"), [(NOW_MS + 500, 0), (NOW_MS + 60_000, None), (-1, None)])
def test_a_time_that_is_still_to_come_or_none_is_no_age(timestamp: int, age: int | None) -> None:
    lane = a_lane()
    hold(lane, 0, timestamp)
    assert lag_ms(lane, NOW_MS, has_response=True) == age
    lane = a_lane()
    lane.read.waiting = 0, timestamp
    assert lag_ms(lane, NOW_MS, has_response=True) == age
    lane = a_lane()
    lane.observed.delivered_ms = timestamp
    assert lag_ms(lane, NOW_MS, has_response=True) == age


@given(
    high=st.integers(-1, 20),
    stable=st.integers(0, 20),
    committed=st.booleans(),
    position=st.integers(0, 20),
    heard=st.booleans(),
    held=st.none() | TIMES,
    known=st.tuples(st.integers(-1, 20), TIMES),
    delivered=st.just(-1) | TIMES,
    caught_up=st.just(-1) | TIMES,
)
def test_zero_is_never_said_of_what_is_not_known(
    high: int,
    stable: int,
    committed: bool,
    position: int,
    heard: bool,
    held: int | None,
    known: tuple[int, int],
    delivered: int,
    caught_up: int,
) -> None:
    lane = a_lane(high)
    lane.read.rules = replace(lane.read.rules, read_committed=committed)
    lane.read.stable_offset, lane.read.position = min(stable, high), position
    lane.read.waiting, lane.observed.delivered_ms, lane.read.caught_up_ms = known, delivered, caught_up
    if held is not None:
        hold(lane, position, held)
    age = lag_ms(lane, NOW_MS + 1, has_response=heard)
    is_behind = held is not None or position < lane.read.readable_end
    if high < 0:
        assert age is None
    elif held is not None:
        assert age == NOW_MS + 1 - held
    elif not is_behind:
        assert age == (0 if heard else None)
    else:
        evidence = [known[1]] if known[0] >= position else [one for one in (delivered, caught_up) if one >= 0]
        assert age == (NOW_MS + 1 - max(evidence) if evidence else None)


def send(lane: Lane, offset: int, sent_at: float) -> OutBatch:
    """Send a batch of one record and return it."""
    batch = write_batch([Record(0, NOW_MS, None, b"x")])
    outgoing = OutBatch(memoryview(batch), ((offset, 1),), 1, offset, offset + 1)
    lane.queue.unsent.append(outgoing)
    if lane.ownership.identity is None:
        ProducerIdentities(DELIVERY).begin(lane, ProducerStamp(1, 0), 0)
    lane.ownership.accepted = lane.ownership.identity
    assert DELIVERY.next_batch(lane) is outgoing
    outgoing.sent_at = sent_at
    return outgoing


@pytest.mark.parametrize(
    ("asked", "sent", "seconds"),
    [
        (10.0, (10.0, 12.0), 4.0),
        (11.0, (10.0, 12.0), 3.0),  # a quota has delayed the earlier batch
        (2.0, (12.0,), 2.0),  # other lanes have waited longer
        (10.0, (13.5,), None),
        (10.0, (), None),
        (inf, (10.0,), None),  # the connection is closed
    ],
)
def test_what_has_no_answer_from_the_destination(
    asked: float, sent: tuple[float, ...], seconds: float | None
) -> None:
    lane = a_lane()
    lane.writer = FakeWriter(asked)
    for offset, moment in enumerate(sent):
        send(lane, offset, moment)
    assert unanswered(lane, 14.0) == (None, seconds)


def test_an_answered_batch_waits_for_nothing() -> None:
    lane = a_lane()
    lane.writer = FakeWriter(10.0)
    first = send(lane, 0, 10.0)
    send(lane, 1, 12.5)
    first.charge(ByteBudget(10_000))
    DELIVERY.acknowledge(lane, first, 0, NOW_MS, 13.0)
    DELIVERY.settle(lane)
    assert unanswered(lane, 14.0).produce_seconds == 1.5


@pytest.mark.parametrize(
    ("begun", "silent", "seconds"),
    [
        (10.0, 10.5, 3.5),
        (10.0, 2.0, 4.0),  # other requests have waited longer
        (10.0, 13.5, None),  # the cluster responded until then
        (10.0, inf, None),
        (13.5, 2.0, None),
        (inf, 2.0, None),  # it has its identity
    ],
)
def test_what_has_no_answer_before_the_first_batch(
    begun: float, silent: float, seconds: float | None
) -> None:
    lane = a_lane()
    lane.ownership.claimed_at = begun
    quiet = WHEN._replace(now=14.0, response_due=inf)
    found = []
    for name in (lane.spec.destination, lane.spec.source):
        interval = quiet._replace(silent={name: silent} if silent < inf else {})
        assert take_metric(lane, interval, DELIVERY.take_counters) is not None
        found.append(lane.observed.overdue)
    assert found == [(None, seconds), (None, None)]


@pytest.mark.parametrize(
    ("reader", "waits", "seconds"),
    [
        (Reading(asked=10.0), False, 4.0),
        (Reading(asked=13.5), False, None),
        (Reading(asked=14.5), False, None),  # the broker may still wait for records
        (Reading(asked=10.0), True, None),
        (None, False, None),
    ],
)
def test_what_has_no_answer_from_the_source(
    reader: Reading | None, waits: bool, seconds: float | None
) -> None:
    lane = a_lane()
    lane.reader, lane.read.waits = reader, waits
    assert unanswered(lane, 14.0) == (seconds, None)


def test_an_idle_lane_says_once_that_its_source_does_not_answer_and_once_that_it_does() -> None:
    lane = a_lane(0)
    reader = Reading()
    lane.reader = reader
    assert take_metric(lane, WHEN, DELIVERY.take_counters) is not None
    said = []
    for now, asked in ((1.0, inf), (6.0, 4.0), (11.0, 4.0), (16.0, inf), (21.0, inf)):
        reader.asked = asked
        found = take_metric(lane, WHEN._replace(now=now), DELIVERY.take_counters)
        said.append(lane.observed.overdue.fetch_seconds if found is not None else "nothing")
    assert said == ["nothing", 2.0, "nothing", None, "nothing"]


def test_no_lane_is_looked_at_while_every_broker_answers() -> None:
    lane = a_lane()
    lane.reader = Reading(asked=WHEN.now - 4)
    found = []
    for asked in (WHEN.now - 0.5, WHEN.now - 4):
        assert take_metric(lane, WHEN._replace(response_due=asked), DELIVERY.take_counters) is not None
        found.append(lane.observed.overdue)
    assert found == [(None, None), (4.0, None)]
