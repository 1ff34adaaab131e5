"""Test the concurrency limit: its order, and that no slot is lost."""

from __future__ import annotations

import pytest

from mirror.client.event_loop import Loop, Promise
from mirror.errors import Unreachable
from mirror.replication.concurrency import ConcurrencyLimit


def test_as_many_as_there_are_slots_go_in_and_the_others_follow_in_order(loop: Loop) -> None:
    slots, inside = ConcurrencyLimit(2), list[int]()
    doors = [Promise[None]() for _ in range(5)]

    async def visit(number: int) -> None:
        async with slots:
            inside.append(number)
            await doors[number]

    for number in range(5):
        loop.spawn(visit(number))
    assert inside == [0, 1]
    doors[1].resolve(None)
    loop.run_once(0.0)
    loop.run_once(0.0)
    assert inside == [0, 1, 2]
    doors[0].resolve(None)
    doors[2].resolve(None)
    loop.run_once(0.0)
    loop.run_once(0.0)
    assert inside == [0, 1, 2, 3, 4]


def test_a_slot_comes_back_from_who_fails(loop: Loop) -> None:
    slots = ConcurrencyLimit(1)

    async def fail() -> None:
        async with slots:
            raise Unreachable("no")

    async def succeed() -> str:
        async with slots:
            return "in"

    failed, succeeded = loop.spawn(fail()), loop.spawn(succeed())
    with pytest.raises(Unreachable):
        failed.result()
    assert succeeded.result() == "in"


@pytest.mark.parametrize("is_given", [False, True])
def test_a_slot_passes_by_a_coroutine_that_is_closed_while_it_waits(loop: Loop, is_given: bool) -> None:
    slots, door, inside = ConcurrencyLimit(1), Promise[None](), list[str]()

    async def visit(name: str) -> None:
        async with slots:
            inside.append(name)
            await door

    visits = [visit(name) for name in ("first", "closed", "last")]
    loop.spawn(visits[0])
    waiting = visits[1].send(None)
    loop.spawn(visits[2])
    if is_given:
        door.resolve(None)
        loop.run_once(0.0)
        assert waiting.is_done
    visits[1].close()
    door.resolve(None)
    loop.run_once(0.0)
    loop.run_once(0.0)
    assert inside == ["first", "last"]
    assert slots._free == 1
