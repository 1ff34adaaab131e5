"""Any contents of a znode of costs are either ignored, or result in a capacity that a planner can use."""

from __future__ import annotations

import math
from dataclasses import fields

from hypothesis import given
from hypothesis import strategies as st

from mirror.coordination.stores import node_codec, znodes
from mirror.instance.workers.costs import CostStore
from mirror.model.capacity.capacity import CapacityTerms, capacity_in_use
from mirror.model.capacity.costs import CostSums, learned
from mirror.model.identifiers import GroupName, InstanceName
from tests.fakes.node_store import FakeZooKeeper

ORDERS, ONE, TWO = GroupName("orders"), InstanceName("one"), InstanceName("two")
TERMS = CapacityTerms(None, 10_485_760)
OBSERVED = CostSums.of(5.0, 0.5, 1e6, 1000.0, 10.0, 9.0)
_COUNT = len(fields(CostSums)) - 1

numbers = st.sampled_from([0, 1e-300, 1e-160, 1e-5, 1, 60, 1e9])
rows = st.builds(
    lambda observations, rest: [observations, *rest],
    st.sampled_from([12, 10**9]),
    st.lists(numbers, min_size=_COUNT, max_size=_COUNT),
)


@given(st.lists(st.fixed_dictionaries({"7": rows}), min_size=1, max_size=2))
def test_what_is_read_gives_a_capacity_that_can_be_planned_with(said: list[dict[str, list[float]]]) -> None:
    session = FakeZooKeeper().session()
    for instance, hours in zip((ONE, TWO), said, strict=False):
        (data, *_) = node_codec.encode_chunks({"format": 1, "groups": {ORDERS: hours}})
        session.create_all([(znodes.child(znodes.COSTS, instance), data)])
    found = learned(CostStore(session).all().get(ORDERS, {}), 7)
    used = capacity_in_use(TERMS, found, None)
    assert used.capacity.usable_bytes_per_second > 0
    assert found is None or all(
        math.isfinite(getattr(found, one.name)) and getattr(found, one.name) >= 0 for one in fields(found)
    )


@given(st.floats(0.1, 1e4), st.floats(1e-5, 1e4), st.floats(1, 1e9), st.integers(1, 400), st.floats(0, 1))
def test_what_instances_write_can_be_read(
    seconds: float, cpu: float, copied: float, count: int, spare: float
) -> None:
    sums = one = CostSums.of(seconds, cpu, copied, copied / 1000, 10.0, 9.0, spare * cpu)
    for _ in range(count):
        sums = sums.plus(one).plus(OBSERVED)
    store = CostStore(FakeZooKeeper().session())
    store.put(ONE, {ORDERS: {7: sums}})
    assert store.of(ONE)[ORDERS][7].observations == sums.observations
