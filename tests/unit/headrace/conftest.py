"""Nobody's own settings reach these tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[[str], Path]


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in tuple(os.environ):
        if variable.startswith("HEADRACE_"):
            monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a configuration file."""

    def to_file(text: str) -> Path:
        file = tmp_path / "some.toml"
        file.write_text(text, encoding="utf-8")
        return file

    return to_file
