"""Test the time for which a worker process waited for a core."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.worker.reports import waited_seconds


def test_the_second_number_is_the_time_in_the_queue_of_a_core(tmp_path: Path) -> None:
    counted = tmp_path / "schedstat"
    counted.write_text("140830 1943483000 2\n")
    assert waited_seconds(counted) == 1.943483


@pytest.mark.parametrize("text", [None, "", "7", "a b c"])
def test_what_the_system_does_not_count_is_not_known(tmp_path: Path, text: str | None) -> None:
    counted = tmp_path / "schedstat"
    if text is not None:
        counted.write_text(text)
    assert waited_seconds(counted) is None


def test_this_system_answers_or_says_nothing() -> None:
    first = waited_seconds()
    assert first is None or first <= (waited_seconds() or 0.0)
