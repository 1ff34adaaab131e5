"""A response is received when there is memory for it and for what becomes of it."""

from __future__ import annotations

import pytest

from mirror.lane.memory import ByteBudget, Slab, SlabPool

_SIZE = 1 << 20


@pytest.fixture
def budget() -> ByteBudget:
    """Of three responses."""
    return ByteBudget(3 * _SIZE)


@pytest.fixture
def pool(budget: ByteBudget) -> SlabPool:
    return SlabPool(_SIZE, budget)


def _slab(pool: SlabPool, size: int = _SIZE) -> Slab:
    slab = pool.slab(size)
    assert slab is not None
    return slab


def test_buffers_are_to_be_had_until_the_budget_is_used_up(pool: SlabPool) -> None:
    held = [_slab(pool) for _ in range(3)]
    assert pool.slab(_SIZE) is None
    held[0].release()
    assert pool.slab(_SIZE) is not None


def test_who_waits_is_told_when_there_is_room_again(pool: SlabPool) -> None:
    held = [_slab(pool) for _ in range(3)]
    told: list[int] = []
    pool.when_free(_SIZE, lambda: told.append(1))
    assert not told
    held[1].release()
    assert told == [1]


def test_a_response_whose_batches_are_remade_needs_room_for_both(pool: SlabPool, budget: ByteBudget) -> None:
    first = _slab(pool)
    budget.take(_SIZE)
    first.made_bytes = _SIZE
    first.release()
    second = _slab(pool)
    assert budget.free == _SIZE
    assert pool.slab(_SIZE) is None, "what is made of it would not fit"
    second.release()
    assert budget.free == 2 * _SIZE
    held = [_slab(pool), _slab(pool)]
    assert len(held) == 2, "of the second nothing was made: one more fits to the brim"


def test_one_of_any_size_while_nothing_else_is_held(pool: SlabPool, budget: ByteBudget) -> None:
    first = _slab(pool)
    first.made_bytes = 10 * _SIZE
    first.release()
    assert len(_slab(pool, 7 * _SIZE).buffer) == 7 * _SIZE
    assert budget.free < 0
    assert pool.slab(_SIZE) is None
