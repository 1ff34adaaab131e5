"""Test the reports of repeating errors: one at the beginning of an episode and one at its end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.repeats import EpisodeEnd, RepeatedErrors

_STEPS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["", "refused", "reset", "late", "gone"])))


def test_the_first_error_is_reported_and_its_repetitions_are_counted() -> None:
    errors = RepeatedErrors[str]()
    assert errors.failed("broker", "refused", 10.0)
    assert not any(errors.failed("broker", "refused", 10.0 + step) for step in range(50))
    assert errors.succeeded("broker", 70.0) == EpisodeEnd("refused", 51, 60.0)


def test_a_success_without_an_error_ends_nothing() -> None:
    assert RepeatedErrors[str]().succeeded("broker", 1.0) is None


def test_errors_after_the_end_are_a_new_episode() -> None:
    errors = RepeatedErrors[str]()
    errors.failed("broker", "refused", 1.0)
    errors.succeeded("broker", 2.0)
    assert errors.failed("broker", "refused", 3.0)
    assert errors.succeeded("broker", 5.0) == EpisodeEnd("refused", 1, 2.0)


def test_another_reason_is_reported_within_an_episode_but_not_without_end() -> None:
    errors = RepeatedErrors[str]()
    reported = [errors.failed("broker", f"refused at offset {number}", number) for number in range(1000)]
    assert reported[:2] == [True, True]
    assert sum(reported) == 3


def test_two_keys_have_episodes_of_their_own() -> None:
    errors = RepeatedErrors[str]()
    assert errors.failed("one", "refused", 1.0)
    assert errors.failed("two", "refused", 1.0)
    errors.succeeded("one", 2.0)
    assert not errors.failed("two", "refused", 3.0)
    assert len(errors) == 1


def test_silence_ends_what_never_reports_a_success() -> None:
    errors = RepeatedErrors[str]()
    errors.failed("one", "refused", 1.0)
    errors.failed("one", "refused", 5.0)
    errors.failed("two", "refused", 9.0)
    assert list(errors.silent(5.0)) == []
    assert list(errors.silent(5.1)) == [("one", EpisodeEnd("refused", 2, 4.0))]
    assert list(errors.silent(5.1)) == []
    assert len(errors) == 1


@given(_STEPS)
def test_begin_and_end_alternate_and_no_error_is_lost_from_the_counts(steps: list[tuple[str, str]]) -> None:
    errors = RepeatedErrors[str]()
    counted = {"a": 0, "b": 0}
    is_open = {"a": False, "b": False}
    for now, (key, reason) in enumerate(steps):
        if reason:
            reported = errors.failed(key, reason, now)
            assert reported or is_open[key]
            is_open[key] = True
            counted[key] += 1
        else:
            ended = errors.succeeded(key, now)
            assert (ended is not None) == is_open[key]
            assert ended is None or ended.count == counted[key]
            is_open[key], counted[key] = False, 0
