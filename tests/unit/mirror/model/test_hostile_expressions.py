"""Test expressions that take a backtracking engine years; costs are measured in steps instead of time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Final

import pytest
import re2

from mirror.errors import InvalidRequest
from mirror.model.expressions import Expression, split_look_ahead
from mirror.model.topics import TopicSelection, selection_without_look_ahead

_LARGEST_PROGRAM: Final = 1 << 20
_STEPS_FOR_EACH_CHARACTER: Final = 250
"""Limit in lines of Python; eight levels of groups are examined."""
_CATASTROPHIC: Final = (
    "(a+)+$",
    "(a|aa)+$",
    "(a|a?)+$",
    "(.*a){20}$",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
    "(x+x+)+y",
    "(.*)*(.*)*(.*)*!",
    "((a*)*)*b",
)
_LONG: Final = {
    "groups": lambda size: "(" * (size // 2) + ")" * (size // 2),
    "alternatives": lambda size: "|".join("a" * (size // 2)),
    "alternatives in groups": lambda size: "((((((((" + "|".join("a" * (size // 2)) + "))))))))",
    "classes": lambda size: "[" * size,
    "closed classes": lambda size: "[a]" * (size // 3),
    "escapes": lambda size: "\\" * size,
    "look-aheads": lambda size: "(?!a)" * (size // 5) + ".*",
    "nested look-aheads": lambda size: "(?!" * (size // 4) + ")" * (size // 4) + ".*",
    "unclosed look-aheads": lambda size: "(?!" * (size // 3),
    "repetitions": lambda size: "a{1000}" * (size // 7),
    "stars": lambda size: "a*" * (size // 2),
    "beginnings": lambda size: "|".join(f"^{one:05d}" for one in range(size // 7)),
}


def steps(call: Callable[[], object]) -> int:
    """Return the number of lines of our own code that a call executes."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        if "/mirror/" not in frame.f_code.co_filename:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with suppress(InvalidRequest):
            call()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("expression", _CATASTROPHIC)
def test_what_a_backtracking_engine_never_ends_is_matched_by_automata(expression: str) -> None:
    mine = Expression("topics", expression)
    for pattern in (mine._pattern, mine._lines):
        assert pattern is None or type(pattern) is type(re2.compile("a"))
    assert mine._pattern.programsize < 2_000, "upper bound of the steps per character"
    names = ["a" * 249 + "!", "x" * 249, "a" * 249]
    assert mine.choose(names) == {name for name in names if mine.matches(name)}


@pytest.mark.parametrize("make", _LONG.values(), ids=_LONG.keys())
def test_a_long_expression_costs_steps_in_proportion_or_is_refused(make: Callable[[int], str]) -> None:
    for size in (1_000, 4_000):
        text = make(size)
        most = _STEPS_FOR_EACH_CHARACTER * len(text)
        assert steps(lambda text=text: Expression("topics", text)) < most  # type: ignore[misc]
        assert steps(lambda text=text: split_look_ahead(text)) < most  # type: ignore[misc]
        assert steps(lambda text=text: selection_without_look_ahead(text, "", False)) < 2 * most  # type: ignore[misc]
        with suppress(InvalidRequest):
            assert Expression("topics", text)._pattern.programsize < _LARGEST_PROGRAM


def test_a_name_costs_no_steps_of_ours_by_its_length() -> None:
    selection = TopicSelection("(a+)+$", "(b|b?)+$")
    selection.matches("a")
    assert steps(lambda: selection.matches("a" * 10_000)) == steps(lambda: selection.matches("a"))
