"""Test that compiled modules are used only if they were built from the present sources."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.process import machine_code
from headrace.process.machine_code import (
    SWITCH,
    build_folder,
    data_plane,
    installed_name,
    is_built,
    take,
    worker_command,
)
from headrace_dev.compilation import __main__ as compilation_commands
from headrace_dev.compilation.builds import DONE, FAILED, NO_COMPILER, build, check
from tests.patience import PATIENCE_SECONDS, wait_until

_PROGRAM = """
import sys
from pathlib import Path
from headrace.process.machine_code import take
print(take(Path(sys.argv[1])))
import mirror.lane.flow
print(mirror.lane.flow.__file__)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a repository with two source files."""
    for name in ("batch", "scan"):
        file = tmp_path / "mirror" / "wire" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"NAME = {name!r}\n")
    return tmp_path


def test_any_change_of_a_source_makes_it_another_build(home: Path) -> None:
    before = build_folder(home)
    assert build_folder(home) == before
    file = home / "mirror" / "wire" / "batch.py"
    file.write_text("NAME = 'another'\n")
    changed = build_folder(home)
    file.rename(file.with_name("renamed.py"))
    assert len({before, changed, build_folder(home)}) == 3


def test_a_change_of_the_compiling_code_makes_another_build_but_no_other_name_in_a_wheel(home: Path) -> None:
    before, name = build_folder(home), installed_name(home)
    assert before.name == name
    maker = home / "headrace_dev" / "compilation" / "builds.py"
    maker.parent.mkdir(parents=True)
    maker.write_text("FLAGS = ()\n")
    assert build_folder(home) != before
    assert installed_name(home) == name


def test_what_was_compiled_of_older_sources_is_not_taken(home: Path) -> None:
    build_folder(home).mkdir(parents=True)
    assert is_built(home)
    (home / "mirror" / "wire" / "batch.py").write_text("NAME = 'another'\n")
    assert not is_built(home)
    path = list(sys.path)
    assert not take(home)
    assert sys.path == path


def test_the_build_finds_its_own_package_before_it_is_installed(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(bare))
    assert build(home) == FAILED
    assert "'mypyc'" in capfd.readouterr().err


@pytest.mark.parametrize(("is_made", "switch", "is_taken"), [(1, "", 1), (1, "0", 0), (0, "", 0)])
def test_compiled_rooms_come_before_their_sources(
    home: Path, is_made: bool, switch: str, is_taken: bool
) -> None:
    made = build_folder(home) / "mirror" / "lane" / "flow.py"
    if is_made:
        made.parent.mkdir(parents=True)
        made.write_text("")
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(home)],
        env={**os.environ, SWITCH: switch},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    taken, file = done.stdout.splitlines()
    assert taken == str(bool(is_taken))
    assert (Path(file) == made) == is_taken


def test_sources_are_reported_as_interpreted() -> None:
    assert data_plane() == "interpreted"


def test_without_a_compiler_there_is_nothing_to_do(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "/nowhere/cc")
    assert check(home) == NO_COMPILER
    monkeypatch.setenv("CC", sys.executable)
    assert check(home) in (FAILED, NO_COMPILER)  # NO_COMPILER if Python's headers are missing
    build_folder(home).mkdir(parents=True)
    assert check(home) == DONE


def test_who_finds_another_that_compiles_waits_for_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", sys.executable)
    if check(home) == NO_COMPILER:  # without Python's headers nothing is built
        assert build(home) == NO_COMPILER
        return
    builds = build_folder(home).parent
    builds.mkdir(parents=True)
    with ThreadPoolExecutor(1) as other, (builds / "compiling.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = other.submit(build, home)
        waiter = f":{os.fstat(lock.fileno()).st_ino} "
        wait_until(
            lambda: any(
                "->" in line and waiter in line for line in Path("/proc/locks").read_text().splitlines()
            ),
            "the second build waits",
        )
        build_folder(home).mkdir()
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert built.result(PATIENCE_SECONDS) == DONE


def test_a_worker_process_runs_its_module_with_its_arguments() -> None:
    done = subprocess.run(
        worker_command("json.tool", "--help"),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert "--sort-keys" in done.stdout


def test_anything_else_is_told_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert compilation_commands.main(["walk"]) == 2
    assert "python -m headrace_dev.compilation build" in capsys.readouterr().err
    assert machine_code.main([]) == 2
    assert "python -m headrace.process.machine_code MODULE" in capsys.readouterr().err


_UNUSED_BY_COPIES = {"asyncio", "kazoo", "ortools", "pydantic", "re2", "structlog", "subprocess"}
_UNUSED_BY_THE_SERVICE = {
    "api.services",
    "click",
    "fastapi",
    "httpx",
    "kazoo",
    "mirror.instance.leader",
    "uvicorn",
}


@pytest.mark.parametrize(
    ("module", "unused"),
    [("headrace.copy.worker", _UNUSED_BY_COPIES), ("headrace.worker", _UNUSED_BY_THE_SERVICE)],
)
def test_a_worker_imports_nothing_that_it_has_no_use_for(module: str, unused: set[str]) -> None:
    """Each import would use memory in every worker process."""
    program = f"import sys, {module}; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert not unused & set(done.stdout.split())
