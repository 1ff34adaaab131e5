"""A browser for the tests of a module, and a separate page for each test.

Tests with a browser run in a separate thread (`own_thread`), including set-up and teardown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from fastapi import FastAPI
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import WIDE, running_chromium
from tests.browser.own_thread import in_browser_thread
from tests.browser.served import served

OpenPage = Callable[..., Page]
Serve = Callable[[FastAPI], str]
PATIENCE_MS = float(os.environ.get("BROWSER_PATIENCE_MS", "120000"))
expect.set_options(timeout=PATIENCE_MS)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run tests with a browser in its thread; return None for others, which pytest runs as usual."""
    if "chromium" not in getattr(item, "fixturenames", ()):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    in_browser_thread(lambda: runtestprotocol(item, nextitem=nextitem))
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Return a browser that ends with its module.

    It is closed in its thread even if an aborted run tears down fixtures in the main thread.
    """
    running = ExitStack()
    yield in_browser_thread(lambda: running.enter_context(running_chromium()))
    in_browser_thread(running.close)


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as running:
        yield lambda app: running.enter_context(served(app))


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[OpenPage]:
    """Return a function that opens an address in a new tab.

    Console messages of a page, and its requests to other hosts, fail the test at the end.
    """
    contexts, troubles = [], list[str]()

    def open_one(address: str, **more: Any) -> Page:
        context = chromium.new_context(**{"viewport": WIDE, "locale": "en-GB", "timezone_id": "UTC", **more})
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        host = address.split("/")[2]
        page.on("pageerror", lambda error: troubles.append(f"error: {error}"))
        page.on(
            "console", lambda said: troubles.append(said.text) if _is_trouble(said.text, said.type) else None
        )
        page.on(
            "request",
            lambda asked: troubles.append(asked.url) if asked.url.split("/")[2] != host else None,
        )
        page.goto(address)
        return page

    yield open_one
    for one in contexts:
        one.close()
    assert not troubles


def _is_trouble(text: str, kind: str) -> bool:
    """Return whether the message is a problem. Browsers also log failed requests, which the page shows."""
    return kind in ("error", "warning") and "Failed to load resource" not in text
