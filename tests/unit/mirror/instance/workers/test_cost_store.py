"""Test the costs in ZooKeeper: one entry per instance, read together, without damaged ones."""

from __future__ import annotations

from dataclasses import astuple, replace
from typing import Any

import pytest

from mirror.coordination.stores import node_codec, znodes
from mirror.instance.workers.costs import CostStore
from mirror.model.capacity.costs import HOUR_MS, KEPT_HOURS, CostSums
from mirror.model.identifiers import GroupName, InstanceName
from tests.fakes.node_store import FakeZooKeeper

ONE, TWO = InstanceName("host/1:80"), InstanceName("two")
ORDERS = GroupName("orders/é")
SUMS = CostSums.of(5.0, 0.5, 1e6, 1000.0, 10.0, 9.0, 0.2)


def test_what_instances_say_is_read_together() -> None:
    server = FakeZooKeeper()
    writer, reader = CostStore(server.session()), CostStore(server.session())
    writer.put(ONE, {ORDERS: {7: SUMS}})
    writer.put(TWO, {ORDERS: {7: SUMS, 8: SUMS}})
    assert writer.of(ONE) == {ORDERS: {7: SUMS}}
    assert reader.all() == {ORDERS: {7: SUMS.plus(SUMS), 8: SUMS}}
    assert reader.of(InstanceName("three")) == {}


def test_what_nobody_adds_to_is_removed_after_a_day() -> None:
    store = CostStore(FakeZooKeeper().session())
    store.put(ONE, {ORDERS: {7: SUMS}})
    store.put(TWO, {ORDERS: {8: SUMS}})
    store.forget_old((7 + KEPT_HOURS) * HOUR_MS)
    assert store.of(ONE) == {}
    assert store.of(TWO) == {ORDERS: {8: SUMS}}


def test_what_a_wrong_clock_put_into_the_future_is_removed() -> None:
    store = CostStore(FakeZooKeeper().session())
    store.put(ONE, {ORDERS: {9: SUMS, 5_000: SUMS}})
    store.put(TWO, {ORDERS: {9_000: SUMS}})
    store.forget_old(8 * HOUR_MS)
    assert store.of(ONE).keys() == {ORDERS}
    assert store.of(TWO) == {}


def _row(**changed: Any) -> list[Any]:
    names = list(CostSums.__dataclass_fields__)
    values = dict(zip(names, astuple(SUMS), strict=True)) | changed
    return [values[name] for name in names]


@pytest.mark.parametrize(
    "groups",
    [
        [],
        {"g": []},
        {"g": {"seven": _row()}},
        {"g": {"-1": _row()}},
        {"g": {"7": _row()[:-2]}},
        {"g": {"7": _row(spare_cpu_seconds=0.51)}},
        {"g": {"7": _row(spare_cpu_seconds=-0.1)}},
        {"g": {"7": _row(spare_cpu_seconds="none")}},
        {"g": {"7": [*_row(), 1]}},
        {"g": {"7": _row(observations=0)}},
        {"g": {"7": _row(observations=1.5)}},
        {"g": {"7": _row(bytes=-1)}},
        {"g": {"7": _row(cpu_seconds="much")}},
        {"g": {"7": _row(cpu_seconds=1e300)}},
        {"g": {"7": _row(cpu_seconds=1e-300)}},
        {"g": {"7": _row(bytes=1e30)}},
        {"g": {"7": _row(records=1e30)}},
        {"g": {"7": _row(fastest=1e20)}},
        {"g": {"7": _row(cpu_squared=1e18)}},
        {"g": {"7": _row(bytes_squared=1e30)}},
        {"g": {"7": _row(cpu_bytes=1e30)}},
        {"g": {str(hour): _row() for hour in range(3 * KEPT_HOURS)}},
    ],
)
def test_what_is_damaged_is_left_out(groups: Any) -> None:
    session = FakeZooKeeper().session()
    store = CostStore(session)
    (data, *_) = node_codec.encode_chunks({"format": 1, "groups": groups})
    session.create_all([(znodes.child(znodes.COSTS, ONE), data)])
    store.put(TWO, {ORDERS: {7: SUMS}})
    assert store.all() == {ORDERS: {7: SUMS}}
    assert store.of(ONE) == {}


def test_what_a_former_version_wrote_has_nothing_to_spare() -> None:
    session = FakeZooKeeper().session()
    (data, *_) = node_codec.encode_chunks({"format": 1, "groups": {ORDERS: {"7": _row()[:-1]}}})
    session.create_all([(znodes.child(znodes.COSTS, ONE), data)])
    assert CostStore(session).of(ONE) == {ORDERS: {7: replace(SUMS, spare_cpu_seconds=0.0)}}


def test_another_format_and_noise_are_left_out() -> None:
    session = FakeZooKeeper().session()
    (newer, *_) = node_codec.encode_chunks({"format": 2})
    session.create_all([(znodes.child(znodes.COSTS, ONE), newer), (znodes.child(znodes.COSTS, TWO), b"\x00")])
    assert CostStore(session).all() == {}
