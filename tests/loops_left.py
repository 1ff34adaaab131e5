"""Blames a test that leaves an event loop running, in place of all that come after it in its process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Fails it where the main thread would refuse `asyncio.run` after it. The loop is set aside, so that
    others are judged by what they do."""
    yield
    if threading.current_thread() is threading.main_thread() and asyncio._get_running_loop() is not None:
        asyncio._set_running_loop(None)
        pytest.fail(f"{item.nodeid} leaves an event loop running", pytrace=False)
