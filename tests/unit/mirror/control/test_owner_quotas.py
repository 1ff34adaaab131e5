"""Test the quotas of owners: number, rate and partitions of their datastreams."""

from __future__ import annotations

from typing import Final

import pytest

from mirror.control.owner_quotas import (
    OwnerQuota,
    check_partitions,
    check_quota,
    counted_with,
    waiting_for_quota,
)
from mirror.errors import QuotaExceeded
from mirror.model.datastreams.datastream import Datastream
from tests.builders import a_datastream

QUOTAS: Final = {"few": OwnerQuota(datastreams=2), "slow": OwnerQuota(bytes_per_second=100)}
EVERYBODY: Final = {**QUOTAS, "*": OwnerQuota(datastreams=1)}


def of(owner: str, name: str, rate: int = 0) -> Datastream:
    rates = {"headrace.bytes-per-second": str(rate)} if rate else {}
    return a_datastream(name, metadata={"owner": owner, **rates})


def test_datastreams_of_an_owner_are_counted() -> None:
    there = [of("few", "a"), of("other", "b"), of("few", "c")]
    check_quota(QUOTAS, of("few", "d"), None, there[:2])
    with pytest.raises(QuotaExceeded, match="'few' has 2 datastreams") as refused:
        check_quota(QUOTAS, of("few", "d"), None, there)
    assert [one.pointer for one in refused.value.fields] == ["/owner"]
    with pytest.raises(QuotaExceeded):
        check_quota(QUOTAS, of("few", "b"), of("other", "b"), there)  # the owner changes
    check_quota(QUOTAS, of("few", "a", 5), of("few", "a"), there)
    check_quota(QUOTAS, of("other", "a"), of("few", "a"), there)
    check_quota(QUOTAS, of("anybody", "d"), None, there)


def test_owners_that_are_not_named_have_the_quota_of_every_other() -> None:
    with pytest.raises(QuotaExceeded):
        check_quota(EVERYBODY, of("anybody", "b"), None, [of("anybody", "a")])
    check_quota(EVERYBODY, of("anybody", "b"), None, [of("anybody else", "a")])
    check_quota(EVERYBODY, of("slow", "b", 10), None, [of("slow", "a", 10)])
    with pytest.raises(QuotaExceeded):
        check_quota(EVERYBODY, of("*", "b"), None, [of("*", "a")])


def test_rates_are_summed_and_each_is_said() -> None:
    there = [of("slow", "a", 60), of("other", "b", 1_000)]
    check_quota(QUOTAS, of("slow", "c", 40), None, there)
    for rate, words in ((41, "60 .* 41"), (0, "60 .* limit")):
        with pytest.raises(QuotaExceeded, match=words) as refused:
            check_quota(QUOTAS, of("slow", "c", rate), None, there)
        assert [one.pointer for one in refused.value.fields] == ["/quota/bytes_per_second"]


@pytest.mark.parametrize(
    ("before", "after", "may"),
    [(500, 400, True), (500, 500, True), (500, 501, False), (500, 0, False), (0, 400, True), (0, 0, True)],
)
def test_what_is_stored_runs_on_and_becomes_smaller(before: int, after: int, may: bool) -> None:
    new, former = of("slow", "a", after), of("slow", "a", before)
    if may:
        check_quota(QUOTAS, new, former, [of("slow", "b", 90)])
    else:
        with pytest.raises(QuotaExceeded):
            check_quota(QUOTAS, new, former, [of("slow", "b", 90)])


SOME: Final = {"some": OwnerQuota(partitions=10)}


def test_partitions_that_are_selected_are_counted_before_they_are_let_in() -> None:
    there = [(of("some", "a"), {"t": 4, "u": 2})]
    check_partitions(SOME, (of("some", "b"), {"v": 4}), None, there)
    with pytest.raises(QuotaExceeded, match=r"10 partitions .* 6 .* 5") as no:
        check_partitions(SOME, (of("some", "b"), {"v": 5}), None, there)
    assert [one.pointer for one in no.value.fields] == ["/source/topics"]
    check_partitions(SOME, (of("other", "b"), {"v": 5_000}), None, [])


def test_a_datastream_beyond_the_quota_becomes_smaller_and_no_larger() -> None:
    former = of("some", "a"), {"t": 20}
    check_partitions(SOME, (of("some", "a"), {"t": 20}), former, [])
    check_partitions(SOME, (of("some", "a"), {"t": 15}), former, [])
    with pytest.raises(QuotaExceeded):
        check_partitions(SOME, (of("some", "a"), {"t": 21}), former, [])
    with pytest.raises(QuotaExceeded):  # the owner changes
        check_partitions(SOME, (of("some", "a"), {"t": 20}), (of("other", "a"), {"t": 20}), [])


def test_datastreams_that_share_tasks_copy_a_topic_once() -> None:
    shared = {"owner": "some", "system.taskPrefix": "both"}
    one, other = (a_datastream(name, metadata=shared) for name in "ab")
    check_partitions(SOME, (one, {"t": 8}), None, [(other, {"t": 8, "u": 2})])


def test_those_that_count_together_are_asked_for_only_where_something_is_new() -> None:
    mine, others = of("some", "a"), [of("some", "b"), of("other", "c")]
    assert [one.name for one in counted_with(SOME, mine, None, others)] == ["a", "b"]
    assert counted_with(SOME, mine, of("some", "a", 5), others) == []
    assert counted_with(QUOTAS, of("few", "a"), None, others) == []
    assert len(counted_with(SOME, mine, of("other", "a"), others)) == 2


def test_what_is_copied_goes_on_and_what_is_new_waits() -> None:
    one, other = of("some", "a"), of("some", "b")
    selected = [(one, {"t": 8, "u": 1}), (other, {"v": 3})]
    held = {one.group: {"t": 7}}
    found = waiting_for_quota(SOME, selected, held)
    assert {name: {topic: it.copied for topic, it in topics.items()} for name, topics in found.items()} == {
        "b": {"v": 0}
    }
    assert "3 partitions" in found[other.name]["v"].reason
    grown = waiting_for_quota(SOME, [(one, {"t": 12}), (other, {"v": 3})], held | {other.group: {"v": 3}})
    assert grown == {one.name: {"t": grown[one.name]["t"]}}
    assert (grown[one.name]["t"].copied, grown[one.name]["t"].reason[:12]) == (7, "5 partitions")
    assert waiting_for_quota({"some": OwnerQuota(partitions=1)}, [(one, {"t": 7})], held) == {}
