"""Test calls that depend on a Kafka cluster that does not respond."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

import pytest

from api.http.problems import headers_of, status_of
from api.http.slow_calls import ANSWER_SECONDS, MOST_AT_ONCE, ClusterInUse, ClusterRequestLimiter, SlowCalls
from mirror.errors import Busy, HeadraceError, NothingStored, ResponseStalled, TimedOut, Unreachable
from mirror.model.identifiers import ClusterRef
from tests.builders import DESTINATION, a_key, a_progress
from tests.fakes.clock import ManualClock
from tests.fakes.site import Site
from tests.patience import wait_until

_T = TypeVar("_T")
HERE, ELSEWHERE = ClusterRef("here"), ClusterRef("elsewhere")
PAUSE: Final = "/v1/datastreams/orders/pause?dry_run=true"
PROGRESS: Final = "/v1/datastreams/orders/progress"


class Silent:
    """A cluster that does not respond until `fail` is called."""

    def __init__(self, error: HeadraceError) -> None:
        self._error = error
        self._failed = threading.Event()
        self.asked = 0

    def __call__(self) -> None:
        self.asked += 1
        self._failed.wait()
        raise self._error

    def fail(self) -> None:
        self._failed.set()


class Counted(ClusterRequestLimiter):
    """Limiter that counts the calls."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock.monotonic)
        self.wanted = 0

    def ask(self, cluster: ClusterRef, question: Callable[[], _T]) -> _T:
        self.wanted += 1
        return super().ask(cluster, question)


def failing(error: HeadraceError) -> Callable[[], None]:
    def question() -> None:
        raise error

    return question


@pytest.mark.parametrize("error", [Unreachable("refused"), TimedOut("late"), ResponseStalled("stopped")])
def test_the_error_of_a_cluster_answers_the_next_questions_for_a_while(error: HeadraceError) -> None:
    clock = ManualClock()
    limiter = ClusterRequestLimiter(clock.monotonic)
    for question in (failing(error), failing(AssertionError("asked again"))):  # type: ignore[arg-type]
        with pytest.raises(Unreachable, match=error.message) as raised:
            limiter.ask(HERE, question)
        assert (status_of(raised.value), headers_of(raised.value)) == (503, {"Retry-After": "5"})
    assert limiter.ask(ELSEWHERE, lambda: "answer") == "answer"
    clock.advance(ANSWER_SECONDS)
    assert limiter.ask(HERE, lambda: "answer") == "answer"
    assert limiter.failure(HERE) is None


def test_a_cluster_that_refuses_has_answered() -> None:
    limiter = ClusterRequestLimiter(ManualClock().monotonic)
    with pytest.raises(NothingStored):
        limiter.ask(HERE, failing(NothingStored("nothing yet")))
    assert limiter.ask(HERE, lambda: "answer") == "answer"


def test_a_cluster_is_asked_one_question_at_a_time() -> None:
    limiter = ClusterRequestLimiter(ManualClock().monotonic)

    def question() -> Future[None]:
        with pytest.raises(ClusterInUse) as raised:
            limiter.ask(HERE, lambda: None)
        assert limiter.ask(ELSEWHERE, lambda: "answer") == "answer"
        ended = raised.value.ended
        assert not ended.done()
        return ended

    assert limiter.ask(HERE, question).done()
    assert limiter.ask(HERE, lambda: "answer") == "answer"


def test_a_call_that_waits_for_a_cluster_too_long_is_refused() -> None:
    ended = Future[None]()

    def call() -> None:
        raise ClusterInUse(HERE, ended)

    with pytest.raises(Busy, match=HERE):
        asyncio.run(SlowCalls(wait_seconds=0.0).run(call))


def test_a_silent_destination_takes_one_place_and_its_error_is_shared(site: Site) -> None:
    site.create()
    site.limiter = limiter = Counted(site.clock)
    site.before_progress = silent = Silent(TimedOut("no answer"))
    with ThreadPoolExecutor(MOST_AT_ONCE) as callers:
        calls = [callers.submit(site.client.get, PROGRESS) for _ in range(MOST_AT_ONCE)]
        try:
            wait_until(lambda: limiter.wanted >= MOST_AT_ONCE)
            wait_until(lambda: site.client.post(PAUSE, json={}).status_code == 200)
        finally:
            silent.fail()
        answers = [one.result() for one in calls]
    answers.append(site.client.get("/v1/datastreams/orders/gaps"))
    assert {(one.status_code, one.json()["kind"]) for one in answers} == {(503, "Unreachable")}
    assert {one.headers["Retry-After"] for one in answers} == {"5"}
    assert silent.asked == 1


def test_calls_that_came_beside_another_one_get_their_own_answers(site: Site) -> None:
    site.create()
    site.progress = {a_key("t-0"): a_progress()}
    site.limiter = limiter = Counted(site.clock)
    going = threading.Event()

    def hold() -> None:
        going.wait()

    site.before_progress = hold
    with ThreadPoolExecutor(3) as callers:
        calls = [callers.submit(site.client.get, PROGRESS) for _ in range(3)]
        wait_until(lambda: limiter.wanted >= 3)
        going.set()
        assert [len(one.result().json()) for one in calls] == [1, 1, 1]
    assert limiter.failure(DESTINATION) is None
