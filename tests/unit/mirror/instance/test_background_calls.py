"""Test background calls: slow responses block no caller and are not lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from mirror.errors import HeadraceError, LoadUnavailable, Unreachable
from mirror.instance.background_calls import CallPending, PatientLoads, ThreadedCalls, WaitBudget
from mirror.model.identifiers import ClusterRef
from mirror.model.load import LoadReport
from tests.patience import PATIENCE_SECONDS, wait_until

HERE = ClusterRef("here")


class Slow:
    """A job that ends when `go_on` is set."""

    def __init__(self, outcome: Any) -> None:
        self.outcome, self.times = outcome, 0
        self.go_on = threading.Event()

    def __call__(self, *_: object) -> Any:
        self.times += 1
        assert self.go_on.wait(PATIENCE_SECONDS)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    loads = __call__


class BackgroundCalls(ThreadedCalls):
    def __init__(self, patience_seconds: float = 0.05) -> None:
        self.woken = threading.Event()
        super().__init__(patience_seconds, self.woken.set)


def answer_of(
    background_calls: ThreadedCalls, line: str, job: Callable[[], int], key: str = "one"
) -> int | None:
    """Return the result, or None while it is pending."""
    try:
        return background_calls.ask(line, key, job)
    except CallPending:
        return None


def test_a_fast_answer_comes_at_once_and_is_asked_for_anew_every_time() -> None:
    background_calls, answers = BackgroundCalls(20), iter([1, 2])
    assert [background_calls.ask("line", "key", lambda: next(answers)) for _ in range(2)] == [1, 2]
    assert not background_calls.woken.is_set()


def test_an_error_is_raised_where_it_was_asked() -> None:
    def fail() -> None:
        raise Unreachable("gone fishing")

    for _ in range(2):
        with pytest.raises(Unreachable, match="gone fishing"):
            BackgroundCalls(20).ask("line", "key", fail)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_what_would_end_the_thread_ends_neither_it_nor_who_asks(error: BaseException) -> None:
    def fail() -> None:
        raise error

    background_calls = BackgroundCalls(20)
    for _ in range(2):
        with pytest.raises(HeadraceError, match=type(error).__name__):
            background_calls.ask("line", "key", fail)
    assert background_calls.ask("line", "key", lambda: 5) == 5


@pytest.mark.parametrize("outcome", [7, Unreachable("at last")])
def test_a_late_answer_wakes_whoever_waits_and_is_there_for_the_next_question(outcome: Any) -> None:
    background_calls, slow = BackgroundCalls(0), Slow(outcome)
    for _ in range(3):
        with pytest.raises(CallPending):
            background_calls.ask("line", "key", slow)
    slow.go_on.set()
    assert background_calls.woken.wait(PATIENCE_SECONDS)
    if isinstance(outcome, Exception):
        with pytest.raises(Unreachable, match="at last"):
            background_calls.ask("line", "key", slow)
    else:
        assert background_calls.ask("line", "key", slow) == outcome
    assert slow.times == 1


def test_other_lines_go_on_and_other_keys_of_the_line_come_after() -> None:
    background_calls, slow = BackgroundCalls(), Slow(1)
    with pytest.raises(CallPending):
        background_calls.ask("slow", "one", slow)
    assert wait_until(lambda: answer_of(background_calls, "other", lambda: 5)) == 5
    with pytest.raises(CallPending):
        background_calls.ask("slow", "two", lambda: 2)
    slow.go_on.set()
    assert wait_until(lambda: answer_of(background_calls, "slow", slow)) == 1
    patient = BackgroundCalls(20)
    assert patient.ask("slow", "two", lambda: 2) == 2


def test_a_question_looks_at_few_of_those_that_wait_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    background_calls, slow, looked_at, is_done = BackgroundCalls(0), Slow(7), list[object](), Future.done

    def counted(one: Future[object]) -> bool:
        looked_at.append(one)
        return is_done(one)

    monkeypatch.setattr(Future, "done", counted)
    keys = [f"key {number}" for number in range(100)]
    for key in keys * 2:
        with pytest.raises(CallPending):
            background_calls.ask("line", key, slow)
    assert len(looked_at) <= 2 * len(keys) * 2
    slow.go_on.set()
    for key in keys:
        assert wait_until(partial(answer_of, background_calls, "line", slow, key)) == 7
    assert slow.times == len(keys)


def test_loads_that_are_on_their_way_are_unavailable_for_now() -> None:
    background_calls, slow = BackgroundCalls(), Slow(LoadReport({}, "slow"))
    provider = PatientLoads(slow, background_calls)
    with pytest.raises(LoadUnavailable, match="loads"):
        provider.loads(HERE, [])
    slow.go_on.set()
    assert background_calls.woken.wait(PATIENCE_SECONDS)
    assert provider.loads(HERE, []).provider == "slow"


def test_an_answer_that_nobody_fetched_for_long_is_not_the_answer_to_a_new_question() -> None:
    background_calls, slow = BackgroundCalls(), Slow(Unreachable("it was not there yet"))
    with pytest.raises(CallPending):
        background_calls.ask("line", "key", slow)
    slow.go_on.set()
    assert background_calls.woken.wait(PATIENCE_SECONDS)
    background_calls._lines["line"]._answers["key"].done_at -= 60
    assert wait_until(lambda: answer_of(background_calls, "line", lambda: 5, "key")) == 5


def test_a_line_that_was_waited_for_in_vain_is_slow_until_an_answer_is_good() -> None:
    background_calls, slow = BackgroundCalls(), Slow(Unreachable("nobody is there"))
    with pytest.raises(CallPending):
        background_calls.ask("line", "one", slow)
    slow.go_on.set()
    for _ in range(3):
        with pytest.raises(Unreachable, match="nobody is there"):
            eventually_answered(background_calls, slow)
        assert background_calls._lines["line"]._is_slow
    slow.outcome = 5
    background_calls._lines["line"]._patience = PATIENCE_SECONDS  # on a busy machine this result is late too
    assert eventually_answered(background_calls, slow) == 5
    assert not background_calls._lines["line"]._is_slow


def eventually_answered(background_calls: ThreadedCalls, job: Callable[[], int]) -> int | None:
    return wait_until(lambda: answer_of(background_calls, "line", job))


def test_threads_end_when_there_is_nothing_left_to_do_and_idle_lines_are_forgotten() -> None:
    def running() -> list[str]:
        return [one.name for one in threading.enumerate() if one.name.startswith("background_calls-idle")]

    background_calls, slow = BackgroundCalls(0), Slow(1)
    for number in range(60):
        with pytest.raises(CallPending):
            background_calls.ask(f"idle-{number}", "key", slow)
    assert len(running()) == 60
    slow.go_on.set()
    wait_until(lambda: not running())
    for line in background_calls._lines.values():
        for answer in line._answers.values():
            answer.done_at -= 60
    assert wait_until(lambda: answer_of(background_calls, "another", lambda: 5)) == 5
    assert set(background_calls._lines) == {"another"}


def test_a_line_works_on_after_its_thread_has_ended() -> None:
    background_calls = BackgroundCalls(20)
    for number in range(50):
        assert background_calls.ask("line", f"key {number}", lambda number=number: number) == number  # type: ignore[misc]


def test_however_many_lines_are_slow_the_waits_together_are_as_long_as_for_one() -> None:
    budget, now, waited = WaitBudget(2.0), 100.0, 0.0
    for _ in range(60):
        patience = budget.remaining_seconds(now)
        waited, now = waited + patience, now + patience
        budget.spend(now)
    assert waited == pytest.approx(2.0, abs=60 * 0.05)
    assert budget.remaining_seconds(now + 10) == pytest.approx(1.0)
    assert budget.remaining_seconds(now + 1000) == pytest.approx(2.0)


def test_quick_answers_leave_the_patience_for_a_slow_one() -> None:
    budget, now = WaitBudget(2.0), 0.0
    for _ in range(60):
        budget.remaining_seconds(now)
        now += 0.001
        budget.spend(now)
    assert budget.remaining_seconds(now) == pytest.approx(1.94)
