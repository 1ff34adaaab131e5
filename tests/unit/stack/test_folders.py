"""Folders of caches and data, and errors of a full disk."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest

from stack import folders
from stack.errors import DiskFull

_CHECKOUT = Path(folders.__file__).parents[1]


@pytest.fixture(autouse=True)
def _no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_HOME", raising=False)


def test_a_named_home_holds_both(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    assert folders.cache_folder() == tmp_path / ".cache"
    assert folders.stack_home() == tmp_path / ".headrace" / "stack"


def test_a_relative_home_is_meant_from_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADRACE_HOME", "here")
    assert folders.cache_folder() == tmp_path / "here" / ".cache"


def test_a_checkout_keeps_its_jars_wherever_the_command_is_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert folders.cache_folder() == _CHECKOUT / ".cache"


def test_data_belong_to_the_project_around_the_working_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(_CHECKOUT / "stack")
    assert folders.stack_home() == _CHECKOUT / ".headrace" / "stack"
    monkeypatch.chdir(tmp_path)
    assert folders.stack_home() == tmp_path / ".headrace" / "stack"


def test_enough_space_is_no_matter_of_an_existing_folder(tmp_path: Path) -> None:
    folders.require_space(tmp_path / "not" / "yet" / "there", 1, "this", "do that")


def test_too_little_space_says_how_much_and_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DiskFull) as caught:
        folders.require_space(tmp_path / "not yet", 10**18, "the stack", "tidy up")
    assert re.search(r"\bthe stack\b.* 1000000000\.00 GB$", caught.value.message)
    assert str(tmp_path) in caught.value.message
    assert caught.value.advice == "tidy up"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_is_named(tmp_path: Path, number: int) -> None:
    with (
        pytest.raises(DiskFull, match=f"{tmp_path} while starting source"),
        folders.naming_a_full_disk(tmp_path, "starting source"),
    ):
        raise OSError(number, "no room")


def test_other_failures_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), folders.naming_a_full_disk(tmp_path, "starting source"):
        raise OSError(errno.EACCES, "no")
