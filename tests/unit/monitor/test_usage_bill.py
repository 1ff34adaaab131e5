"""Usage is attributed to the datastream that selects a topic, priced, and summed by owner."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from mirror.model.datastreams.datastream import Datastream
from monitor.settings import UsageSettings
from monitor.usage_bill import DAY_MS, GB, PriceTable, bill, by_owner
from pinot.history.points import UsageSum
from tests.builders import a_datastream
from tests.examples import examples

NO_PRICES = PriceTable()


def a_sum(topic: str = "orders", size: int = 100, group: str = "shop", day: int = 0) -> UsageSum:
    return UsageSum(day * DAY_MS, group, "source", topic, 10, size, 2, 500.0)


def member(name: str, topics: str, owner: str, created_ms: int = 1) -> Datastream:
    metadata = {"owner": owner, "system.creation.ms": str(created_ms), "system.taskPrefix": "shop"}
    return a_datastream(name, topics, metadata=metadata)


def test_a_topic_counts_for_the_oldest_datastream_that_selects_it() -> None:
    members = [member("b", "orders", "two", 2), member("a", "orders|users", "one", 1)]
    lines = bill([a_sum(), a_sum("users")], members, NO_PRICES)
    assert [(one.owner, one.datastream, one.topic) for one in lines] == [
        ("one", "a", "orders"),
        ("one", "a", "users"),
    ]


def test_a_topic_that_nobody_selects_any_longer_counts_for_the_only_member_or_for_none() -> None:
    one, two = member("a", "orders", "one"), member("b", "users", "two")
    assert bill([a_sum("gone")], [one], NO_PRICES)[0].owner == "one"
    (line,) = bill([a_sum("gone")], [one, two], NO_PRICES)
    assert (line.owner, line.datastream, line.destination, line.cost) == ("", "shop", "", None)
    assert bill([a_sum()], [], PriceTable(1.0))[0].cost is None


def test_a_price_of_a_pair_precedes_the_default() -> None:
    table = PriceTable(0.05, {("source", "destination"): 0.02})
    assert table.cost("source", "destination", GB) == pytest.approx(0.02)
    assert table.cost("source", "west", 2 * GB) == pytest.approx(0.1)
    assert NO_PRICES.cost("source", "west", GB) is None


def test_one_unknown_price_makes_the_sum_unknown() -> None:
    lines = bill([a_sum(), a_sum("users")], [member("a", ".*", "one")], PriceTable(1.0))
    (known,) = by_owner(lines, lambda _: 0, 60.0)
    assert known.cost == pytest.approx(200 / GB)
    unknown = bill([a_sum()], [member("a", ".*", "one")], NO_PRICES)
    assert by_owner([*lines, *unknown], lambda _: 0, 60.0)[0].cost is None


def test_the_share_of_a_quota_is_the_mean_rate() -> None:
    lines = bill([a_sum(size=6_000)], [member("a", ".*", "one")], NO_PRICES)
    (owner,) = by_owner(lines, lambda _: 200, 60.0)
    assert (owner.quota_bytes_per_second, owner.quota_share) == (200, 0.5)
    assert by_owner(lines, lambda _: 0, 60.0)[0].quota_share is None
    assert by_owner(lines, lambda _: 200, 0.0)[0].quota_share is None


SUMS = st.lists(
    st.builds(
        a_sum,
        st.sampled_from(["orders", "users", "gone", "日"]),
        st.integers(0, 10**15),
        st.sampled_from(["shop", "other", "…"]),
        st.integers(0, 3),
    ),
    max_size=30,
)


@settings(max_examples=examples(100))
@given(SUMS)
def test_nothing_is_counted_twice_or_left_out(sums: list[UsageSum]) -> None:
    members = [member("a", "orders", "one"), member("b", "orders|users", "two", 2)]
    lines = bill(sums, members, PriceTable(0.01))
    owners = by_owner(lines, lambda _: 1, 1.0)
    for name in ("bytes", "records", "batches"):
        wanted = sum(getattr(one, name) for one in sums)
        assert sum(getattr(one, name) for one in lines) == wanted
        assert sum(getattr(one, name) for one in owners) == wanted
    assert len({one.owner for one in owners}) == len(owners)


def test_a_pair_has_one_price() -> None:
    price = {"source": "a", "destination": "b", "per_gb": 1.0}
    assert UsageSettings.model_validate({"prices": {"x": price}}).table().cost("a", "b", GB) == 1.0
    with pytest.raises(ValidationError, match="two prices"):
        UsageSettings.model_validate({"prices": {"x": price, "y": price}})
    with pytest.raises(ValidationError):
        UsageSettings.model_validate({"per_gb": float("nan")})
