"""Pages hold every partition once and none holds more than it may."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pinot.paging import cut

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
