"""Waits: they return the result, and their error shows the last one."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from stack.errors import Cancelled, NotInTime
from stack.process.wait import wait_until
from tests.patience import pause_seconds


def test_the_first_truthy_answer_is_returned() -> None:
    answers: Iterator[object] = iter([0, "", None, [1]])
    assert wait_until(lambda: next(answers), 20, interval_seconds=0.001) == [1]


def test_it_is_asked_once_even_without_time() -> None:
    assert wait_until(lambda: "now", 0) == "now"


def test_the_complaint_shows_the_last_answer() -> None:
    with pytest.raises(NotInTime, match=r"three of them: .* 0\.01 s; .*\[\]"):
        wait_until(list, 0.01, "three of them", interval_seconds=0.001)


def test_without_a_name_the_condition_is_named() -> None:
    def never() -> bool:
        return False

    with pytest.raises(NotInTime, match=r"never: .* 0 s; .*False"):
        wait_until(never, 0)


def test_errors_of_the_condition_come_through() -> None:
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 // 0, 20)


def test_the_event_ends_the_wait() -> None:
    event = threading.Event()
    event.set()
    with pytest.raises(Cancelled, match="the server: "):
        wait_until(lambda: False, 600, "the server", cancelled=event)


def test_what_takes_long_or_is_waited_for_long_is_asked_less_often() -> None:
    assert pause_seconds(answer_seconds=0.001, waited_seconds=0.1) == 0.05
    assert pause_seconds(answer_seconds=0.05, waited_seconds=0.1) == 0.2
    assert pause_seconds(answer_seconds=0.001, waited_seconds=6.0) == 0.3
    assert pause_seconds(answer_seconds=2.0, waited_seconds=60.0) == 0.5


def test_a_pace_is_asked_before_every_pause() -> None:
    asked: list[tuple[float, float]] = []

    def pace(answer_seconds: float, waited_seconds: float) -> float:
        asked.append((answer_seconds, waited_seconds))
        return 0.001

    answers: Iterator[object] = iter([0, 0, 1])
    assert wait_until(lambda: next(answers), 20, interval_seconds=pace) == 1
    (first, second) = asked
    assert 0 <= first[0] <= first[1] < second[1]
