"""Test concurrent coroutines and their errors."""

from __future__ import annotations

import pytest

from mirror.client.event_loop import Loop, Promise
from mirror.errors import HeadraceError, Unreachable


def test_one_of_several_that_fails_while_an_earlier_one_is_waited_for_ends_nothing_else(loop: Loop) -> None:
    answers = [Promise[int](), Promise[int](), Promise[int]()]
    caught: list[HeadraceError] = []

    async def wait_for(answer: Promise[int]) -> int:
        return await answer

    async def all_of_them() -> None:
        try:
            await loop.together(wait_for(answer) for answer in answers)
        except HeadraceError as error:
            caught.append(error)

    done = loop.spawn(all_of_them())
    answers[1].fail(Unreachable("no leader"))
    for _ in range(5):
        loop.run_once(0.0)  # an unhandled error would be raised here
    assert not done.is_done, "the first is still pending"
    answers[0].resolve(1)
    answers[2].resolve(3)
    for _ in range(5):
        loop.run_once(0.0)
    assert done.is_done
    assert [str(error) for error in caught] == ["no leader"]


def test_an_error_that_nobody_awaits_comes_out_of_the_loop(loop: Loop) -> None:
    async def fail() -> None:
        raise Unreachable("nobody looks at this")

    loop.spawn(fail())
    with pytest.raises(Unreachable, match="nobody looks"):
        loop.run_once(0.0)


def test_a_thread_may_wake_a_loop_that_is_closed_meanwhile(loop: Loop) -> None:
    loop.close()
    loop.wake()
