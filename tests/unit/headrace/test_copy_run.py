"""Test how the parent process of a copy evaluates the messages of its workers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pytest

import tests.fakes.tiny_worker as tiny_worker
from headrace.copy.report import ProgressLine, document_of, lag_text, print_outcome
from headrace.copy.run import CopyOutcome, CopyRun, CopySetup, _Share
from mirror.errors import ConfigError, Refused, Unreachable
from mirror.jobs.copy_job import CopyJob, CopyPlan
from mirror.jobs.destination_topics import TopicChanges
from mirror.model.datastreams.lanes import LaneEvent, LanePaused, LaneResumed
from mirror.model.datastreams.policy import CopyPolicy
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition, TopicSelection
from mirror.replication.context import EngineIdentity
from mirror.replication.options import CopyingOptions
from mirror.worker.pool import PooledWorker, PoolLimits
from mirror.worker.protocol import CopySums, LaneNews, LaneReports, Message, ThrottledTime
from mirror.worker.slot import WorkerSilence, WorkerSlot
from tests.builders import a_key, a_spec

ROOT = Path(__file__).parents[3]


def copy_run(**policy: Any) -> CopyRun:
    sides = ClusterRef("a:1"), ClusterRef("b:1")
    job = CopyJob("state", *sides, TopicSelection(".*"), policy=CopyPolicy(**policy))
    return CopyRun(CopySetup({}, CopyingOptions(), EngineIdentity("test"), PoolLimits(0.001, 20.0)), job, 1)


def test_a_transform_that_cannot_be_made_is_refused_before_anything_is_asked() -> None:
    for wrong in ("no-such-transform:x", "mask-field", "rename-header:a"):
        with pytest.raises(ConfigError):
            copy_run(transforms=(wrong,)).plan()


def test_a_partition_that_pauses_resumes_and_pauses_again_is_stuck_until_something_is_copied() -> None:
    run = copy_run()
    run._shares = [share] = [_Share([a_spec("t-0", end_offset=10), a_spec("t-1", end_offset=10)])]
    worker = PooledWorker(WorkerSlot(0, 1.0, WorkerSilence(20.0)))

    def tell(message: Message) -> None:
        run._take(worker, message)

    def news(*events: LaneEvent) -> None:
        tell(LaneNews(events))

    news(LanePaused(a_key("t-0"), "refused"), LanePaused(a_key("t-1"), "no leader"))
    news(LaneResumed(a_key("t-1")))
    tell(CopySums(0, 0, 9, 0))
    assert run.progress.stuck == {"t-0": "refused", "t-1": "no leader"}
    tell(CopySums(5, 50, 5, 0))
    assert run.progress.stuck == {"t-0": "refused"}, "t-1 copies again"
    news(LanePaused(a_key("t-1"), "no leader"), LaneResumed(a_key("t-1")))
    whole = {"topic": "t", "partition": 0, "next_offset": 10, "reason": ""}
    short = {"topic": "t", "partition": 1, "next_offset": 7, "reason": ""}
    tell(LaneReports((dict(whole),)))
    tell(LaneReports((dict(short),)))
    assert run.outcome.lanes == [whole, {**short, "reason": "no leader"}]
    assert (run.progress.stuck, run.progress.paused, share.left) == ({}, {}, {})
    assert worker.slot.is_ending, "no partition remaining"


def test_a_cause_that_pauses_many_partitions_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    run, line = copy_run(), ProgressLine()
    run._shares = [_Share([a_spec(f"t-{number}") for number in range(64)])]
    worker = PooledWorker(WorkerSlot(0, 1.0, WorkerSilence(20.0)))
    for second in range(5):
        events = [
            LanePaused(a_key(f"t-{n}"), f"writing t-{n}: no (source offset {n + second})") for n in range(64)
        ]
        run._take(worker, LaneNews(tuple(events)))
        line.show(run.progress, 1_000.0 + 10 * second)
    shown = [one for one in capsys.readouterr().err.splitlines() if "source offset" in one]
    assert len(shown) == 1
    assert "63" in shown[0]


@pytest.mark.parametrize(
    ("unknown", "expected"), [(0, "lag 7"), (1, "lag 7 or more"), (2, "lag unknown"), (3, "lag unknown")]
)
def test_an_unknown_lag_is_no_lag_of_zero(unknown: int, expected: str) -> None:
    run = copy_run()
    run._shares = [_Share([a_spec("t-0"), a_spec("t-1")])]
    run._take(PooledWorker(WorkerSlot(0, 1.0, WorkerSilence(20.0))), CopySums(0, 0, 7, 0, (), unknown))
    assert lag_text(run.progress).startswith(expected)


def test_a_worker_that_cannot_be_started_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_process(*_: object) -> NoReturn:
        raise OSError("no memory")

    monkeypatch.setattr("headrace.copy.run._spawn", no_process)
    run = copy_run()
    for count in (1, 2):
        steps = run.run([a_spec("t-0")])
        assert len(list(steps)) < 20
        assert run.outcome.failures == ["worker 0 died"] * count


@pytest.mark.parametrize("how", ["close", "kill"])
def test_whatever_ends_a_copy_ends_its_workers(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def spawn(_: int, channel: socket.socket) -> subprocess.Popen[bytes]:
        arguments = [sys.executable, tiny_worker.__file__, str(channel.fileno()), "stubborn"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        started.append(subprocess.Popen(arguments, pass_fds=[channel.fileno()], env=environment))
        return started[-1]

    monkeypatch.setattr("headrace.copy.run._spawn", spawn)
    run = copy_run()
    with closing(run.run([a_spec("t-0"), a_spec("t-1")])) as steps:
        next(steps)
        if how == "kill":
            run.kill()
            assert list(steps)
            assert run.outcome.failures == ["worker 0 died"]
    assert [process.poll() for process in started] == [-signal.SIGKILL]


def test_the_report_names_what_was_left_out_and_is_not_complete(capsys: pytest.CaptureFixture[str]) -> None:
    run = copy_run()
    away = Unreachable("broker 2 of a:1 (h:9092) returned no end of t-1")
    plan = CopyPlan(
        (), TopicChanges(failures={"u": Refused("no such names")}), (), {TopicPartition("t", 1): away}
    )
    document = document_of(run._job, plan, CopyOutcome(), {}, 1.0)
    assert document["left_out"] == {"u": str(plan.changes.failures["u"]), "t-1": str(away)}
    assert (document["complete"], len(document["failures"])) == (False, 2)
    print_outcome(document, as_json=False)
    shown = capsys.readouterr().out
    assert "t-1" in shown
    assert "h:9092" in shown


def test_the_quota_of_a_cluster_that_slows_a_copy_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Shown while it throttles and in the outcome, including the time throttled in a worker that died."""
    run, worker = copy_run(), PooledWorker(WorkerSlot(0, 1.0, WorkerSilence(20.0)))
    run._shares = [share] = [_Share([a_spec("t-0", end_offset=10)])]
    line = ProgressLine()
    run._take(worker, CopySums(5, 50, 5, 0, (ThrottledTime(ClusterRef("a:1"), 4.0),)))
    share.note_death()
    run._take(worker, CopySums(5, 50, 5, 0, (ThrottledTime(ClusterRef("a:1"), 2.5),)))
    assert run.progress.throttled == {"a:1": 6.5}
    line.show(run.progress, 1_000.0)
    assert "quota of a:1" in capsys.readouterr().err
    line.show(run.progress, 2_000.0)
    assert "quota" not in capsys.readouterr().err, "throttling has stopped"
    document = document_of(run._job, CopyPlan((), TopicChanges()), run.outcome, run.progress.throttled, 9.0)
    assert document["throttled_seconds"] == {"a:1": 6.5}
    print_outcome(document, as_json=False)
    assert "quota of a:1" in " ".join(capsys.readouterr().out.split())
