"""Test receive buffers: a response needs memory for itself and for the batches built from it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mirror.lane.byte_budget import ByteBudget
from mirror.lane.memory import BufferPool, BufferStock, ReceiveBuffer

_SIZE = 1 << 20


@pytest.fixture
def budget() -> ByteBudget:
    """Return a budget for three responses."""
    return ByteBudget(3 * _SIZE)


@pytest.fixture
def pool(budget: ByteBudget) -> BufferPool:
    return BufferPool(_SIZE, budget)


def _slab(pool: BufferPool, size: int = _SIZE) -> ReceiveBuffer:
    slab = pool.slab(size)
    assert slab is not None
    return slab


def test_buffers_are_to_be_had_until_the_budget_is_used_up(pool: BufferPool) -> None:
    held = [_slab(pool) for _ in range(3)]
    assert pool.slab(_SIZE) is None
    held[0].release()
    assert pool.slab(_SIZE) is not None


def test_who_waits_is_told_when_there_is_room_again(pool: BufferPool) -> None:
    held = [_slab(pool) for _ in range(3)]
    told: list[int] = []
    pool.when_free(_SIZE, lambda: told.append(1))
    assert not told
    held[1].release()
    assert told == [1]


def test_a_response_whose_batches_are_remade_needs_room_for_both(
    pool: BufferPool, budget: ByteBudget
) -> None:
    first = _slab(pool)
    budget.take(_SIZE)
    first.made_bytes = _SIZE
    first.release()
    second = _slab(pool)
    assert budget.free == _SIZE
    assert pool.slab(_SIZE) is None, "no room for the batches built from it"
    second.release()
    assert budget.free == 2 * _SIZE
    held = [_slab(pool), _slab(pool)]
    assert len(held) == 2, "no batch was built from the second, so another buffer just fits"


def test_one_of_any_size_while_nothing_else_is_held(pool: BufferPool, budget: ByteBudget) -> None:
    first = _slab(pool)
    first.made_bytes = 10 * _SIZE
    first.release()
    assert len(_slab(pool, 7 * _SIZE).buffer) == 7 * _SIZE
    assert budget.free < 0
    assert pool.slab(_SIZE) is None


def test_a_cluster_has_its_share_though_another_holds_everything(budget: ByteBudget) -> None:
    one, two = (BufferPool(_SIZE, budget.part()) for _ in range(2))
    held = [_slab(one) for _ in range(3)]
    assert budget.free == 0
    assert one.slab(_SIZE) is None
    first = _slab(two)
    assert two.slab(_SIZE) is None, "half of the budget has no room for two"
    for slab in held:
        slab.release()
    assert [_slab(two), _slab(two)]
    assert two.slab(_SIZE) is None
    first.release()
    assert budget.used == 2 * _SIZE


def test_clusters_that_wait_are_served_though_the_first_to_wait_has_no_room(budget: ByteBudget) -> None:
    one, two = (BufferPool(_SIZE, budget.part()) for _ in range(2))
    held = [_slab(one) for _ in range(3)]
    others = [_slab(two)]
    served: list[str] = []
    one.when_free(3 * _SIZE, lambda: served.append("one"))
    two.when_free(_SIZE, lambda: served.append("two"))
    held.pop().release()
    assert not served
    held.pop().release()
    assert served == ["two"]
    others.pop().release()
    held.pop().release()
    assert served == ["two", "one"]
    assert budget.used == 0


def test_memory_is_taken_as_bytes_arrive(budget: ByteBudget) -> None:
    pool = BufferPool(_SIZE, budget)
    before = _resident_bytes()
    slab = _slab(pool, 200 * _SIZE)
    assert budget.used == 200 * _SIZE
    slab.buffer[:_SIZE] = bytes(_SIZE)
    assert _resident_bytes() - before < 50 * _SIZE
    slab.release()
    assert budget.used == 0


def test_no_more_buffers_are_kept_than_the_budget_allows(budget: ByteBudget) -> None:
    stock = BufferStock(_SIZE, budget.limit)
    pools = [BufferPool(_SIZE, budget.part(), stock) for _ in range(9)]
    for slab in [_slab(pool) for pool in pools]:
        slab.release()
    again = [stock.buffer(_SIZE) for _ in range(4)]
    assert len({id(buffer) for buffer in again}) == 4
    assert budget.used == 0


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
