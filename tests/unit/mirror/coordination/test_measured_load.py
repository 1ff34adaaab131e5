"""Test the load provider `self`: rates measured by instances and shared through ZooKeeper."""

from __future__ import annotations

import pytest

from mirror.coordination.stores import node_codec
from mirror.coordination.stores.measured_load import (
    STALE_AFTER_MS,
    InstanceMeasurements,
    LateRecords,
    MeasuredLoads,
)
from mirror.errors import LoadUnavailable
from mirror.model.identifiers import InstanceName
from mirror.model.load import LoadLevel, PartitionLoad, RateSource
from mirror.model.topics import TopicPartition
from tests.builders import DESTINATION, SOURCE
from tests.fakes.clock import ManualClock
from tests.fakes.node_store import FakeZooKeeper

ONE, TWO = InstanceName("one"), InstanceName("host:7/two")
T0, T1, T2 = (TopicPartition("with-dash", number) for number in range(3))


def load(bytes_rate: float, message_rate: float, measured_ms: int) -> PartitionLoad:
    return PartitionLoad(bytes_rate, message_rate, LoadLevel.PARTITION, RateSource.MIRROR, measured_ms)


def test_everybody_sees_what_every_instance_measured() -> None:
    server = FakeZooKeeper()
    MeasuredLoads(server.session()).publish(ONE, InstanceMeasurements({SOURCE: {T0: (100.0, 1.5)}}), 10)
    MeasuredLoads(server.session()).publish(
        TWO, InstanceMeasurements({SOURCE: {T1: (200.0, 2.0)}, DESTINATION: {T2: (9, 9)}}), 20
    )
    report = MeasuredLoads(server.session()).loads(SOURCE, [T0, T1, T2])
    assert report.loads == {T0: load(100, 1.5, 10), T1: load(200, 2, 20)}
    assert [report.loads[key].age_ms(25) for key in (T0, T1)] == [15, 5]
    assert report.measured_at_ms == 20
    assert report.measured == 2


def test_the_newest_measurement_of_a_partition_counts() -> None:
    loads = MeasuredLoads(FakeZooKeeper().session())
    loads.publish(ONE, InstanceMeasurements({SOURCE: {T0: (100.0, 1.0)}}), 30)
    loads.publish(TWO, InstanceMeasurements({SOURCE: {T0: (7.0, 1.0)}}), 20)
    assert loads.loads(SOURCE, [T0]).loads == {T0: load(100, 1, 30)}


def test_publishing_again_replaces_what_was_said() -> None:
    server = FakeZooKeeper()
    loads = MeasuredLoads(server.session())
    loads.publish(ONE, InstanceMeasurements({SOURCE: {T0: (100.0, 1.0), T1: (1.0, 1.0)}}), 10)
    loads.publish(ONE, InstanceMeasurements({SOURCE: {T1: (5.0, 1.0)}}), 20)
    assert loads.loads(SOURCE, [T0, T1]).loads == {T1: load(5, 1, 20)}


def test_what_is_withdrawn_is_gone() -> None:
    server = FakeZooKeeper()
    loads = MeasuredLoads(server.session())
    loads.publish(ONE, InstanceMeasurements({SOURCE: {T0: (1.0, 1.0)}}), 10)
    loads.withdraw(ONE)
    loads.withdraw(ONE)
    with pytest.raises(LoadUnavailable):
        loads.loads(SOURCE, [T0])
    assert not [path for path in server.dump() if path.startswith("/loads/")]


def test_nothing_measured_is_no_zero_load() -> None:
    with pytest.raises(LoadUnavailable):
        MeasuredLoads(FakeZooKeeper().session()).loads(SOURCE, [T0])


def test_only_the_partitions_that_were_asked_for_are_answered() -> None:
    loads = MeasuredLoads(FakeZooKeeper().session())
    loads.publish(ONE, InstanceMeasurements({SOURCE: {T0: (1.0, 1.0), T1: (1.0, 1.0)}}), 10)
    assert set(loads.loads(SOURCE, [T1]).loads) == {T1}


