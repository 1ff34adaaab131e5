"""One job per checkpoint: a second one fails with one line, before it starts anything."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mirror.errors import ConfigError, Refused
from pmp.adapters.checkpoint_locks import CheckpointLocks
from tests.patience import PATIENCE_SECONDS


def test_a_name_is_held_once_and_can_be_given_back(tmp_path: Path) -> None:
    folder = tmp_path / "odd #1? name"
    first, second = CheckpointLocks(str(folder)), CheckpointLocks(folder.as_uri())
    first.take("cluster a/b")
    first.take("cluster a/b")
    second.take("cluster c")
    with pytest.raises(Refused, match=r"process \d+ on "):
        second.take("cluster a/b")
    first.release("cluster a/b")
    first.release("cluster a/b")
    second.take("cluster a/b")


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("a file")
    with pytest.raises(ConfigError, match=r"checkpoint_folder .+blocked"):
        CheckpointLocks(str(tmp_path / "blocked")).take("a")


def test_a_folder_behind_a_url_has_no_locks() -> None:
    locks = [CheckpointLocks("hdfs://host/folder") for _ in range(2)]
    for one in locks:
        one.take("a")
        one.release("a")


@pytest.mark.deep
def test_a_second_job_ends_with_one_line(tmp_path: Path) -> None:
    config = tmp_path / "headrace.toml"
    config.write_text(f'[pmp.job]\ncheckpoint_folder = "{tmp_path}"\nshards = 2\nshard = 1\n')
    CheckpointLocks(str(tmp_path)).take("shard 0")
    held = CheckpointLocks(str(tmp_path))
    held.take("shard 1")
    command = [sys.executable, "-m", "headrace", "pmp", "run", "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "another job" in line
    assert "pmp.job.checkpoint_folder" in line


@pytest.mark.parametrize("call", ["ftruncate", "write"])
def test_a_full_disk_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    locks = CheckpointLocks(str(tmp_path))
    with monkeypatch.context() as disk:
        disk.setattr(os, call, full)
        with pytest.raises(ConfigError, match="No space left"):
            locks.take("cluster east")
    locks.take("cluster east")
    with pytest.raises(Refused):
        CheckpointLocks(str(tmp_path)).take("cluster east")


def test_a_file_system_without_locks_is_said_to_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unlocked(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", unlocked)
    with pytest.raises(ConfigError, match="No locks available"):
        CheckpointLocks(str(tmp_path)).take("cluster east")
