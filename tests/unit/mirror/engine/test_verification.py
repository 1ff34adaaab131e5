"""Test `verify` and `audit` of copies, in particular with a stored ledger that claims too much."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from mirror.audit.verdicts import Verdict
from mirror.client.access import ClusterAccess, endpoints
from mirror.jobs.partition_verdict import PartitionVerdict
from mirror.jobs.verify_job import VerifyJob, audit_copy, verify_copy
from mirror.lane.progress import main_key
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.datastreams.policy import CopyPolicy, OnRejection
from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicPartition, TopicSelection
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.options import CopyingOptions
from tests.builders import DESTINATION, SOURCE
from tests.fakes.broker import batches
from tests.fakes.broker.mirrored import MirroredFakes
from tests.fakes.broker.remote_segments import delay_segments
from tests.fakes.broker.virtual import VirtualSelector

KEY = LaneKey(GroupName("state"), TopicPartition("t", 0))
JOB = VerifyJob(SOURCE, DESTINATION, TopicSelection("t"), state="state")
PROGRESS = "headrace-progress"


@pytest.fixture
def bench(fakes: MirroredFakes) -> Iterator[EngineContext]:
    access = {
        SOURCE: ClusterAccess(endpoints(fakes.source.address)),
        DESTINATION: ClusterAccess(endpoints(fakes.target.address)),
    }
    with closing(
        EngineContext(
            access.__getitem__,
            CopyingOptions(),
            EngineIdentity("test"),
            fakes.clock,
            VirtualSelector(fakes.clock, [fakes.source, fakes.target]),
        )
    ) as made:
        made.loop.new_socket = fakes.network.socket
        yield made


def store(fakes: MirroredFakes, counts: dict[str, int], run: list[int], **ledger: Any) -> None:
    """Store the progress of a lane that began at offset 0, with one run in its offset map."""
    document = {
        "format": 1,
        "next_offset": sum(counts.values()),
        "written_ms": 1,
        "ledger": {"start": 0, "counts": counts, **ledger},
        "map": {"first": 0, "sealed": 0, "runs": [run]},
        "source_id": "",
        "epoch": -1,
        "target_id": "",
        "clean": True,
    }
    fakes.target.create_topic(PROGRESS, 1, cleanup_policy="compact")
    fakes.target.write(PROGRESS, [(1, main_key(KEY), json.dumps(document).encode(), [])])


def verdict(bench: EngineContext) -> PartitionVerdict:
    (found,) = bench.run(verify_copy(bench, JOB))
    return found


@pytest.mark.parametrize("claim", ["compacted", "lost", "aborted", "control"])
@pytest.mark.parametrize("place", ["in front", "between", "behind"])
def test_records_that_the_source_still_has_are_missing_whatever_was_claimed(
    fakes: MirroredFakes, bench: EngineContext, claim: str, place: str
) -> None:
    fakes.make_topic("t")
    for first in range(0, 30, 5):
        fakes.write("t", first, 5)
    span = {"in front": (20, 30), "between": (10, 20), "behind": (0, 10)}[place]
    for first in range(*span, 5):
        fakes.target.write("t", fakes.records(first, 5))
    store(fakes, {claim: 20, "mirrored": 10}, [span[0], 0, 10])
    found = verdict(bench)
    assert (found.is_equal, found.comparison.found.counts.equal, found.missing) == (False, 10, 20)
    (audited,) = bench.run(audit_copy(bench, JOB))
    assert (audited.source_range, audited.target_range) == ((0, 30), (0, 10))
    assert (audited.missing, audited.is_equal) == (20, False)


def test_records_that_were_left_out_and_have_expired_hide_no_others(
    fakes: MirroredFakes, bench: EngineContext
) -> None:
    fakes.make_topic("t")
    for first in range(0, 30, 5):
        fakes.write("t", first, 5)
    fakes.target.write("t", fakes.records(25, 5))
    fakes.source.log("t").delete_before(10)
    counts = {"filtered": 15, "compacted": 10, "mirrored": 5}
    store(fakes, counts, [25, 0, 5], left_out=[[0, 10, 10], [20, 25, 5]])
    found = verdict(bench)
    assert (found.left_out, found.missing, found.is_equal) == (5, 10, False)


def test_records_that_only_the_destination_has_expired_are_a_problem(
    fakes: MirroredFakes, bench: EngineContext
) -> None:
    fakes.make_topic("t")
    for first in range(0, 30, 5):
        fakes.write("t", first, 5)
        fakes.target.write("t", fakes.records(first, 5))
    fakes.target.log("t").delete_before(20)
    store(fakes, {"mirrored": 30}, [0, 0, 30])
    found = verdict(bench)
    assert found.problem
    assert (found.is_equal, found.source_range) == (False, (20, 30))


@pytest.mark.parametrize("policy", [OnRejection.SKIP, OnRejection.DEAD_LETTER])
def test_a_batch_that_was_left_out_because_it_cannot_be_read_is_counted(
    fakes: MirroredFakes, bench: EngineContext, policy: OnRejection
) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 4)
    fakes.source.append("t", batches.undecodable(batches.build(fakes.records(4, 4), codec=1)))
    fakes.write("t", 8, 4)
    fakes.start("t", group="state", policy=CopyPolicy(on_rejection=policy))
    fakes.run_to("t", 12)
    fakes.stop()
    found = verdict(bench)
    assert (found.problem, found.is_equal, found.left_out, found.comparison.found.counts.equal) == (
        "",
        True,
        4,
        8,
    )


def test_a_batch_that_cannot_be_read_and_was_passed_over_is_a_problem(
    fakes: MirroredFakes, bench: EngineContext
) -> None:
    fakes.make_topic("t")
    fakes.source.append("t", batches.undecodable(batches.build(fakes.records(0, 4), codec=1)))
    fakes.write("t", 4, 4)
    fakes.target.write("t", fakes.records(4, 4))
    store(fakes, {"compacted": 4, "mirrored": 4}, [4, 0, 4])
    found = verdict(bench)
    assert (bool(found.problem), found.is_equal) == (True, False)
    (audited,) = bench.run(audit_copy(bench, JOB))
    assert (bool(audited.problem), audited.verdict) == (True, Verdict.UNKNOWN)


@pytest.mark.parametrize("is_source", [True, False])
def test_a_comparison_waits_for_segments_of_remote_storage_that_arrive_late(
    fakes: MirroredFakes, bench: EngineContext, is_source: bool
) -> None:
    fakes.make_topic("t")
    for first in range(0, 30, 5):
        fakes.write("t", first, 5)
        fakes.target.write("t", fakes.records(first, 5))
    store(fakes, {"mirrored": 30}, [0, 0, 30])
    cluster = fakes.source if is_source else fakes.target
    delay_segments(cluster, "t", 3)
    found = verdict(bench)
    assert (found.is_equal, found.comparison.found.counts.equal, found.missing) == (True, 30, 0)
    delay_segments(cluster, "t", 3)
    (audited,) = bench.run(audit_copy(bench, JOB))
    assert (audited.is_equal, audited.missing, audited.source_range) == (True, 0, (0, 30))
