"""Test the limit on pending requests to clusters at arbitrary addresses."""

from __future__ import annotations

from collections.abc import Callable

from mirror.instance.discovery.questions import _MOST_ADDRESSES, ClusterRequests
from mirror.model.identifiers import ClusterRef
from tests.builders import SOURCE
from tests.fakes.topic_admin import FakeTopicAdmin


def test_addresses_that_do_not_answer_hold_a_bounded_number_of_threads() -> None:
    waiting: list[Callable[[], None]] = []
    admin = FakeTopicAdmin(t=1)
    questions = ClusterRequests(lambda _: admin, 0.0, waiting.append)
    for number in range(3 * _MOST_ADDRESSES):
        address = ClusterRef(f"h{number}.example:9092")
        assert questions.identities([address]) == {}
        assert questions.topics([ClusterRef(f"x{number}.example:9092")]) == {}
    assert len(waiting) == _MOST_ADDRESSES
    assert questions.identities([SOURCE]) == {}
    assert len(waiting) == _MOST_ADDRESSES + 1  # aliases are configured, so they are not limited
    for job in waiting:
        job()
    here = ClusterRequests(lambda _: admin, 60.0, lambda job: job())
    late = [ClusterRef(f"h{number}.example:9092") for number in range(3 * _MOST_ADDRESSES)]
    assert len(here.identities(late)) == len(late)  # answered requests do not count
    waiting.clear()
    assert questions.topics([late[0]]) == {}
    assert len(waiting) == 1