def test_an_instance_that_withdraws_while_all_are_read_is_left_out() -> None:
    server = FakeZooKeeper()
    writer, reader = MeasuredLoads(server.session()), server.session()
    writer.publish(ONE, InstanceMeasurements({SOURCE: {T0: (1.0, 1.0)}}), 10)
    writer.publish(TWO, InstanceMeasurements({SOURCE: {T1: (1.0, 1.0)}}), 10)
    for number in (1, 2):
        other = MeasuredLoads(server.session())
        reader.script = lambda one, n=number, o=other: (  # type: ignore[misc]
            o.withdraw(ONE) if one.number % 10 == n else None
        )
        assert T1 in MeasuredLoads(reader).loads(SOURCE, [T0, T1]).loads


def test_what_somebody_put_beside_our_rates_is_removed() -> None:
    session = FakeZooKeeper().session()
    session.create("/loads/one/!/below", b"x")
    session.create("/loads/one/0007", b"x")
    loads = MeasuredLoads(session)
    loads.publish(
        InstanceName("one"), InstanceMeasurements({SOURCE: {TopicPartition("t", 0): (5.0, 1.0)}}), 7
    )
    assert session.children("/loads/one") == ("0000",)
    assert loads.loads(SOURCE, [TopicPartition("t", 0)]).measured == 1


def test_freshness_is_that_of_the_newest_and_counts_those_behind() -> None:
    server = FakeZooKeeper()
    loads = MeasuredLoads(server.session())
    assert loads.freshness(SOURCE).measured_at_ms is None
    loads.publish(
        ONE, InstanceMeasurements({SOURCE: {T0: (1.0, 1.0), T1: (1.0, 1.0)}}, {SOURCE: {T1}}), 100_000
    )
    loads.publish(TWO, InstanceMeasurements({SOURCE: {T2: (1.0, 1.0)}, DESTINATION: {}}), 90_000)
    found = loads.freshness(SOURCE)
    assert (found.measured_at_ms, found.measured, found.behind) == (100_000, 3, 1)
    assert loads.loads(SOURCE, [T0, T1, T2]).at_least == {T1}
    loads.publish(ONE, InstanceMeasurements({SOURCE: {T0: (1.0, 1.0)}}), 100_000 + STALE_AFTER_MS)
    assert loads.freshness(SOURCE).measured == 1


def test_an_instance_without_lanes_measures_nothing_and_its_last_rates_stay() -> None:
    loads = MeasuredLoads(FakeZooKeeper().session())
    loads.publish(ONE, InstanceMeasurements({SOURCE: {T0: (7.0, 1.0)}}), 10)
    loads.publish(ONE, InstanceMeasurements({}), 20)
    assert loads.freshness(SOURCE).measured_at_ms is None
    assert loads.loads(SOURCE, [T0]).loads == {T0: load(7, 1, 10)}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"measured_ms": "x", "clusters": {"source": [1, 0]}}',
        b'{"clusters": {"source": 7}}',
    ],
)
def test_a_summary_that_cannot_be_read_is_left_out(data: bytes) -> None:
    session = FakeZooKeeper().session()
    session.create("/loads/one", data)
    assert MeasuredLoads(session).freshness(SOURCE).measured_at_ms is None


def test_what_is_late_is_what_was_measured_last() -> None:
    loads = MeasuredLoads(FakeZooKeeper().session())
    both = {SOURCE: {T0: (1.0, 1.0), T1: (1.0, 1.0)}}
    late = {SOURCE: {T0: LateRecords(70.0, 7.0), T1: LateRecords(90.0, 9.0, 600)}}
    loads.publish(ONE, InstanceMeasurements(both, {}, late), 10)
    assert loads.waiting(SOURCE) == late[SOURCE]
    assert loads.waiting(DESTINATION) == {}
    loads.publish(TWO, InstanceMeasurements({SOURCE: {T0: (1.0, 1.0)}}), 20)
    assert loads.waiting(SOURCE) == {T1: LateRecords(90.0, 9.0, 600)}


