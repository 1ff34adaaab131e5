"""Test which records count against no objective, and until when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.control.commands import ChangePauses, ChangeStatus
from mirror.control.outcomes import outcome
from mirror.coordination.reconcile import lane_spec, needs_restart
from mirror.coordination.stores.definition_document import from_document, to_document
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.datastreams.lanes import LaneSpec
from mirror.model.datastreams.metadata import CREATED_MS
from mirror.model.datastreams.pauses import without_ended
from mirror.model.identifiers import TaskName
from mirror.model.movement.exemptions import (
    CHAIN_MS,
    MOST_RESUMPTIONS,
    WHOLE,
    CatchUpGrace,
    LatencyExemption,
    Resumption,
    with_resumption,
)
from tests.builders import a_datastream, a_key

CREATED = 1_000_000
GRACE_MS = 600_000 * 36
MINUTE = 60_000


def ready() -> Datastream:
    one = a_datastream(status=DatastreamStatus.READY)
    return replace(one, metadata={**one.metadata, CREATED_MS: str(CREATED)})


def spec_of(datastream: Datastream) -> LaneSpec:
    return lane_spec(a_key("t-0"), TaskName("one"), datastream)


def paused_and_resumed(datastream: Datastream, since_ms: int, until_ms: int) -> Datastream:
    stopped = outcome(datastream, ChangeStatus(datastream.name, "pause"), since_ms)
    return outcome(stopped, ChangeStatus(datastream.name, "resume"), until_ms)


def test_what_was_there_before_the_creation_does_not_count() -> None:
    exemption = spec_of(ready()).exemption
    assert exemption.covers(CREATED - 1)
    assert not exemption.covers(CREATED)


def test_what_was_produced_during_a_pause_does_not_count() -> None:
    after = paused_and_resumed(ready(), CREATED + 10 * MINUTE, CREATED + 11 * MINUTE)
    exemption = spec_of(after).exemption
    assert exemption.covers(CREATED + 10 * MINUTE + 30_000)
    assert not exemption.covers(CREATED + 11 * MINUTE)
    assert not exemption.covers(CREATED + 9 * MINUTE), "the lane was running"


def test_a_pause_that_ends_by_itself_and_one_of_partitions_are_the_same() -> None:
    since, until = CREATED + 10 * MINUTE, CREATED + 11 * MINUTE
    timed = outcome(ready(), ChangeStatus(ready().name, "pause", until_ms=until), since)
    ended = without_ended(timed, until)
    assert ended is not None
    assert ended.datastream.resumptions == {WHOLE: Resumption(None, since, until, until)}
    some = ChangePauses(ready().name, {"t": frozenset({0, 1})}, pause=True)
    stopped = outcome(ready(), some, since)
    resumed = outcome(stopped, replace(some, partitions={"t": frozenset({0})}, pause=False), until)
    assert spec_of(resumed).exemption.covers(since)
    other = lane_spec(a_key("t-1"), TaskName("one"), resumed)
    assert not other.exemption.covers(since), "it is still paused"


def test_a_lane_that_runs_is_not_restarted_for_an_exemption() -> None:
    running, desired = spec_of(ready()), spec_of(paused_and_resumed(ready(), CREATED + 1, CREATED + 2))
    assert running != desired
    assert not needs_restart(running, desired)


def test_resumptions_are_stored_and_few() -> None:
    after = paused_and_resumed(ready(), CREATED + 1, CREATED + 2)
    assert from_document(to_document(after)).resumptions == after.resumptions
    found: dict[str, Resumption] = {}
    for number in range(MOST_RESUMPTIONS + 5):
        found = with_resumption(found, f"t{number}", None, number, number + 1)
    assert len(found) == MOST_RESUMPTIONS
    assert "t0" not in found


def test_resumes_in_quick_succession_share_one_patience() -> None:
    """Repeated pauses and resumes exempt late records for the grace period of the first one, no longer."""
    datastream, now = ready(), CREATED + CHAIN_MS
    first = now + 1_000
    for _ in range(100):
        datastream = paused_and_resumed(datastream, now, now + 1_000)
        now += 10 * MINUTE
    exemption = spec_of(datastream).exemption
    assert exemption.grace_from_ms == first
    lane = CatchUpGrace(exemption, GRACE_MS // 2)
    lane.note(100, now)
    assert lane.counts(now - 1)
    assert lane.counted_age(5 * MINUTE, now) == 5 * MINUTE
    later = paused_and_resumed(datastream, now + CHAIN_MS, now + CHAIN_MS + 1_000)
    assert spec_of(later).exemption.grace_from_ms == now + CHAIN_MS + 1_000


@pytest.mark.parametrize("age", [0, 1, 400_000])
def test_nothing_counts_while_the_lane_catches_up(age: int) -> None:
    lane = CatchUpGrace(LatencyExemption(CREATED, grace_from_ms=CREATED), GRACE_MS)
    now = CREATED + 5 * MINUTE
    for waiting in (100, 80, 60):
        lane.note(waiting, now)
        assert lane.counted_age(age, now) == 0
        assert not lane.counts(now - age)
        now += 9 * MINUTE
    assert lane.counted_age(None, now) is None


def test_a_backlog_that_does_not_become_less_counts() -> None:
    lane = CatchUpGrace(LatencyExemption(CREATED, grace_from_ms=CREATED), GRACE_MS)
    now = CREATED + MINUTE
    lane.note(100, now)
    lane.note(101, now + 11 * MINUTE)
    assert lane.counts(CREATED + 1)
    assert not lane.counts(CREATED - 1), "it existed before the datastream"
    assert lane.counted_age(50 * MINUTE, now + 11 * MINUTE) == 12 * MINUTE


def test_what_was_late_before_a_pause_counts() -> None:
    lane = CatchUpGrace(
        LatencyExemption(CREATED, CREATED + 9 * MINUTE, CREATED + 10 * MINUTE, CREATED), GRACE_MS
    )
    now = CREATED + 11 * MINUTE
    lane.note(10, now)
    assert lane.counts(CREATED + MINUTE)
    assert lane.counted_age(5 * MINUTE, now) == 5 * MINUTE
    assert lane.counted_age(90_000, now) == 0
