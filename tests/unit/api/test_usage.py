"""Usage over REST: filters, sums of owners, and failures of the measurements."""

from __future__ import annotations

from typing import Any

from httpx import Client

from api.services import UsageReport
from mirror.errors import Unreachable
from monitor.usage_bill import DAY_MS, UsageLine
from pinot.time_range import TimeRange
from tests.fakes.site import Site


def a_line(
    site: Site, owner: str = "one", topic: str = "t", size: int = 100, cost: float | None = 1.0
) -> UsageLine:
    day = site.clock.now_ms() // DAY_MS * DAY_MS
    return UsageLine(day, owner, f"of-{owner}", "source", "destination", topic, size, 10, 2, 0.5, cost)


def report(site: Site, *lines: UsageLine) -> list[TimeRange]:
    """Let the site report these lines; returns the ranges that it is asked for."""
    asked: list[TimeRange] = []

    def usage(when: TimeRange) -> UsageReport:
        asked.append(when)
        return UsageReport(lines, "topic", "EUR", lambda owner: 1_000 if owner == "one" else 0)

    site.usage = usage
    return asked


def get(client: Client, **parameters: Any) -> Any:
    answer = client.get("/v1/usage", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_lines_come_with_the_sums_of_their_owners(site: Site, client: Client) -> None:
    asked = report(site, a_line(site), a_line(site, topic="u"), a_line(site, "two", size=500, cost=None))
    found = get(client, days=3)
    assert (found["currency"], found["measured_by"], found["left_out"]) == ("EUR", "topic", 0)
    two, one = found["owners"]
    assert (two["owner"], two["bytes"], two["cost"], two["quota_share"]) == ("two", 500, None, None)
    assert (one["owner"], one["bytes"], one["cost"], one["quota_bytes_per_second"]) == (
        "one",
        200,
        2.0,
        1_000,
    )
    assert one["quota_share"] > 0
    today = site.clock.now_ms() // DAY_MS
    assert asked == [TimeRange((today - 2) * DAY_MS, site.clock.now_ms() + 1)]


def test_an_owner_and_a_datastream_may_be_chosen(site: Site, client: Client) -> None:
    report(site, a_line(site), a_line(site, "two"), a_line(site, ""))
    assert [one["owner"] for one in get(client, owner="two")["lines"]] == ["two"]
    assert [one["owner"] for one in get(client, owner="")["lines"]] == [""]
    assert [one["datastream"] for one in get(client, datastream="of-one")["lines"]] == ["of-one"]
    assert get(client, owner="nobody")["owners"] == []


def test_owners_count_lines_beyond_the_limit(site: Site, client: Client) -> None:
    report(site, *[a_line(site, topic=f"t{number}") for number in range(5)])
    found = get(client, limit=2)
    assert (len(found["lines"]), found["left_out"], found["owners"][0]["bytes"]) == (2, 3, 500)


def test_failures_and_impossible_periods_are_problems(site: Site, client: Client) -> None:
    assert client.get("/v1/usage").status_code == 503

    def away(_: TimeRange) -> UsageReport:
        raise Unreachable("no broker responds")

    site.usage = away
    assert client.get("/v1/usage").status_code == 503
    for wrong in ({"days": 0}, {"days": 400}, {"days": "x"}, {"limit": 0}):
        assert client.get("/v1/usage", params=wrong).status_code == 400
