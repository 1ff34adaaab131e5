"""Pages contain every partition once and stay within their limit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinot.client import PinotClient
from pinot.partitions.load_queries import partition_rates
from pinot.partitions.pages import PAGES_AT_ONCE, QueryPage, answered, cut
from pinot.time_range import TimeRange
from tests.fakes.pinot_wire import answer_of, answering

sizes = st.dictionaries(st.text("abc", min_size=1, max_size=3), st.integers(1, 25), max_size=12)


@given(sizes, st.integers(1, 10))
def test_every_partition_is_on_exactly_one_page(topics: dict[str, int], page_partitions: int) -> None:
    pages = list(cut(sorted(topics.items()), page_partitions))
    held = []
    for page in pages:
        on_page = [
            (topic, number)
            for topic, count in topics.items()
            for number in range(count)
            if page.first <= topic <= page.last and page.low <= number < page.high
        ]
        assert 0 < len(on_page) <= page_partitions
        held += on_page
    assert sorted(held) == sorted(
        (topic, number) for topic, count in topics.items() for number in range(count)
    )


class CountedPages:
    """Pages that count how far they were read, and results that record their page."""

    def __init__(self) -> None:
        self.opened = 0

    def pages(self, count: int) -> Iterator[QueryPage]:
        for number in range(count):
            self.opened += 1
            yield QueryPage(str(number), str(number))


def test_answers_come_in_order_and_no_more_than_a_few_are_held() -> None:
    result = CountedPages()
    for number, answer in enumerate(answered(result.pages(20), lambda page: page.first)):
        assert answer == str(number)
        assert result.opened <= number + 1 + PAGES_AT_ONCE
    assert result.opened == 20


def test_a_question_that_fails_ends_the_answers() -> None:
    def ask(page: QueryPage) -> str:
        if page.first == "2":
            raise ValueError(page.first)
        return page.first

    result = CountedPages()
    answers = answered(result.pages(20), ask)
    assert [next(answers), next(answers)] == ["0", "1"]
    with pytest.raises(ValueError, match="2"):
        next(answers)
    assert result.opened <= 3 + PAGES_AT_ONCE


def test_a_page_of_some_topics_contains_no_topic_between_them() -> None:
    asked: list[str] = []

    def body(sql: str) -> bytes:
        asked.append(sql)
        return answer_of([["a", 0], ["z", 0]] if "max(kafka_partition)" in sql else [], sql)

    with answering(body) as broker, closing(PinotClient(broker)) as client:
        assert partition_rates(client, "c", TimeRange(0, 3_600_000), topics=["a", "z"]) == []
    assert len(asked) == 2
    assert "topic in ('a', 'z')" in asked[1], "a cluster of many topics would exceed the page's limit"
    assert "topic >=" not in asked[1]
