"""The settings of a checkpoint folder survive a start that was interrupted while it stored them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mirror.errors import ConfigError
from pmp.adapters import checkpoint_facts
from pmp.adapters.checkpoint_facts import hold_to_facts

NO_SESSION: Any = None


class Stream:
    """A stream of Hadoop to or from a local file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def readAllBytes(self) -> bytes:  # noqa: N802 as in Java
        return self._path.read_bytes()

    def write(self, data: bytearray) -> None:
        self._path.write_bytes(bytes(data))

    def close(self) -> None:
        """Do nothing."""


class LocalFiles:
    """Hadoop's file system, on this machine."""

    def exists(self, path: Path) -> bool:
        return path.exists()

    def open(self, path: Path) -> Stream:
        return Stream(path)

    def create(self, path: Path) -> Stream:
        return Stream(path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(checkpoint_facts, "_place", lambda _, path: (LocalFiles(), Path(path)))
    return tmp_path


def test_a_checkpoint_keeps_the_settings_of_its_first_run(folder: Path) -> None:
    hold_to_facts(NO_SESSION, str(folder), 32)
    hold_to_facts(NO_SESSION, str(folder), 32)
    with pytest.raises(ConfigError, match=r"pmp\.job\.buckets is 16, but .* was created with 32"):
        hold_to_facts(NO_SESSION, str(folder), 16)


def test_a_checkpoint_from_before_these_settings_has_the_former_ones(folder: Path) -> None:
    (folder / "samples").mkdir()
    hold_to_facts(NO_SESSION, str(folder), 16)
    with pytest.raises(ConfigError, match="created with 16"):
        hold_to_facts(NO_SESSION, str(folder), 32)


@pytest.mark.parametrize("text", ["", '{"buck', "[]", "{}", '{"buckets": "many"}'])
def test_a_first_start_that_was_interrupted_is_repeated(folder: Path, text: str) -> None:
    (folder / "job.json").write_text(text)
    hold_to_facts(NO_SESSION, str(folder), 32)
    with pytest.raises(ConfigError, match="created with 32"):
        hold_to_facts(NO_SESSION, str(folder), 16)


@pytest.mark.parametrize("text", ["", "[]"])
def test_damaged_settings_of_a_used_checkpoint_are_not_guessed(folder: Path, text: str) -> None:
    (folder / "samples").mkdir()
    (folder / "job.json").write_text(text)
    with pytest.raises(ConfigError, match=r"cannot parse .*job\.json"):
        hold_to_facts(NO_SESSION, str(folder), 32)
