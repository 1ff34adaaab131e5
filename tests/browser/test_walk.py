"""The walkthrough to the hot partition, and the pages on the past and the coming hours."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
from playwright.sync_api import expect

from bench.pages.rig.walk import WAY, walk
from mirror.errors import Unreachable
from tests.browser.chromium import PHONE
from tests.browser.conftest import OpenPage, Serve
from tests.browser.shop import HOT, Shop
from tests.browser.test_flows import violations

pytestmark = pytest.mark.long

_BROKEN_WORDS: Final = """() => [...document.querySelectorAll('td .sub')].flatMap((one) => {
  const found = [];
  for (const text of [...one.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE))
    for (const word of text.data.matchAll(/[a-z0-9]+/gi)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (range.getClientRects().length > 1) found.push(word[0]);
    }
  return found;
})"""
"""Script that returns the words of cells which span two lines."""


@pytest.fixture
def shop() -> Shop:
    return Shop()


def test_who_follows_the_way_finds_the_hot_partition(shop: Shop, serve: Serve, open_page: OpenPage) -> None:
    stops = list[str]()
    found = walk(open_page(f"{serve(shop.app)}/"), stops.append)
    assert found.partition == HOT
    assert found.text.startswith(HOT)
    assert stops == [one.name for one in WAY]


def test_a_hot_partition_says_since_when_and_others_do_not(
    shop: Shop, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(f"{serve(shop.app)}/ui/#/offending?datastream=shop")
    rows = page.locator("tbody tr")
    expect(rows.nth(0)).to_contain_text(HOT)
    expect(rows.nth(0).get_by_text(re.compile("^since"))).to_be_visible()
    expect(rows.nth(0).locator(".spark")).to_have_attribute("aria-label", re.compile("62 B/s"))
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
    expect(page.locator("section:has(#table)")).to_contain_text("the Pinot broker")
    page.goto(f"{address}/ui/#/datastreams/shop")
    expect(page.locator(".chart canvas")).to_have_count(4)
    expect(page.locator("section:has(#oldest)")).to_contain_text("the Pinot broker")
    assert violations(page) == []


def test_a_longer_past_is_one_click_or_key_away(shop: Shop, serve: Serve, open_page: OpenPage) -> None:
    page = open_page(f"{serve(shop.app)}/ui/#/datastreams/shop")
    expect(page.locator(".chart canvas")).to_have_count(5)
    expect(page.get_by_text("p99 between").first).to_be_visible()
    newest = page.locator(".chart").first.locator(".u-value")
    expect(newest.nth(0)).to_have_text(re.compile(r"\d{2}:\d{2}"))
    expect(newest.nth(1)).to_have_text(re.compile(r"\d (ms|s)$"))
    week = page.locator("button[aria-pressed]").last
    week.focus()
    with page.expect_request(re.compile(r"latency/history\?hours=168")):
        week.press("Enter")
    expect(week).to_have_attribute("aria-pressed", "true")
    expect(page.locator("header:has(#late)")).to_contain_text("60 min")


@pytest.mark.parametrize("more", [{}, {"color_scheme": "dark"}, {"viewport": PHONE, "has_touch": True}])
def test_the_advice_says_how_many_why_and_what_it_would_save(
    more: dict[str, Any], shop: Shop, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(f"{serve(shop.app)}/ui/#/advice", **more)
    expect(page.locator("h1")).to_have_text("Advice")
    expect(page.locator(".head .sign.bad")).to_be_visible()
    expect(page.get_by_text("3 tasks on 2 instances are needed now")).to_be_visible()
    expect(page.get_by_text("4 to 5 tasks")).to_be_visible()
    expect(page.get_by_text("3 task-hours")).to_be_visible()
    expect(page.get_by_text(re.compile("last day .*61 task-hours"))).to_be_visible()
    expect(page.get_by_text(re.compile(r"last week .*150\D+168\D+210 task-hours.*90 .*30 %"))).to_be_visible()
    expect(page.get_by_text("95 % of 40 forecasts")).to_be_visible()
    expect(page.locator(".chart canvas")).to_have_count(1)
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]  # type: ignore[index]
    assert violations(page) == []


def test_no_word_of_a_table_is_broken_in_two(serve: Serve, open_page: OpenPage) -> None:
    shop = Shop("headrace-production-1")
    narrow = {"width": 900, "height": 860}
    page = open_page(f"{serve(shop.app)}/ui/#/offending?datastream=shop", viewport=narrow)
    expect(page.locator("tbody tr").nth(0)).to_contain_text("headrace-production-1")
    assert page.evaluate(_BROKEN_WORDS) == []
