"""What the parent of a copy makes of what its workers say."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.copy.run import CopyRun, CopySetup, _WorkerSlot
from mirror.errors import ConfigError
from mirror.jobs.copy_job import CopyJob
from mirror.model.datastreams.policy import CopyPolicy
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicSelection
from mirror.replication.context import EngineIdentity
from mirror.replication.options import CopyingOptions
from tests.builders import a_spec


def copy_run(**policy: Any) -> CopyRun:
    sides = ClusterRef("a:1"), ClusterRef("b:1")
    job = CopyJob("state", *sides, TopicSelection(".*"), policy=CopyPolicy(**policy))
    return CopyRun(CopySetup({}, CopyingOptions(), EngineIdentity("test")), job, 1)


def test_a_transform_that_cannot_be_made_is_refused_before_anything_is_asked() -> None:
    for wrong in ("no-such-transform:x", "mask-field", "rename-header:a"):
        with pytest.raises(ConfigError):
            copy_run(transforms=(wrong,)).plan()


def test_a_partition_that_pauses_resumes_and_pauses_again_is_stuck_until_something_is_copied() -> None:
    run = copy_run()
    slot = _WorkerSlot([a_spec("t-0", end_offset=10), a_spec("t-1", end_offset=10)])
    run._slots = [slot]

    def tell(kind: str, **fields: Any) -> None:
        run._take(slot, {"kind": kind, **fields})

    tell("paused", partition="t-0", reason="refused")
    tell("paused", partition="t-1", reason="no leader")
    tell("resumed", partition="t-1")
    tell("progress", records=0, bytes=0, lag=9)
    assert run.progress.stuck == {"t-0": "refused", "t-1": "no leader"}
    tell("progress", records=5, bytes=50, lag=5)
    assert run.progress.stuck == {"t-0": "refused"}, "t-1 copies"
    tell("paused", partition="t-1", reason="no leader")
    tell("resumed", partition="t-1")
    whole = {"topic": "t", "partition": 0, "next_offset": 10, "reason": ""}
    short = {"topic": "t", "partition": 1, "next_offset": 7, "reason": ""}
    tell("lane", report=dict(whole))
    tell("lane", report=dict(short))
    assert run.outcome.lanes == [whole, {**short, "reason": "no leader"}]
    assert (run.progress.stuck, run.progress.paused, slot.left) == ({}, {}, {})
