"""RE2 compared with Python's regular expressions, for syntax that both support."""

from __future__ import annotations

import gc
import re
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import InvalidRequest
from mirror.model.expressions import (
    LONGEST,
    Expression,
    expression_of,
    joined_look_ahead,
    split_look_ahead,
)
from mirror.model.topics import selection_without_look_ahead

NAMES = st.text("ab-.", min_size=1, max_size=8)
ATOMS = st.sampled_from(
    [
        "a",
        "b",
        "-",
        r"\.",
        ".",
        "[ab]",
        "[^a]",
        r"[\]b]",
        "(a|b)",
        "(?:ab)",
        "ab",
        r"\w",
        r"\W",
        "(a$)",
        "(^a)",
    ]
)
PIECES = st.tuples(ATOMS, st.sampled_from(["", "", "*", "+", "?", "{1,2}"])).map("".join)
ALTERNATIVES = st.lists(PIECES, min_size=1, max_size=4).map("".join)
EXPRESSIONS = st.lists(ALTERNATIVES, min_size=1, max_size=3).map("|".join)
ANCHORED = st.tuples(st.sampled_from(["", "^"]), EXPRESSIONS, st.sampled_from(["", "$"])).map("".join)


@given(ANCHORED, st.lists(NAMES))
def test_an_expression_selects_what_pythons_does(expression: str, names: list[str]) -> None:
    mine, theirs = Expression("topics", expression), re.compile(expression)
    wanted = {name for name in names if theirs.fullmatch(name)}
    assert mine.choose(names) == wanted
    assert {name for name in names if mine.matches(name)} == wanted


@given(ANCHORED | st.builds("({}){}".format, EXPRESSIONS, PIECES), NAMES)
def test_what_matches_has_one_of_the_beginnings(expression: str, name: str) -> None:
    if re.fullmatch(expression, name):
        assert name.startswith(tuple(Expression("topics", expression).beginnings))


@pytest.mark.parametrize(
    ("expression", "beginnings"),
    [
        ("orders-.*", {"orders-"}),
        ("^(orders|users)$", {"orders", "users"}),
        (r"(?:a|b\.c)\.x|d*", {""}),
        (r"(?:a|b\.c)\.x|de*", {"a", "b", "d"}),
        ("(a|b)?c", {""}),
        ("(?i)orders", {""}),
        (r"\Qa|b\E", {""}),
        ("(" * 50 + "a" + ")" * 50, {""}),
    ],
)
def test_beginnings_are_seen_where_they_are_plain(expression: str, beginnings: set[str]) -> None:
    assert Expression("topics", expression).beginnings == beginnings


@given(st.lists(EXPRESSIONS, min_size=1, max_size=2), ANCHORED, st.lists(NAMES.filter(bool)))
def test_a_leading_negative_look_ahead_selects_the_same_as_two_expressions(
    ahead: list[str], rest: str, names: list[str]
) -> None:
    expression = "^" + "".join(f"(?!{one})" for one in ahead) + rest
    include, exclude = split_look_ahead(expression)
    if not exclude:
        assert include == expression
        with pytest.raises(InvalidRequest, match="exclude"):
            selection_without_look_ahead(expression, "", False)
        return
    theirs = re.compile(expression)
    chosen = selection_without_look_ahead(expression, "", False).choose(names)
    assert set(chosen) == {name for name in names if theirs.fullmatch(name)}
    java = re.compile(joined_look_ahead(include, exclude))
    assert set(chosen) == {name for name in names if java.fullmatch(name)}


@given(st.text(st.characters(exclude_categories=[]), max_size=40))
def test_any_text_is_an_expression_or_is_refused(text: str) -> None:
    try:
        Expression("topics", text).choose(["a", text])
    except InvalidRequest as error:
        error.message.encode()


@pytest.mark.parametrize(
    "expression", ["(a+)+$", "(a|aa)+$", "(.*a){20}", "(a?){500}a{500}", "([a-z]+)*=", "(.?){1000}b"]
)
def test_expressions_that_backtrack_for_ever_elsewhere_are_matched(expression: str) -> None:
    assert Expression("topics", expression).choose(["a" * 248 + "!"] * 100) == set()


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("a(?=b)", "exclude"),
        ("(?<!a)b", "exclude"),
        (r"(a)\1", "exclude"),
        ("a" * (LONGEST + 1), "characters"),
        ("(((a{1000}){1000}){1000})", "not a regular expression"),
        ("[", "missing"),
        ("\ud800", "surrogate"),
    ],
    ids=lambda text: str(text)[:30],
)
def test_what_cannot_be_matched_so_is_refused(expression: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said) as caught:
        Expression("topics", expression)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "expression", [".*", "a.*", ".*7", "b|a-1.*", "(?i)A-1.*", r"\Aa-1\d+\z", "a-(10|2)*5"]
)
def test_of_thousands_of_names_the_same_are_chosen_as_one_by_one(expression: str) -> None:
    names = [f"a-{number}" for number in range(3_000)]
    mine = Expression("topics", expression)
    assert mine.choose(names) == {name for name in names if mine.matches(name)}
    assert mine.choose(names)


def test_an_expression_is_compiled_once_as_long_as_somebody_has_it() -> None:
    first = expression_of("topics", "only-here-.*")
    assert expression_of("exclude", "only-here-.*") is first
    assert [first.matches(name) for name in ("only-here-1", "users-1")] == [True, False]
    one = selection_without_look_ahead("only-here-.*", "", False)
    assert one.matches("only-here-1")
    gone = weakref.ref(first)
    del first
    assert gone() is not None
    del one
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("hostile", ["(", None, [], {}, 7])
def test_what_is_no_expression_is_refused_each_time_with_the_field(hostile: object) -> None:
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="exclude"):
            expression_of("exclude", hostile)
