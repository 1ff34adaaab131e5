"""Pages of a real service in Chromium, read repeatedly while a test changes the service."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from playwright.sync_api import Browser, Page

from tests.browser.own_thread import in_browser_thread

_BADGES: Final = """() => [...document.querySelectorAll('main tbody tr')].map((row) => {
  const sign = row.querySelector('td[data-label=State] .sign');
  const text = (found) => found ? found.textContent.trim() : '';
  return [text(row.querySelector('.name a')), [...sign.classList].filter((name) => name !== 'sign').join(' '),
          text(sign), text(row.querySelector('td[data-label=State] .sub'))];
})"""
_INCIDENTS: Final = """() => [...document.querySelectorAll('section:has(#incidents) details')].map((one) => [
  one.querySelector('summary a').textContent.trim(), one.querySelector('summary .sign').textContent.trim(),
  one.querySelector('summary').textContent, one.querySelectorAll('ol > li').length])"""


class Badge(NamedTuple):
    """State of a datastream on the overview. `tone`: its colour."""

    datastream: str
    tone: str
    word: str
    why: str


class ShownIncident(NamedTuple):
    """Incident on its page. `text`: its headline."""

    datastream: str
    state: str
    text: str
    entries: int


@dataclass
class Screen:
    """Overview and incidents of an instance, in two tabs."""

    overview: Page
    listing: Page

    def badges(self) -> list[Badge]:
        """Return the current states on the overview."""
        return [Badge(*row) for row in in_browser_thread(lambda: self.overview.evaluate(_BADGES))]

    def incidents(self) -> list[ShownIncident]:
        """Return the incidents on their page."""
        return [ShownIncident(*row) for row in in_browser_thread(lambda: self.listing.evaluate(_INCIDENTS))]

    @contextmanager
    def recorded(self, interval_seconds: float = 0.5) -> Iterator[list[Badge]]:
        """Record every state that the overview shows within the context, in order and without repetitions."""
        result, stop = list[Badge](), threading.Event()

        def watch() -> list[Badge]:
            found: dict[Badge, None] = {}
            while not stop.wait(interval_seconds):
                found.update(dict.fromkeys(self.badges()))
            return [*found]

        with ThreadPoolExecutor(1, "screen") as threads:
            watching = threads.submit(watch)
            try:
                yield result
            finally:
                stop.set()
                result += watching.result()


@contextmanager
def screen(browser: Browser, address: str) -> Iterator[Screen]:
    """Open the pages of the instance at `host:port` for the context."""

    def opened() -> Screen:
        context = browser.new_context(locale="en-GB", timezone_id="UTC")
        pages = [context.new_page() for _ in range(2)]
        for page, place in zip(pages, ("", "incidents"), strict=True):
            page.goto(f"http://{address}/ui/#/{place}")
            page.wait_for_selector("main h1")
        pages[0].wait_for_selector("main tbody tr")
        return Screen(*pages)

    shown = in_browser_thread(opened)
    try:
        yield shown
    finally:
        in_browser_thread(shown.overview.context.close)
