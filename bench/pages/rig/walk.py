"""Path of a new user through the pages: from the first page to the hot partition and its remedies.

A test follows it on a service in memory, `pages_pictures` on real servers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from playwright.sync_api import Page, expect

Taken = Callable[[str], None]


class Stop(NamedTuple):
    """Page on the path. `name`: of its screenshot; `text`: description of its content."""

    name: str
    text: str


WAY: Final = (
    Stop("overview", "all datastreams, worst first"),
    Stop("hot-partitions", "the hot partition, its share of a task, since when, and the remedy"),
    Stop("datastream", "latency of its records, and load of its tasks"),
    Stop("plan-preview", "a proposed plan, to be approved"),
    Stop("advice", "required tasks and instances"),
)

INCIDENT: Final = Stop("incident", "an open incident with its cause and evidence")


class Found(NamedTuple):
    """Result of following the path. `partition`: the hottest one; `text`: the sentence about it."""

    partition: str
    text: str


def walk(page: Page, taken: Taken, is_full: bool = True) -> Found:
    """Follow the path from the open first page. Calls `taken` with each stop once it is drawn.

    `is_full`: preview a full placement instead of one with few moves.
    """
    _drawn(page, "Datastreams")
    expect(page.locator("tbody tr").first).to_be_visible()
    taken("overview")
    page.locator("nav a[href='#/offending']").click()
    _drawn(page, "Hot partitions")
    first = page.locator("tbody tr").first
    expect(first.locator(".sign")).to_have_text(re.compile("hot|too heavy"))
    expect(first.get_by_text(re.compile("since"))).to_be_visible()
    found = Found(first.locator("td.name").inner_text(), page.get_by_role("status").inner_text())
    taken("hot-partitions")
    page.locator("main a[href^='#/datastreams/']").click()
    expect(page.locator("#late")).to_be_visible()
    expect(page.locator(".chart canvas")).to_have_count(5)
    expect(page.get_by_text(found.partition).or_(page.locator(".lanes i.hot")).first).to_be_attached()
    taken("datastream")
    page.locator("main a[href^='#/plans/']").click()
    buttons = page.locator("section:has(#compute) .act > div > button")
    (buttons.last if is_full else buttons.first).click()
    expect(page.locator("#diff")).to_be_visible()
    taken("plan-preview")
    page.get_by_role("link", name="Advice", exact=True).click()
    _drawn(page, "Advice")
    expect(page.locator("#saving")).to_be_visible()
    taken("advice")
    return found


def show_incident(page: Page, taken: Taken) -> None:
    """Open the page of incidents and wait for an open one with its cause. Calls `taken` once it is drawn."""
    page.get_by_role("link", name="Incidents", exact=True).click()
    _drawn(page, "Incidents and events")
    expect(page.locator("section:has(#incidents) .sign.bad").first).to_be_visible()
    taken(INCIDENT.name)


def _drawn(page: Page, title: str) -> None:
    expect(page.locator("h1")).to_have_text(title)
    expect(page.locator(".loading")).to_have_count(0)
