"""User flows in a real Chromium: viewing, clicking, typing, and accessibility."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from api.services import UsageReport
from mirror.model.topics import TopicPartition
from mirror.worker.protocol import LaneRate
from monitor.usage_bill import DAY_MS, UsageLine
from tests.browser.chromium import PHONE
from tests.browser.conftest import OpenPage, Serve
from tests.browser.packages import axe_source
from tests.browser.served import served
from tests.builders import SOURCE, a_datastream, a_key
from tests.fakes.site import Site
from tests.unit.api.guarded import Guarded

pytestmark = pytest.mark.long

PAGES = (
    "/",
    "/datastreams/orders",
    "/offending?datastream=orders",
    "/plans/orders",
    "/whatif/orders",
    "/edit/orders",
    "/edit",
    "/advice",
    "/usage",
    "/incidents",
    "/instances",
)


@pytest.fixture
def site() -> Site:
    """Return a site with a datastream of two copied partitions, one being late, and a damaged one."""
    site = Site()
    site.create(objective={"milliseconds": 2_500, "percentile": 99.0})
    site.clock.advance(120)  # records of before the creation do not count
    for key, lane in site.services.status.lanes.items():
        age_ms = 60_000 if key.partition == TopicPartition("t", 1) else 40
        lane.track.note(
            LaneRate(a_key(str(key.partition)), SOURCE, 1_000.0, 10.0, 7, age_ms),
            site.clock.monotonic(),
            None,
        )
    site.session.create("/datastreams/broken", b"{")
    day_ms = site.clock.now_ms() // DAY_MS * DAY_MS
    line = UsageLine(day_ms, "team", "orders", "source", "destination", "t", 10**9, 10, 2, 0.5, 1.5)
    lines = line, replace(line, owner="", datastream="gone", cost=None)
    site.usage = lambda _: UsageReport(lines, "topic", "EUR", lambda owner: 1_000 if owner else 0)
    return site


def violations(page: Page, *rules: str) -> list[str]:
    """Return the violations of these rules, or of all, that axe finds on the page as currently shown."""
    page.evaluate(axe_source())
    options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    found: dict[str, Any] = page.evaluate("options => axe.run(document, options)", options)
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found["violations"]]


def test_a_browser_at_the_root_sees_every_datastream_the_worst_first(
    site: Site, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(f"{serve(site.app)}/")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("broken")
    expect(rows.nth(0)).to_contain_text("damaged")
    expect(rows.nth(1)).to_contain_text("late")
    expect(rows.nth(1)).to_contain_text("60 s")
    expect(page.locator(".who .sign.good")).to_be_visible()
    page.get_by_role("link", name="orders").click()
    expect(page).to_have_title("orders · Headrace")
    expect(page.locator("h1")).to_have_text("orders")
    expect(page.locator("main")).to_be_focused()
    expect(page.locator("#placement")).to_be_visible()
    expect(page.locator(".chart canvas")).to_have_count(4)


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing(path: str, site: Site, serve: Serve, open_page: OpenPage) -> None:
    """The colour scheme changes only colours, so contrast alone is checked again in the dark one."""
    page = open_page(f"{serve(site.app)}/ui/#{path}", color_scheme="light")
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator(".loading")).to_have_count(0)
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, "color-contrast") == []


@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_wider_than_a_phone(path: str, site: Site, serve: Serve, open_page: OpenPage) -> None:
    page = open_page(f"{serve(site.app)}/ui/#{path}", viewport=PHONE, has_touch=True)
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator(".loading")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert violations(page) == []


def test_a_datastream_is_paused_after_a_question_and_resumed(
    site: Site, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(f"{serve(site.app)}/ui/#/datastreams/orders")
    page.get_by_role("button", name="Pause", exact=True).click()
    question = page.get_by_role("dialog")
    expect(question).to_contain_text("orders until")
    expect(question).to_contain_text("/v1/datastreams/orders/pause")
    expect(question.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    expect(question).to_be_hidden()
    assert site.stored("orders").status == "READY", "pressing Enter twice paused it"
    page.get_by_role("button", name="Pause", exact=True).click()
    question.get_by_role("button", name="Pause").click()
    resume = page.get_by_role("button", name="Resume")
    expect(resume).to_be_visible()
    assert site.stored("orders").status == "PAUSED"
    resume.click()
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    assert site.stored("orders").status == "READY"


def test_a_plan_is_computed_looked_at_and_approved(site: Site, serve: Serve, open_page: OpenPage) -> None:
    other = Site(site.server, "two")
    for one in (site, other, site, other):
        one.tick()
    page = open_page(f"{serve(site.app)}/ui/#/plans/orders")
    page.locator("section:has(#compute) .act > div > button").last.click()
    expect(page.locator("#diff")).to_be_visible()
    before = site.services.plan().epoch
    page.get_by_role("button", name="Approve and apply").click()
    page.get_by_role("dialog").get_by_role("button", name="Approve and apply").click()
    expect(page.get_by_text(re.compile("queued|done"))).to_be_visible()
    site.tick()
    expect(page.get_by_text("done", exact=True)).to_be_visible()
    assert site.services.plan().epoch > before


def test_a_slider_asks_what_would_happen_and_changes_nothing(
    site: Site, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(f"{serve(site.app)}/ui/#/whatif/orders")
    slider = page.locator("#min_tasks")
    slider.focus()
    slider.press("ArrowRight")
    expect(page.get_by_text("1 → 2")).to_be_visible()
    assert site.stored("orders").limits.min_tasks == 1
    page.locator("section:has(#effect) .act > div > button").click()
    page.get_by_role("dialog").locator("button.main").click()
    expect(page.locator("section:has(#effect) .act [role=status]")).to_have_text(re.compile(r"\w"))
    assert site.stored("orders").limits.min_tasks == 2


def test_a_token_is_asked_for_and_what_its_role_forbids_cannot_be_clicked(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    guarded = Guarded(tmp_path)
    address = serve(guarded.site.app)
    page = open_page(f"{address}/ui/#/datastreams/theirs")
    dialog = page.locator("dialog[aria-labelledby=token-title]")
    expect(dialog).to_be_visible()
    dialog.get_by_label("Token").fill("hr_00000000_" + "0" * 64)
    dialog.locator("button.main").click()
    expect(dialog.get_by_text("rejected")).to_be_visible()
    dialog.get_by_label("Token").fill("hr_00000000_00…")
    dialog.locator("button.main").click()
    expect(dialog.get_by_role("alert")).to_be_visible()
    dialog.get_by_label("Token").fill(guarded.tokens["owner"])
    dialog.locator("button.main").click()
    expect(page.locator(".who")).to_contain_text("otto")
    pause = page.get_by_role("button", name="Pause", exact=True)
    expect(pause).to_be_disabled()
    expect(page.locator("#why-pause")).to_contain_text("role")
    page.goto(f"{address}/ui/#/datastreams/mine")
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_enabled()
    assert guarded.tokens["owner"] not in page.content(), "a displayed command contains the token"
    page.locator(".who button").first.click()
    expect(dialog).to_be_visible()
    assert page.evaluate("Object.values(sessionStorage).join()").count("hr_") == 0


def test_names_and_reasons_of_strangers_are_text(serve: Serve, open_page: OpenPage) -> None:
    site = Site()
    name = "<img src=x onerror=alert(1)>"
    site.definitions.create(a_datastream(name, "t", metadata={"owner": '"><script>alert(2)</script>'}))
    page = open_page(f"{serve(site.app)}/ui/")
    page.get_by_role("link", name=name).click()
    expect(page.locator("h1")).to_have_text(name)
    assert page.locator("main img, main script").count() == 0


def test_500_datastreams_are_shown_by_pages_and_found_by_name(serve: Serve, open_page: OpenPage) -> None:
    site = Site()
    for number in range(500):
        site.definitions.create(
            a_datastream(f"datastream-{number:03}", f"t-{number}", metadata={"owner": "x"})
        )
    page = open_page(f"{serve(site.app)}/ui/")
    expect(page.locator("tbody tr")).to_have_count(50)
    bytes_loaded = "performance.getEntriesByType('resource').reduce((sum, one) => sum + one.transferSize, 0)"
    assert page.evaluate(bytes_loaded) < 300_000
    page.get_by_role("button", name="Show 50 more of 450").click()
    expect(page.locator("tbody tr")).to_have_count(100)
    page.get_by_role("searchbox").fill("datastream-49")
    expect(page.locator("tbody tr")).to_have_count(10)


def test_an_instance_that_goes_away_is_said_and_what_was_seen_stays(site: Site, open_page: OpenPage) -> None:
    with served(site.app) as address:
        page = open_page(f"{address}/ui/")
        expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.get_by_role("alert").first).to_contain_text("instance")
    expect(page.locator(".who .sign.idle")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(2)


def test_the_keyboard_is_enough(site: Site, serve: Serve, open_page: OpenPage) -> None:
    page = open_page(f"{serve(site.app)}/ui/")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.keyboard.press("Tab")
    expect(page.locator("a.skip")).to_be_focused()
    page.get_by_role("link", name="orders").focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("orders")
    address = page.url
    page.locator("a.skip").focus()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.locator("h1")).to_have_text("orders")
    assert page.url == address


@pytest.mark.parametrize("name", ["constructor", "__proto__", "toString", "nowhere"])
def test_an_address_of_no_page_says_so(name: str, site: Site, serve: Serve, open_page: OpenPage) -> None:
    page = open_page(f"{serve(site.app)}/ui/#/{name}")
    expect(page.get_by_role("alert")).to_contain_text("page")
