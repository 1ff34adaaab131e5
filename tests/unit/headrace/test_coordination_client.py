"""The store that the settings choose, and what commands show of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from headrace.coordination.client import PART, connected, coordination_client, store_folder
from headrace.doctor.diagnosis import Grade
from headrace.doctor.store import examined_store
from headrace.settings import load_settings
from mirror.adapters.embedded.session import EmbeddedSession
from mirror.adapters.embedded.store import FILE_NAME
from mirror.adapters.zookeeper import ZooKeeper
from mirror.errors import DamagedStore, StoreInUse
from mirror.instance.health import Health
from tests.unit.headrace.conftest import Headrace, Write


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state directory of the settings."""
    found = tmp_path / "state"
    monkeypatch.setenv("HEADRACE_MIRROR__STATE_DIRECTORY", str(found))
    return found


def test_without_zookeeper_an_instance_has_its_own_store_and_health_says_so(folder: Path) -> None:
    health = Health()
    client = coordination_client(load_settings(), "one", health, lambda _: None, lambda: None)
    assert isinstance(client, EmbeddedSession)
    assert str(folder) in health.conditions()[PART].sentence
    client.start()
    client.create("/a", b"1")
    client.stop()
    with connected(load_settings(), "a command") as again:
        assert again.read("/a").data == b"1"


def test_with_zookeeper_nothing_is_written_here(write: Write, folder: Path) -> None:
    settings = load_settings(write("[zookeeper]\n"))
    client = coordination_client(settings, "one", Health(), lambda _: None, lambda: None)
    assert isinstance(client, ZooKeeper)
    assert not folder.exists()


def test_a_command_is_told_who_holds_the_store() -> None:
    settings = load_settings()
    with connected(settings, "one"), pytest.raises(StoreInUse, match="one"), connected(settings, "a command"):
        pass


@pytest.mark.parametrize("base", ["", "relative"])
def test_the_folder_of_a_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, base: str) -> None:
    monkeypatch.delenv("HEADRACE_MIRROR__STATE_DIRECTORY")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", base)
    assert store_folder(load_settings()) == tmp_path / ".local/state/headrace"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert store_folder(load_settings()) == tmp_path / "xdg/headrace"


def test_the_doctor_sees_a_store_before_during_and_after_its_use(folder: Path) -> None:
    settings = load_settings()
    (before,) = examined_store(settings)
    assert (before.grade, folder.exists()) == (Grade.OK, False)
    with connected(settings, "one"):
        (during, *_) = examined_store(settings)
        assert f"one (process {os.getpid()})" in during.sentence
    (after, *_) = examined_store(settings)
    assert (after.grade, "one" in after.sentence.split()) == (Grade.OK, False)
    (folder / FILE_NAME).write_bytes(b"hello")
    with pytest.raises(DamagedStore):
        list(examined_store(settings))


def test_the_doctor_reports_damage_as_a_problem(headrace: Headrace, folder: Path) -> None:
    folder.mkdir()
    (folder / FILE_NAME).write_bytes(b"hello")
    shown = headrace("doctor", "--json", "--at", "127.0.0.1:5", "--patience", "1s")
    grades = {one["subject"]: one["grade"] for one in json.loads(shown.out)}
    assert grades["coordination store"] == "problem"
    assert "ZooKeeper" not in grades


def test_the_check_of_the_settings_names_the_store(headrace: Headrace, folder: Path) -> None:
    assert str(folder) in headrace("config", "check").out.replace("\n", "")
