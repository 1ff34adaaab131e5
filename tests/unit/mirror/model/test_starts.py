"""Test start positions in their textual form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import InvalidRequest
from mirror.model.datastreams.datastream import LATEST_START_MS, StartPosition
from mirror.model.datastreams.starts import WORDS, Start, read_start
from tests.builders import a_datastream

MOMENT = 1_795_248_000_500


@pytest.mark.parametrize(
    "value",
    [
        MOMENT,
        str(MOMENT),
        "2026-11-21T08:00:00.500Z",
        "2026-11-21T08:00:00.500999+00:00",
        "2026-11-21 10:00:00.5+02:00",
        "20261121T080000.500Z",
    ],
    ids=str,
)
def test_a_moment_has_many_forms_and_is_shown_in_one(value: object) -> None:
    found = read_start("the start", value)
    assert found == Start(StartPosition.TIMESTAMP, MOMENT)
    assert str(found) == "2026-11-21T08:00:00.500Z"


@given(st.integers(10**11, LATEST_START_MS))
def test_what_is_shown_can_be_given(at_ms: int) -> None:
    start = Start(StartPosition.TIMESTAMP, at_ms)
    assert read_start("the start", str(start)) == start
    assert read_start("the start", at_ms) == start


def test_words_are_themselves() -> None:
    assert WORDS == ("earliest", "latest", "committed", "committed-or-latest", "earliest-local")
    for word in WORDS:
        assert (str(read_start("the start", word)), read_start("the start", word).at_ms) == (word, None)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("middle", "write earliest, latest, committed"),
        ("timestamp", "cannot be 'timestamp'"),
        ("", "cannot be ''"),
        ("2026-11-21T08:00:00", "time zone"),
        ("2026-11-21", "time zone"),
        ("1969-12-31T23:59:59Z", "between 0"),
        ("9999-12-31T23:59:59-01:00", "between 0"),
        (1_795_248_000, "milliseconds, not seconds"),
        ("1795248000", "milliseconds, not seconds"),
        (-1, "between 0"),
        (LATEST_START_MS + 1, "between 0"),
        ("9" * 5_000, "a number from 0"),
        ("\u0661" * 13, "cannot be"),
        ("\ud800", "cannot be"),
        (True, "must be a whole number"),
        (1.5, "must be a whole number"),
        (None, "must be a whole number"),
    ],
    ids=lambda one: ascii(one)[:40],
)
def test_what_names_no_place_is_refused(value: object, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_start("the start", value)
    assert said in str(caught.value)
    ascii(str(caught.value)).encode()


def test_some_words_may_be_meant_and_no_others() -> None:
    with pytest.raises(InvalidRequest, match="write latest, 2026"):
        read_start("--start", "committed", ["latest"])


@pytest.mark.parametrize(
    "fields",
    [
        {"start": StartPosition.TIMESTAMP},
        {"start": StartPosition.LATEST, "start_ms": 5},
        {"start": StartPosition.TIMESTAMP, "start_ms": -1},
        {"start": StartPosition.TIMESTAMP, "start_ms": "5"},
        {"start": StartPosition.TIMESTAMP, "start_ms": LATEST_START_MS + 1},
    ],
    ids=str,
)
def test_a_datastream_has_a_moment_where_it_begins_at_one(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="the start"):
        a_datastream(**fields)
