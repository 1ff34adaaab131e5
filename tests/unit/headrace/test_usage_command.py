"""`headrace usage`: tables, CSV and JSON of the same response."""

from __future__ import annotations

import csv
import io
import json

import pytest

from api.services import UsageReport
from headrace.errors import EXIT_USAGE
from monitor.usage_bill import DAY_MS, UsageLine
from tests.fakes.site import Site
from tests.unit.headrace.conftest import Headrace

DAY = 20_000


def line(topic: str, cost: float | None = 1.5) -> UsageLine:
    return UsageLine(DAY * DAY_MS, "team", "orders", "source", "destination", topic, 1_000, 10, 2, 0.25, cost)


@pytest.fixture
def used(site: Site) -> Site:
    lines = (line("t"), line("u", None))
    site.usage = lambda _: UsageReport(lines, "topic", "EUR", lambda _: 100)
    return site


def test_the_csv_has_every_topic_and_day(used: Site, headrace: Headrace) -> None:
    shown = headrace("usage", "--csv")
    assert shown.code == 0
    first, second = csv.DictReader(io.StringIO(shown.out))
    assert (first["day"], first["owner"], first["topic"], first["bytes"]) == (
        "2024-10-04",
        "team",
        "t",
        "1000",
    )
    assert (first["cost"], first["currency"], second["cost"]) == ("1.5", "EUR", "")


def test_the_json_is_the_response(used: Site, headrace: Headrace) -> None:
    found = json.loads(headrace("usage", "--json", "--since", "36h").out)
    assert [one["topic"] for one in found["lines"]] == ["t", "u"]
    assert found["owners"][0]["bytes"] == 2_000
    assert (used.clock.now_ms() // DAY_MS - 1) * DAY_MS == found["since_ms"]


def test_tables_show_owners_and_datastreams(used: Site, headrace: Headrace) -> None:
    shown = headrace("usage", "--owner", "team")
    assert shown.code == 0
    assert "team" in shown.out
    assert "orders" in shown.out
    assert headrace("usage", "--owner", "nobody").code == 0


@pytest.mark.parametrize("options", [("--csv", "--json"), ("--since", "soon"), ("--since", "2000d")])
def test_impossible_options_are_refused(used: Site, headrace: Headrace, options: tuple[str, ...]) -> None:
    assert headrace("usage", *options).code == EXIT_USAGE