@pytest.mark.parametrize("rates", [[1e13, 1], [1, 1e13], [-1, 1], [1], ["1", 1], 7])
def test_a_rate_that_no_planner_takes_is_left_out_with_all_that_instance_said(rates: object) -> None:
    session = FakeZooKeeper().session()
    document = {"measured_ms": 10, "rates": {SOURCE: {str(T0): rates}}}
    session.create("/loads/one/0000", node_codec.encode_chunks(document)[0])
    loads = MeasuredLoads(session)
    loads.publish(TWO, InstanceMeasurements({SOURCE: {T1: (1.0, 1.0)}}), 20)
    report = loads.loads(SOURCE, [T0, T1])
    assert report.loads.keys() == {T1}
    assert "measurements of one:" in report.notes[0]


@pytest.mark.parametrize("value", [[1, 2], [-1, 0, None], ["1", 0, None], [1, 0, 5], [1e300, 0, None], 7])
def test_a_backlog_that_cannot_be_is_left_out_with_all_that_instance_said(value: object) -> None:
    session = FakeZooKeeper().session()
    rates = {SOURCE: {str(T0): [1, 1]}}
    document = {"measured_ms": 10, "rates": rates, "waiting": {SOURCE: {str(T0): value}}}
    session.create("/loads/one/0000", node_codec.encode_chunks(document)[0])
    assert MeasuredLoads(session).waiting(SOURCE) == {}
    with pytest.raises(LoadUnavailable):
        MeasuredLoads(session).loads(SOURCE, [T0])


@pytest.mark.parametrize("ahead_ms", [-300_000, 300_000])
def test_the_age_of_a_measurement_does_not_depend_on_the_clock_of_its_instance(ahead_ms: int) -> None:
    server, clock = FakeZooKeeper(), ManualClock()
    writer, reader = MeasuredLoads(server.session()), MeasuredLoads(server.session(), clock.now_ms)

    def publish(rate: float) -> None:
        rates = {SOURCE: {T0: (rate, 1.0)}}
        writer.publish(ONE, InstanceMeasurements(rates), clock.now_ms() + ahead_ms)

    def measured() -> set[int | None]:
        found = reader.loads(SOURCE, [T0])
        return {reader.freshness(SOURCE).measured_at_ms, found.loads[T0].measured_at_ms, found.measured_at_ms}

    publish(1.0)
    measured()
    clock.advance(5)
    publish(2.0)
    published_ms = clock.now_ms()
    for _ in range(3):
        (measured_ms,) = measured()
        assert measured_ms is not None
        assert abs(measured_ms - published_ms) <= 5_000, "it read the publication before 5 s earlier"
        clock.advance(60)


def test_the_clock_of_a_former_owner_does_not_make_its_measurement_the_newest() -> None:
    server, clock = FakeZooKeeper(), ManualClock()
    writer, reader = MeasuredLoads(server.session()), MeasuredLoads(server.session(), clock.now_ms)
    writer.publish(ONE, InstanceMeasurements({SOURCE: {T0: (100.0, 1.0)}}), clock.now_ms() + 300_000)
    reader.loads(SOURCE, [T0])
    clock.advance(5)
    writer.publish(TWO, InstanceMeasurements({SOURCE: {T0: (7.0, 1.0)}}), clock.now_ms())
    assert reader.loads(SOURCE, [T0]).loads == {T0: load(7, 1, clock.now_ms())}


def test_a_measurement_keeps_its_time_if_the_clocks_agree() -> None:
    server, clock = FakeZooKeeper(), ManualClock()
    writer, reader = MeasuredLoads(server.session()), MeasuredLoads(server.session(), clock.now_ms)
    for _ in range(3):
        at_ms = clock.now_ms()
        writer.publish(ONE, InstanceMeasurements({SOURCE: {T0: (100.0, 1.0)}}), at_ms)
        clock.advance(3)
        assert reader.freshness(SOURCE).measured_at_ms == at_ms
        assert reader.loads(SOURCE, [T0]).measured_at_ms == at_ms
        clock.advance(3)
