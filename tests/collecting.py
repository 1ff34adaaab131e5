"""Test collection without the garbage collector, and with imports shared by the processes of a run."""

from __future__ import annotations

import contextlib
import gc
import importlib
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

_ALL_TESTS: Final = Path(__file__).parent
_GARBAGE_THRESHOLDS: Final = (20_000, 20, 50)
"""Rarer collections than Python's default, since caches of the tests live as long as the process."""


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Disable garbage collection during collection, and freeze the objects that exist at its end.

    It would repeatedly traverse permanent objects.
    """
    gc.disable()
    try:
        _import_a_share(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*_GARBAGE_THRESHOLDS)
        gc.enable()


def _import_a_share(config: pytest.Config) -> None:
    """Import one share of the test modules before the others, in each process of a whole run.

    All processes collect all tests in the same order. In a fresh clone each of them would compile every
    module at the same time as the others; with shares, each module is compiled once.
    """
    given: dict[str, str | int] = getattr(config, "workerinput", {})
    if not given or [Path(name).absolute() for name in config.args] != [_ALL_TESTS]:
        return
    number, count = int(str(given["workerid"]).removeprefix("gw")), int(given["workercount"])
    modules = sorted(file.relative_to(_ALL_TESTS.parent) for file in _ALL_TESTS.rglob("test_*.py"))
    for module in modules[number::count]:
        # The collection imports a module that fails again, and reports it.
        with contextlib.suppress(Exception):
            importlib.import_module(".".join(module.with_suffix("").parts))
