"""Test YAML and JSON read and printed by commands."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.console.documents import read_documents, yaml_text
from headrace.console.escapes import visible_lines
from mirror.errors import InvalidRequest
from mirror.model.documents import mapping_of

TRICKY = (
    "no",
    "on",
    "12:30",
    "1e5",
    "0x1f",
    "010",
    "1_000",
    ".inf",
    "2026-11-21",
    "~",
    "null",
    "<<",
    "=",
    "- a",
    "*",
    "&a",
    "a: b",
    "#",
    "---",
    "",
)
texts = st.text() | st.sampled_from(TRICKY)
values = st.recursive(
    texts | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(texts, values, max_size=4), min_size=1, max_size=3))
def test_what_is_printed_is_read_as_it_was(documents: list[dict[str, Any]]) -> None:
    text = yaml_text(documents, several=True)
    assert read_documents(text, "it") == documents
    assert visible_lines(text) == text
    assert read_documents(yaml_text(documents[:1]), "it") == documents[:1]


@pytest.mark.parametrize("text", TRICKY)
def test_texts_that_other_yaml_takes_for_something_else_are_texts(text: str) -> None:
    if text and text not in ("~", "null") and not text.startswith(("-", "*", "&", "#", "a:")):
        assert read_documents(f"a: {text}", "it") == [{"a": text}]


def test_numbers_and_the_rest_are_what_they_are() -> None:
    (found,) = read_documents("a: 1\nb: -1.5\nc: true\nd: null\ne:\nf: [1, x]\ng: &g {h: 1}\ni: *g", "it")
    assert found == {
        **{"a": 1, "b": -1.5, "c": True, "d": None, "e": None, "f": [1, "x"]},
        **{"g": {"h": 1}, "i": {"h": 1}},
    }


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("name: a\n---\nname: b\n---\n", 2),
        ("- name: a\n- name: b\n", 2),
        ('[{"name": "a"}, {"name": "b"}]', 2),
        ('{"name": "\\ud83d\\ude00"}', 1),
        ("", 0),
        ("# nothing\n", 0),
    ],
)
def test_a_text_has_several_documents(text: str, count: int) -> None:
    assert len(read_documents(text, "it")) == count


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{after}: &{after} [{','.join([f'*{before}'] * 9)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\na: 2", "line 2 .*'a'"),
        ('{"a": 1, "a": 2}', "key 'a'"),
        ("a: [", "line 1 .*YAML"),
        ("a: !!python/object:os.system x", "constructor"),
        ("1: x", "key 1 "),
        ('{"a": NaN}', "nan "),
        ('{"a": 1e999}', "inf "),
        ("a: !!timestamp 2026-11-21", "2026-11-21"),
        ("a: \x07", " it: "),
        ("[" * 100_000, "nesting"),
        ("a: " + "[" * 100_000, "nesting"),
        (BOMB, "1,000,000 values"),
        ("a: &a [*a]", "1,000,000 values"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest, match=said.replace("[", "\\[")):
        read_documents(text, "it")


def test_json_by_its_name_is_nothing_else() -> None:
    with pytest.raises(InvalidRequest, match="cannot parse"):
        read_documents("name: a", "it.json", is_json=True)
    assert math.isclose(read_documents('{"a": 1.5}', "it.json", is_json=True)[0]["a"], 1.5)


class CountedKey(str):
    """A key that counts the lookups of all its instances."""

    lookups = 0

    def __hash__(self) -> int:
        CountedKey.lookups += 1
        return super().__hash__()

    __eq__ = str.__eq__


@pytest.mark.parametrize("twice", [False, True])
def test_the_search_for_keys_given_twice_is_linear(twice: bool) -> None:
    keys = [CountedKey(number) for number in range(1_000)]
    CountedKey.lookups = 0
    pairs = [(key, 0) for key in (*keys, *keys[-1:] * twice)]
    if twice:
        with pytest.raises(ValueError, match="999"):
            mapping_of(pairs)
    else:
        assert len(mapping_of(pairs)) == 1_000
    assert CountedKey.lookups <= 3 * len(pairs)
