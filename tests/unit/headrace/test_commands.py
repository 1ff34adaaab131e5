"""Test that every command has help and starts fast."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import typer

from headrace.__main__ import app
from tests.patience import PATIENCE_SECONDS
from tests.unit.headrace.conftest import Headrace

REPOSITORY = Path(__file__).parents[3]
ROOT = typer.main.get_command(app)


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*path, name))


ALL = sorted(commands(ROOT))


def test_there_are_the_commands_that_the_documents_name() -> None:
    named = {
        "serve",
        "datastream",
        "rebalance",
        "events",
        "monitor",
        "audit",
        "config",
        "pinot",
        "pmp",
    }
    assert named <= {path[0] for path in ALL if path}
    assert {
        ("datastream", one) for one in ("create", "list", "get", "pause", "resume", "stop", "delete")
    } <= set(ALL)


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_explains_itself(headrace: Headrace, path: tuple[str, ...]) -> None:
    """That `-h` is the same option is a test of `tests/unit/headrace_dev/test_generated_pages.py`."""
    shown = headrace(*path, "--help")
    assert shown.code == 0, shown.err
    assert "Usage:" in shown.out
    assert len(shown.out.splitlines()) > 5


def test_an_unknown_command_is_wrong_use(headrace: Headrace) -> None:
    assert headrace("explode").code == 2
    assert headrace("datastream", "create").code == 2


def test_the_entry_point_is_installed() -> None:
    (found,) = entry_points(group="console_scripts", name="headrace")
    assert found.value == "headrace.__main__:main"
    assert callable(found.load())


def test_help_needs_none_of_the_heavy_libraries() -> None:
    script = (
        "import sys; from headrace.__main__ import app; from typer.testing import CliRunner; "
        "CliRunner().invoke(app, ['--help']); "
        "heavy = {'pyspark', 'pandas', 'numpy', 'ortools', 'pinotdb', 'confluent_kafka', 'kazoo', 'fastapi'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    assert done.stdout.strip() == "[]"


def imported_by(folder: Path, *command: str) -> set[str]:
    """Return the modules that a command imports when no instance responds."""
    script = (
        f"import sys; sys.argv = {['headrace', *command]!r}\n"
        "from headrace.__main__ import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(*(name for name, module in sys.modules.items() if module is not None))"
    )
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
        cwd=folder,
        env=plain | {"PYTHONPATH": str(REPOSITORY)},
    )
    return set(done.stdout.split())


def test_a_command_that_asks_a_service_imports_little(tmp_path: Path) -> None:
    modules = imported_by(tmp_path, "status", "--at", "127.0.0.1:1")
    heavy = {"headrace.settings", "pydantic_settings", "structlog", "rich.console", "monitor", "httpx._main"}
    assert not heavy & modules
    assert "httpx" in modules


def test_a_monitor_of_another_process_does_not_import_the_rest_interface(tmp_path: Path) -> None:
    modules = imported_by(tmp_path, "monitor", "--once", "--at", "127.0.0.1:1")
    assert not {"api.services", "fastapi"} & modules
    assert "monitor.cycle" in modules


def test_a_look_at_stored_progress_does_not_import_the_web_framework(tmp_path: Path) -> None:
    modules = imported_by(tmp_path, "progress", "--destination", "unknown", "--state", "s")
    assert not {"api.services", "fastapi"} & modules
    assert "mirror.jobs.stored_lanes" in modules


def test_a_failover_does_not_import_the_web_framework() -> None:
    script = (
        "import sys, headrace.clusters.adhoc, headrace.dr, mirror.jobs.groups.failover; "
        "from importlib import import_module; from pkgutil import iter_modules; "
        "[import_module(f'headrace.dr.{one.name}') for one in iter_modules(headrace.dr.__path__)]; "
        "print('fastapi' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
    )
    assert done.stdout.strip() == "False"


def test_settings_that_are_right_are_one_line(headrace: Headrace) -> None:
    shown = headrace("config", "check")
    assert (shown.code, len(shown.out.splitlines())) == (0, 1)
    assert len(headrace("config", "check", "--verbose").out.splitlines()) > 100
