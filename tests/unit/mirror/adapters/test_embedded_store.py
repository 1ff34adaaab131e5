"""The embedded store: no acknowledged change is lost and none is invented, whatever happens to its process or
disk."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from mirror.adapters.embedded_store.lock import FolderLock, holder_of
from mirror.adapters.embedded_store.session import EmbeddedSession
from mirror.adapters.embedded_store.store import FILE_NAME, LOCK_NAME, EmbeddedStore, read_state
from mirror.coordination.store.session import StoreSession
from mirror.coordination.store.tree import walk
from mirror.errors import (
    ConfigError,
    DamagedStore,
    HeadraceError,
    NewerFormat,
    NotFound,
    SessionLost,
    StoreInUse,
    Unreachable,
)
from mirror.model.nodes import NewNode, NextNode, NodeWrite
from tests.fakes.disk import DyingDisk, FailingDisk, Killed

Tree = dict[str, tuple[bytes, int]]


def tree_of(store: EmbeddedStore) -> Tree:
    """Data and version of every node."""
    return {path: (node.data, node.version) for path, node in walk(store.replica.state.root)}


@contextmanager
def opened(folder: Path, **options: object) -> Iterator[tuple[EmbeddedStore, StoreSession]]:
    """A store, and a session with it."""
    store = EmbeddedStore(folder, "one", **options)  # type: ignore[arg-type]
    try:
        store.open()
        session = StoreSession(store, os.urandom(8).hex())
        session.open()
        yield store, session
    finally:
        store.close()


Step = Callable[[StoreSession], object]
HISTORY: tuple[Step, ...] = (
    lambda nodes: nodes.create("/a/b", b"one"),
    lambda nodes: nodes.create("/live/i-", b"me", ephemeral=True, sequential=True),
    lambda nodes: nodes.change_together([NodeWrite("/a/b", b"two" * 40, 0), NextNode("/log/e-", b"told")]),
    lambda nodes: nodes.create("/a/b", b"there already"),
    lambda nodes: nodes.write("/a/b", b"\x89HRf" * 30, 1),
    lambda nodes: nodes.create_all([(f"/m/{number}", b"x" * 20) for number in range(10)]),
    lambda nodes: nodes.delete_tree("/m"),
    lambda nodes: nodes.change_together([NewNode("/c", b"3"), NextNode("/log/e-", b"")]),
)
SMALL_GROWTH = 400
"""Snapshots are written in the middle of the history."""


def play(folder: Path, disk: DyingDisk, acknowledged: list[Tree]) -> None:
    """Note the tree after every acknowledged step; ends with Killed if the disk does."""
    with opened(folder, disk=disk, least_growth=SMALL_GROWTH) as (store, session):
        for step in HISTORY:
            with suppress(HeadraceError):
                step(session)
            acknowledged.append(tree_of(store))


def permanent(tree: Tree) -> Tree:
    """The tree without ephemeral nodes, which end with their process."""
    return {path: node for path, node in tree.items() if not path.startswith("/live/")}


@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.deep), 17])
def test_kill_9_at_every_byte_loses_nothing_acknowledged_and_shows_nothing_half_done(
    tmp_path: Path, stride: int
) -> None:
    whole, complete = DyingDisk(), list[Tree]()
    play(tmp_path / "whole", whole, complete)
    expected = [{}, *map(permanent, complete)]
    assert whole.steps > 2_000
    for steps in range(0, whole.steps, stride):
        folder, acknowledged = tmp_path / str(steps), list[Tree]()
        with suppress(Killed):
            play(folder, DyingDisk(steps), acknowledged)
        done = len(acknowledged)
        with opened(folder, disk=DyingDisk()) as (store, session):
            found = tree_of(store)
            assert found in (expected[done : done + 2]), f"after {steps} steps"
            session.create("/next", b"on")
        with opened(folder, disk=DyingDisk()) as (store, _):
            assert tree_of(store) == {**found, "/next": (b"on", 0)}


def test_a_restart_finds_everything_but_the_nodes_of_the_former_process(tmp_path: Path) -> None:
    with opened(tmp_path) as (_, session):
        session.create("/a", b"1")
        session.create("/live/me", b"", ephemeral=True)
        session.write("/a", b"2", 0)
    with opened(tmp_path) as (store, session):
        assert session.read("/a").data == b"2"
        assert session.children("/live") == ()
        assert len(store.replica.state.sessions) == 1


def test_files_are_for_our_user_only(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "deep"
    with opened(folder):
        assert {path.name for path in folder.iterdir()} == {FILE_NAME, LOCK_NAME}
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_second_process_is_refused_by_name(tmp_path: Path) -> None:
    with opened(tmp_path):
        found = holder_of(tmp_path / LOCK_NAME)
        assert found == ("one", os.getpid())
        with pytest.raises(StoreInUse, match=f"one.*{os.getpid()}"):
            EmbeddedStore(tmp_path, "two").open()
    assert holder_of(tmp_path / LOCK_NAME) is None
    with opened(tmp_path):
        pass


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"instance": "x"}', b"\xff", b'{"process_id": "x"}'])
def test_a_holder_that_nobody_can_read_is_refused_too(tmp_path: Path, content: bytes) -> None:
    with opened(tmp_path):
        (tmp_path / LOCK_NAME).write_bytes(content)
        with pytest.raises(StoreInUse):
            EmbeddedStore(tmp_path, "two").open()


def test_a_lock_file_that_was_removed_by_hand_is_made_again(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    (tmp_path / LOCK_NAME).unlink()
    with opened(tmp_path):
        assert holder_of(tmp_path / LOCK_NAME) == ("one", os.getpid())


def test_the_lock_ends_with_its_process_and_not_with_its_children(tmp_path: Path) -> None:
    script = (
        "import os, subprocess, sys\nfrom pathlib import Path\n"
        "from mirror.adapters.embedded_store.store import EmbeddedStore\n"
        "EmbeddedStore(Path(sys.argv[1]), 'child').open()\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
        "print(child.pid, flush=True)\ninput()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip().isdigit()
    with pytest.raises(StoreInUse, match="child"):
        EmbeddedStore(tmp_path, "two").open()
    process.kill()
    process.communicate()
    with opened(tmp_path):
        pass


def filled(folder: Path) -> bytes:
    """The bytes of a file with some records."""
    with opened(folder) as (_, session):
        for number in range(5):
            session.create(f"/n{number}", b"x" * 50)
    return (folder / FILE_NAME).read_bytes()


def test_a_torn_last_record_is_cut_off(tmp_path: Path) -> None:
    whole = filled(tmp_path)
    (tmp_path / FILE_NAME).write_bytes(whole[:-3])
    with opened(tmp_path) as (store, session):
        assert list(tree_of(store)) == [f"/n{number}" for number in range(4)]
        session.create("/n4", b"again")
    with opened(tmp_path) as (store, _):
        assert tree_of(store)["/n4"] == (b"again", 0)


@pytest.mark.parametrize("tail", [b"\0" * 5_000, b"\x89HRf", b"\x89HRf" * 100, os.urandom(300)])
def test_bytes_behind_the_last_record_are_cut_off(tmp_path: Path, tail: bytes) -> None:
    whole = filled(tmp_path)
    (tmp_path / FILE_NAME).write_bytes(whole + tail)
    with opened(tmp_path) as (store, _):
        assert len(tree_of(store)) == 5


def test_damage_at_any_place_before_the_last_record_is_refused(tmp_path: Path) -> None:
    whole = filled(tmp_path)
    with opened(tmp_path) as (_, session):
        session.create("/last", b"x" * 50)
    longer = (tmp_path / FILE_NAME).read_bytes()
    for place in range(0, len(whole), 3):
        damaged = bytearray(longer)
        damaged[place] ^= 0x10
        (tmp_path / FILE_NAME).write_bytes(damaged)
        with pytest.raises(DamagedStore):
            EmbeddedStore(tmp_path, "one").open()
        assert (tmp_path / FILE_NAME).read_bytes() == damaged
    (tmp_path / FILE_NAME).write_bytes(longer)
    with opened(tmp_path) as (store, _):
        assert "/last" in tree_of(store)


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"hello", b"\x89Headrace\r\n"])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE_NAME).write_bytes(content)
    with pytest.raises(DamagedStore):
        EmbeddedStore(tmp_path, "one").open()


def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("mirror.adapters.embedded_store.record_file.FORMAT", 2)
        filled(tmp_path)
    with pytest.raises(NewerFormat):
        EmbeddedStore(tmp_path, "one").open()
    with pytest.raises(NewerFormat):
        read_state(tmp_path)


def test_a_folder_that_cannot_be_used_is_a_fault_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigError, match="state_directory"):
        EmbeddedStore(tmp_path / "file", "one").open()


@pytest.mark.parametrize(
    ("number", "advice"),
    [(errno.ENOSPC, "free space"), (errno.EDQUOT, "free space"), (errno.EACCES, "can write")],
)
def test_a_first_start_on_a_full_disk_advises_to_free_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, advice: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(FolderLock, "take", refuse)
    with pytest.raises(ConfigError, match=f"{os.strerror(number)}: .*{advice}"):
        EmbeddedStore(tmp_path, "one").open()


@pytest.mark.parametrize("space", [0, 1, 17, 60])
def test_a_full_disk_refuses_changes_and_serves_reads(tmp_path: Path, space: int) -> None:
    disk, conditions = FailingDisk(), list[bool]()
    with opened(tmp_path, disk=disk, on_condition=lambda is_well, _: conditions.append(is_well)) as (
        _,
        session,
    ):
        session.create("/a", b"1")
        disk.space = space
        for _ in range(3):
            with pytest.raises(Unreachable):
                session.create("/b", b"2" * 100)
        assert session.read("/a").data == b"1"
        with pytest.raises(NotFound):
            session.read("/b")
        disk.space = None
        session.create("/b", b"3")
        assert conditions == [False, True]
    with opened(tmp_path) as (store, _):
        assert tree_of(store) == {"/a": (b"1", 0), "/b": (b"3", 0)}


def test_a_start_on_a_full_disk_fails_and_keeps_nothing(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path, "one")
    store.open()
    StoreSession(store, "of a process that is killed").open()
    store.close()
    disk = FailingDisk()
    for space in (0, 110):  # the former session cannot be ended, or ours not begun
        disk.space = space
        with pytest.raises(Unreachable):
            EmbeddedSession(EmbeddedStore(tmp_path, "two", disk=disk)).start()
        assert holder_of(tmp_path / LOCK_NAME) is None
    disk.space = None
    session = EmbeddedSession(EmbeddedStore(tmp_path, "two", disk=disk))
    session.start()
    session.create("/a", b"")
    session.stop()


@pytest.mark.parametrize("failing", [{"sync"}, {"sync", "truncate"}, {"sync", "replace"}])
def test_after_a_failed_flush_the_file_is_written_anew(tmp_path: Path, failing: set[str]) -> None:
    disk = FailingDisk()
    with opened(tmp_path, disk=disk) as (_, session):
        session.create("/a", b"1")
        before = (tmp_path / FILE_NAME).stat().st_ino
        disk.fails_to = failing
        for _ in range(3):
            with pytest.raises(Unreachable):
                session.create("/b", b"2")
        disk.fails_to = set()
        session.create("/c", b"3")
        assert (tmp_path / FILE_NAME).stat().st_ino != before
    with opened(tmp_path) as (store, _):
        assert list(tree_of(store)) == ["/a", "/c"]


def test_a_snapshot_that_fails_after_its_renaming_loses_nothing(tmp_path: Path) -> None:
    disk = FailingDisk()
    with opened(tmp_path, disk=disk, least_growth=1) as (_, session):
        disk.fails_to = {"replace"}
        for number in range(20):
            with suppress(Unreachable):
                session.create(f"/n{number:02}", b"x" * 50)
        disk.fails_to = set()
        session.create("/end", b"")
        expected = session.children("")
    with opened(tmp_path) as (_, session):
        assert session.children("") == expected


def test_the_file_does_not_grow_without_bound(tmp_path: Path) -> None:
    with opened(tmp_path, least_growth=10_000) as (_, session):
        session.create("/a", b"")
        for version in range(300):
            session.write("/a", bytes(1_000), version)
        assert (tmp_path / FILE_NAME).stat().st_size < 25_000
    with opened(tmp_path) as (_, session):
        assert session.read("/a").version == 300


def test_many_threads_write_at_once(tmp_path: Path) -> None:
    with opened(tmp_path) as (store, _):
        sessions = [StoreSession(store, f"thread-{number}") for number in range(8)]

        def write(session: StoreSession) -> None:
            session.open()
            for _ in range(25):
                session.create("/q/n-", b"", sequential=True)

        threads = [threading.Thread(target=write, args=(one,)) for one in sessions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        names = sessions[0].children("/q")
    assert names == tuple(f"n-{number:010}" for number in range(200))
    with opened(tmp_path) as (_, session):
        assert session.children("/q") == names


def test_a_watch_that_fails_does_not_fail_the_write(tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError

    called = list[str]()
    with opened(tmp_path) as (_, session):
        session.children("", fail)
        session.children("", lambda: called.append("second"))
        session.create("/a")
        assert called == ["second"]


def test_a_closed_store_refuses_changes(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path, "one")
    session = EmbeddedSession(store)
    with pytest.raises(SessionLost):
        session.read("/a")
    session.start()
    session.create("/a", b"")
    session.stop()
    session.stop()
    with pytest.raises(SessionLost):
        session.create("/b", b"")
    with pytest.raises(SessionLost):
        session.read("/a")


def test_the_state_can_be_read_beside_the_process_that_writes_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_state(tmp_path)
    with opened(tmp_path) as (store, session):
        session.create("/a", b"1")
        assert read_state(tmp_path) == store.replica.state
    assert json.loads((tmp_path / LOCK_NAME).read_bytes())["instance"] == "one"
