"""What the datastreams of one owner may be together."""

from __future__ import annotations

from typing import Final

import pytest

from mirror.control.owner_quotas import OwnerQuota, check_quota
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
    with pytest.raises(QuotaExceeded, match="'few' has 2 datastreams, and may have 2") as refused:
        check_quota(QUOTAS, of("few", "d"), None, there)
    assert [one.pointer for one in refused.value.fields] == ["/owner"]
    with pytest.raises(QuotaExceeded):
        check_quota(QUOTAS, of("few", "b"), of("other", "b"), there)  # it is given to them
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
    for rate, words in ((41, "41 more are not possible"), (0, "it says not which part")):
        with pytest.raises(QuotaExceeded, match=f"60 are taken: {words}") as refused:
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
