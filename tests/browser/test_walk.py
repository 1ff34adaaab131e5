"""The way to the hot partition, and the pages about the past and the hours ahead."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from bench.pages.rig.walk import WAY, walk
from mirror.errors import Unreachable
from tests.browser.chromium import PHONE
from tests.browser.conftest import OpenPage, Serve
from tests.browser.shop import HOT, Shop
from tests.browser.test_flows import violations


@pytest.fixture
def shop() -> Shop:
    return Shop()


def test_who_follows_the_way_finds_the_hot_partition(shop: Shop, serve: Serve, open_page: OpenPage) -> None:
    stops = list[str]()
    found = walk(open_page(f"{serve(shop.app)}/"), stops.append)
    assert found.partition == HOT
    assert found.text.startswith(f"{HOT} is the hottest")
    assert stops == [one.name for one in WAY]


def test_a_hot_partition_says_since_when_and_others_do_not(
    shop: Shop, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(f"{serve(shop.app)}/ui/#/offending?datastream=shop")
    rows = page.locator("tbody tr")
    expect(rows.nth(0)).to_contain_text(HOT)
    expect(rows.nth(0).get_by_text(re.compile("^since"))).to_be_visible()
    expect(rows.nth(0).locator(".spark")).to_have_attribute("aria-label", re.compile("62 B/s in the newest"))
    expect(rows.nth(1)).not_to_contain_text("since")
    assert violations(page) == []


def test_without_a_history_everything_else_is_there_and_it_is_said(
    shop: Shop, serve: Serve, open_page: OpenPage
) -> None:
    def away(_: object) -> Any:
        raise Unreachable("the Pinot broker 127.0.0.1:1 does not answer", advice="is it running?")

    shop.load_history = shop.latency_history = away
    address = serve(shop.app)
    page = open_page(f"{address}/ui/#/offending?datastream=shop")
    expect(page.locator("tbody tr").nth(0)).to_contain_text("hot")
    expect(page.get_by_text("Since when they are hot is not known")).to_contain_text("does not answer")
    page.goto(f"{address}/ui/#/datastreams/shop")
    expect(page.locator(".chart canvas")).to_have_count(3)
    expect(page.get_by_text("Nothing older can be shown")).to_contain_text("does not answer")
    assert violations(page) == []


def test_a_longer_past_is_one_click_or_key_away(shop: Shop, serve: Serve, open_page: OpenPage) -> None:
    page = open_page(f"{serve(shop.app)}/ui/#/datastreams/shop")
    expect(page.locator(".chart canvas")).to_have_count(4)
    expect(page.get_by_text("p99 between").first).to_be_visible()
    newest = page.locator(".chart").first.locator(".u-value")
    expect(newest.nth(0)).to_have_text(re.compile(r"\d{2}:\d{2}"))
    expect(newest.nth(1)).to_have_text(re.compile(r"\d (ms|s)$"))
    week = page.get_by_role("button", name="a week")
    week.focus()
    with page.expect_request(re.compile(r"latency/history\?hours=168")):
        week.press("Enter")
    expect(page.get_by_role("button", name="a week")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_text("in steps of 60 min").first).to_be_visible()


@pytest.mark.parametrize("more", [{}, {"color_scheme": "dark"}, {"viewport": PHONE, "has_touch": True}])
def test_the_advice_says_how_many_why_and_what_it_would_save(
    more: dict[str, Any], shop: Shop, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(f"{serve(shop.app)}/ui/#/advice", **more)
    expect(page.locator("h1")).to_have_text("Advice")
    expect(page.get_by_text("more is needed", exact=True)).to_be_visible()
    expect(page.get_by_text("3 tasks on 2 instances are needed now")).to_be_visible()
    expect(page.get_by_text("4 to 5 tasks")).to_be_visible()
    expect(page.get_by_text("3 task-hours are missing")).to_be_visible()
    expect(page.get_by_text("The last day needed 61 task-hours at the least")).to_be_visible()
    expect(
        page.get_by_text("The last week (150 hours of 168 are known) needed 210 task-hours")
    ).to_be_visible()
    expect(page.get_by_text("sizing by the hour would save 90 (30 %)")).to_be_visible()
    expect(page.get_by_text("95 % of 40 forecasts covered what came")).to_be_visible()
    expect(page.locator(".chart canvas")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]  # type: ignore[index]
    assert violations(page) == []
