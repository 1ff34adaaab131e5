"""Bulkheads stop exceptions; an exit of the process passes through."""

from __future__ import annotations

from concurrent.futures import Future
from functools import partial

import pytest

from mirror.bulkheads import Bulkhead, settle


def test_an_exception_ends_in_the_bulkhead_and_is_reported() -> None:
    failures: list[Exception] = []
    error = ValueError("é")
    with Bulkhead(failures.append):
        raise error
    assert failures == [error]


def test_a_block_without_a_failure_reports_none() -> None:
    failures: list[Exception] = []
    with Bulkhead(failures.append):
        pass
    assert failures == []


def test_a_bulkhead_keeps_the_failure_of_its_block() -> None:
    error = ValueError("é")
    with Bulkhead() as failed:
        raise error
    with Bulkhead() as passed:
        pass
    assert failed.failure is error
    assert passed.failure is None


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), GeneratorExit()])
def test_what_ends_the_process_passes(error: BaseException) -> None:
    failures: list[Exception] = []
    with pytest.raises(type(error)), Bulkhead(failures.append):
        raise error
    assert failures == []


def test_chosen_exceptions_pass_with_their_subclasses() -> None:
    failures: list[Exception] = []
    with pytest.raises(KeyError), Bulkhead(failures.append, through=(LookupError,)):
        raise KeyError
    with Bulkhead(failures.append, through=(LookupError,)):
        raise OSError
    assert [type(failure) for failure in failures] == [OSError]


def test_a_handler_that_fails_is_not_hidden() -> None:
    def fail(_: Exception) -> None:
        raise LookupError

    with pytest.raises(LookupError) as raised, Bulkhead(fail):
        raise ValueError
    assert isinstance(raised.value.__context__, ValueError)


def test_bulkheads_nest() -> None:
    outer: list[Exception] = []
    inner: list[Exception] = []
    with Bulkhead(outer.append):
        with Bulkhead(inner.append):
            raise ValueError
        raise KeyError
    assert [type(one) for one in (*inner, *outer)] == [ValueError, KeyError]


def test_an_answer_gets_the_result_or_the_exception() -> None:
    answer: Future[int] = Future()
    settle(answer, lambda: 7)
    assert answer.result(0) == 7
    for error in (ValueError(), SystemExit(3)):
        failed: Future[int] = Future()
        settle(failed, partial(throw, error))
        assert failed.exception(0) is error


def throw(error: BaseException) -> int:
    raise error
