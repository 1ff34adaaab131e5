"""The compiled data plane behaves like its sources: run the same tests with machine code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.process.machine_code import worker_command
from headrace_dev.compilation.builds import DONE, NO_COMPILER, build
from tests.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

_HOUSE = Path(__file__).parents[3]
_SUFFIX = {DONE: ".so", NO_COMPILER: ".py"}


@pytest.fixture(scope="module")
def suffix() -> str:
    """Return the suffix of the module files after everything that can be compiled is compiled."""
    return _SUFFIX[build()]


@pytest.mark.parametrize(
    "module", ["mirror.protocol.batches.batch", "mirror.lane.lane", "mirror.replication.channels.sender"]
)
def test_worker_processes_run_machine_code_where_there_is_a_compiler(suffix: str, module: str) -> None:
    program = (
        "from headrace.process.machine_code import data_plane, take; take(); print(data_plane()); "
        f"import {module} as it; print(it.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=_HOUSE,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    reported, file = done.stdout.split()
    assert Path(file).suffix == suffix
    assert reported == {".so": "compiled", ".py": "interpreted"}[suffix]


def test_the_worker_program_imports_what_it_needs_beside_machine_code(suffix: str) -> None:
    """Compiled classes lack some types of fields, from which tables are derived."""
    program = "from headrace.process.machine_code import take; take(); import headrace.worker"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=_HOUSE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{suffix}: {done.stderr[-4000:]}"


@pytest.mark.parametrize(
    "tests",
    [
        ("tests/unit/mirror/protocol", "tests/property/mirror/protocol", "tests/fuzz"),
        ("tests/unit/mirror/lane", "tests/property/mirror/lane"),
        ("tests/contract/mirror/test_copy_engine.py", "-k", "fake"),
    ],
    ids=["protocol", "lane", "engine"],
)
def test_the_tests_of_the_sources_hold(suffix: str, tests: tuple[str, ...]) -> None:
    command = worker_command("pytest", "-q", *tests)
    done = subprocess.run(command, cwd=_HOUSE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
