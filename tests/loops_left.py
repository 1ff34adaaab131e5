"""Detection of tests that leave an event loop running, which would fail later tests in the process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Fail the test if `asyncio.run` could not run after it in the main thread.

    The loop is unset, so that later tests are not affected.
    """
    yield
    if threading.current_thread() is threading.main_thread() and asyncio._get_running_loop() is not None:
        asyncio._set_running_loop(None)
        pytest.fail(f"{item.nodeid} leaves an event loop running", pytrace=False)
