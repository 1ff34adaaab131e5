"""Whatever is asked for, one after the other: the datastreams of an owner are never more than the quota."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from mirror.control.owner_quotas import OwnerQuota, check_quota
from mirror.errors import QuotaExceeded
from mirror.model.datastreams.datastream import Datastream
from tests.builders import a_datastream

OWNERS: Final = st.sampled_from(["a", "b"])
CALLS: Final = st.lists(st.tuples(st.sampled_from("stuvwxyz"), OWNERS, st.integers(0, 60)), max_size=40)
QUOTAS: Final = st.dictionaries(
    st.sampled_from(["a", "b", "*"]), st.builds(OwnerQuota, st.integers(0, 4), st.integers(0, 100))
)


@given(QUOTAS, CALLS)
def test_what_is_let_in_is_within_the_quota(
    quotas: dict[str, OwnerQuota], calls: list[tuple[str, str, int]]
) -> None:
    there: dict[str, Datastream] = {}
    for name, owner, rate in calls:
        rates = {"headrace.bytes-per-second": str(rate)} if rate else {}
        new = a_datastream(name, metadata={"owner": owner, **rates})
        try:
            check_quota(quotas, new, there.get(name), list(there.values()))
        except QuotaExceeded:
            continue
        there[name] = new
    for owner in "ab":
        quota = quotas.get(owner) or quotas.get("*") or OwnerQuota()
        mine = [one for one in there.values() if one.metadata["owner"] == owner]
        rates_of_mine = [one.policy.bytes_per_second for one in mine]
        assert not quota.datastreams or len(mine) <= quota.datastreams
        if quota.bytes_per_second:
            assert sum(rates_of_mine) <= quota.bytes_per_second
            assert all(rates_of_mine)
