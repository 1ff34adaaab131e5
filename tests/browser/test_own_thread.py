"""Leftovers of a browser test do not affect other tests of its process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.browser.packages import executable

ROOT = Path(__file__).parents[2]

BROWSER_TESTS = """
import asyncio

import pytest

pytestmark = pytest.mark.deep


async def answer():
    return 42


@pytest.fixture
def a_broken_set_up(chromium):
    raise RuntimeError("set-up")


def test_that_passes(chromium):
    page = chromium.new_page()
    page.goto("data:text/html,<h1>here</h1>")
    assert page.locator("h1").inner_text() == "here"


def test_that_fails(chromium):
    chromium.new_page()
    assert False


def test_without_set_up(a_broken_set_up):
    pass


def test_of_loops_while_the_browser_runs():
    assert asyncio.run(answer()) == 42
"""

NO_BROWSER = """
import asyncio

import pytest

from tests.browser import chromium as browsers


async def answer():
    return 42


@pytest.fixture(scope="module", autouse=True)
def no_browser():
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(browsers, "executable", lambda: browsers.Path("/bin/false"))
        patches.setattr(browsers, "_environment", lambda folder: {})
        yield


def test_without_a_browser(chromium):
    pass


def test_of_loops_where_no_browser_started():
    assert asyncio.run(answer()) == 42
"""

LEFT_RUNNING = """
import asyncio


async def answer():
    return 42


def test_that_leaves_a_loop():
    loop = asyncio.new_event_loop()
    loop.close()
    asyncio._set_running_loop(loop)


def test_of_loops_after_it():
    assert asyncio.run(answer()) == 42
"""


def outcome(folder: Path, plugin: str) -> str:
    """Return pytest's output for all tests in the folder, in one process and in order."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:randomly", "-p", "no:cacheprovider"]
    command += ["-c", str(ROOT / "pyproject.toml"), "-p", plugin, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    return done.stdout + done.stderr


def test_loops_run_beside_and_after_a_browser_that_fails_or_never_started(tmp_path: Path) -> None:
    executable()
    (tmp_path / "test_a_browser.py").write_text(BROWSER_TESTS)
    (tmp_path / "test_b_no_browser.py").write_text(NO_BROWSER)
    said = outcome(tmp_path, "tests.browser.conftest")
    assert "1 failed, 3 passed, 2 errors" in said, said
    assert "FAILED" in said
    assert "test_that_fails" in said


def test_a_test_that_leaves_a_loop_running_is_named_and_no_other_fails(tmp_path: Path) -> None:
    (tmp_path / "test_left.py").write_text(LEFT_RUNNING)
    said = outcome(tmp_path, "tests.loops_left")
    assert "2 passed, 1 error" in said, said
    blamed = [line for line in said.splitlines() if "loop running" in line]
    assert blamed, said
    assert all("::test_that_leaves_a_loop " in line for line in blamed), said
