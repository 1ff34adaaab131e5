"""The datastreams of an owner never exceed the quota, for any sequence of requests."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from mirror.control.owner_quotas import OwnerQuota, check_quota, waiting_for_quota
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


COUNTS: Final = st.dictionaries(st.sampled_from("tuvw"), st.integers(1, 9), max_size=4)
DATASTREAMS: Final = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), OWNERS, COUNTS), max_size=6, unique_by=lambda one: one[0]
)
LIMITED: Final = st.dictionaries(
    st.sampled_from(["a", "b", "*"]), st.builds(OwnerQuota, st.just(0), st.just(0), st.integers(0, 40))
)


@given(LIMITED, DATASTREAMS, DATASTREAMS)
def test_what_waits_for_partitions(
    quotas: dict[str, OwnerQuota],
    asked: list[tuple[str, str, dict[str, int]]],
    before: list[tuple[str, str, dict[str, int]]],
) -> None:
    """`before`: partitions already copied, admitted under any earlier quota."""
    selected = [(a_datastream(name, metadata={"owner": owner}), counts) for name, owner, counts in asked]
    held = {a_datastream(name).group: counts for name, _, counts in before}
    waits = waiting_for_quota(quotas, selected, held)

    def copied(one: Datastream, counts: dict[str, int]) -> dict[str, int]:
        theirs = waits.get(one.name, {})
        return {topic: theirs[topic].copied if topic in theirs else count for topic, count in counts.items()}

    for one, counts in selected:
        for topic, count in copied(one, counts).items():
            assert min(counts[topic], held.get(one.group, {}).get(topic, 0)) <= count <= counts[topic]
    for owner in "ab":
        mine = [(one, counts) for one, counts in selected if one.metadata["owner"] == owner]
        most = (quotas.get(owner) or quotas.get("*") or OwnerQuota()).partitions
        kept = sum(
            min(count, held.get(one.group, {}).get(topic, 0))
            for one, counts in mine
            for topic, count in counts.items()
        )
        total = sum(sum(copied(one, counts).values()) for one, counts in mine)
        alone = waiting_for_quota(quotas, mine, held)
        assert alone == {name: waits[name] for name in alone}  # other owners' datastreams have no effect
        waiting = [
            counts[topic] - it.copied for one, counts in mine for topic, it in waits.get(one.name, {}).items()
        ]
        if most:
            assert total <= max(most, kept)
            assert all(total + more > most for more in waiting)  # a topic waits only if it does not fit
        else:
            assert not waiting
    again = {one.group: copied(one, counts) for one, counts in selected}
    after = waiting_for_quota(quotas, selected, again)
    assert {name: set(topics) for name, topics in after.items()} == {
        name: set(topics) for name, topics in waits.items()
    }
