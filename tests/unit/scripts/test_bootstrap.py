"""The set-up's complaints: each is one line that says what to do."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from types import ModuleType

import pytest

from tests.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[3]
Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def bootstrap() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bootstrap", ROOT / "scripts" / "bootstrap.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def the_line(capsys: pytest.CaptureFixture[str]) -> str:
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1, lines
    return lines[0]


def test_an_old_python_is_told_what_to_do(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    with pytest.raises(SystemExit) as ended:
        bootstrap.check_python()
    assert ended.value.code == 1
    line = the_line(capsys)
    assert "Python 3.11 or newer is needed" in line
    assert "PYTHON=" in line


def test_the_script_can_be_read_by_an_old_python() -> None:
    source = (ROOT / "scripts" / "bootstrap.py").read_text()
    compile(source, "bootstrap.py", "exec", dont_inherit=True)
    import ast

    ast.parse(source, feature_version=(3, 7))


def test_too_little_disk_is_told_what_to_do(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100e9, 99e9, 1e9))
    with pytest.raises(SystemExit):
        bootstrap.check_disk()
    line = the_line(capsys)
    assert "1.0 GB free" in line
    assert "6 GB are needed" in line


def test_no_registry_is_told_what_to_do(tmp_path: Path) -> None:
    copy = tmp_path / "project"
    for name in ("scripts/bootstrap.py", "requirements/dev.txt", "pyproject.toml"):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy / name)
    nowhere = {
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "0",
        "PIP_TIMEOUT": "2",
        "PIP_NO_CACHE_DIR": "1",
        "PIP_FIND_LINKS": "",
    }
    done = subprocess.run(
        [sys.executable, copy / "scripts" / "bootstrap.py"],
        env={**os.environ, **nowhere},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "is the package registry reachable?" in line
    assert "PIP_INDEX_URL" in line


def test_a_mirror_only_install_is_small() -> None:
    names = {
        line.partition("==")[0]
        for line in (ROOT / "requirements" / "run.txt").read_text().splitlines()
        if "==" in line
    }
    assert names, "the lock file is empty"
    assert not names & {"pyspark", "ortools", "pandas", "numpy", "pyarrow", "pinotdb", "matplotlib", "scipy"}
    assert {"confluent-kafka", "kazoo", "fastapi"} <= names
