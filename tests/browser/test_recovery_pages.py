"""Pages of pairs of clusters and of consumer groups that follow."""

from __future__ import annotations

from typing import Final

import pytest
from playwright.sync_api import expect

from headrace.dr.state_store import fresh_state
from headrace.dr.status import PairView
from mirror.jobs.dr.operation import Step, begin, completed, entered, failed, operation_of
from mirror.jobs.dr.settings import PairSettings
from tests.browser.chromium import PHONE
from tests.browser.conftest import OpenPage, Serve
from tests.browser.test_flows import violations
from tests.fakes.site import Site
from tests.unit.api.test_consumer_groups import with_groups

pytestmark = pytest.mark.long
HOSTILE: Final = "<img src=x onerror=alert(1)>"


def pairs() -> list[PairView]:
    """Return a pair that is steady, one with an operation in progress, and one whose state is unknown."""
    settings = PairSettings(primary="source", standby="destination", datastreams=["orders"])
    fresh = fresh_state(HOSTILE, settings)
    undone = completed(failed(begin(fresh, "destination", "i", 1, HOSTILE), HOSTILE), 2)
    running = begin(fresh_state("running", settings), "destination", "j", 3, "ann@host")
    running = running.with_(operation=entered(operation_of(running), Step.DRAINED, 4))
    return [
        PairView(HOSTILE, settings, undone),
        PairView("running", settings, running),
        PairView("unknown", settings, None, "the store does not respond"),
    ]


def test_pairs_and_groups_are_shown_and_nothing_can_be_changed(serve: Serve, open_page: OpenPage) -> None:
    site = with_groups(Site())
    site.pairs = pairs()
    address = serve(site.app)
    page = open_page(f"{address}/ui/#/dr", viewport=PHONE, has_touch=True)
    hostile, running, unknown = (
        page.get_by_role("region", name=name, exact=True) for name in (HOSTILE, "running", "unknown")
    )
    expect(hostile.get_by_text("undone")).to_contain_text(HOSTILE)
    expect(hostile.locator("tbody").last.locator("tr")).to_have_count(1)
    expect(hostile).to_contain_text("LOSS_ACCEPTED")
    expect(running).not_to_contain_text("LOSS_ACCEPTED")
    expect(running.locator("tr[aria-current=step]")).to_contain_text("DRAINED")
    expect(running.locator("tbody").first).to_contain_text("unknown")
    expect(unknown).to_contain_text("the store does not respond")
    expect(page.locator("main button")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert violations(page) == []

    page.goto(f"{address}/ui/#/datastreams/orders")
    card = page.get_by_role("region", name="Consumer groups", exact=True)
    rows = card.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("members there")
    card.get_by_role("button", name="audit/eu").click()
    expect(card.get_by_text("copy.t-1")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    assert violations(page) == []
