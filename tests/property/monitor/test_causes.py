"""Any evidence has one diagnosis, and a rebalance is never requested without a cause that it can end."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mirror.model.datastreams.lanes import QuotaHold, QuotaOwner, WindowLimit
from monitor.causes.diagnosis import OF_PLACEMENT, UNAVAILABLE, Cause
from monitor.causes.evidence import BacklogOrigin, Evidence, LaneEvidence, Phases
from monitor.causes.judge import BUSY_CORES, diagnose, is_late
from monitor.movement.states import MovementState

LIMIT_MS = 1_000
WAITING = (
    MovementState.SOURCE_AWAY,
    MovementState.DESTINATION_AWAY,
    MovementState.WAITING_FOR_TRANSACTION,
)
lengths = st.floats(0, 100_000, allow_nan=False)
rates = st.none() | st.floats(0, 1e9, allow_nan=False)
windows = st.builds(WindowLimit, *(st.integers(0, 10**6) for _ in range(2)), lengths, st.just(4), st.just(64))
lanes = st.builds(
    LaneEvidence,
    partition=st.sampled_from([f"t-{number}" for number in range(9)]),
    instance=st.sampled_from(["one", "two"]),
    task=st.none() | st.sampled_from(["orders-0", "orders-1"]),
    worker=st.none() | st.integers(-1, 1),
    is_starting=st.booleans(),
    state=st.none() | st.sampled_from(MovementState),
    reason=st.sampled_from(["", "why"]),
    eta_seconds=st.none() | lengths,
    lag_records=st.none() | st.integers(0, 10**9),
    lag_ms=st.none() | st.integers(0, 10**6),
    bytes_per_second=rates,
    batches_per_second=st.floats(0, 1e4, allow_nan=False),
    phases=st.none() | st.builds(Phases, lengths, lengths, lengths, lengths),
    cpu=st.none() | st.floats(0, 2, allow_nan=False),
    worker_cpu=st.none() | st.floats(0, 2, allow_nan=False),
    worker_waited=st.none() | st.floats(0, 1, allow_nan=False),
    fetch_unanswered=st.none() | st.floats(1, 60, allow_nan=False),
    produce_unanswered=st.none() | st.floats(1, 60, allow_nan=False),
    source_window=st.none() | windows,
    destination_window=st.none() | windows,
    hold=st.none()
    | st.builds(QuotaHold, st.sampled_from(QuotaOwner), st.floats(0, 1), st.none() | st.integers(0, 9)),
    origin=st.none() | st.sampled_from(BacklogOrigin),
    timestamp_offset=st.none() | st.floats(-1e12, 1e12, allow_nan=False),
)
evidence = st.builds(
    Evidence, st.lists(lanes, max_size=4).map(tuple), st.lists(st.sampled_from(["one", "two"])).map(tuple)
)


def may_be_placement(lane: LaneEvidence) -> bool:
    """Return whether a task quota or a busy process suggests it."""
    is_held = lane.hold is not None and lane.hold.owner is QuotaOwner.TASK
    if lane.worker_cpu is None:
        return is_held
    return is_held or lane.worker_cpu + (lane.worker_waited or 0.0) >= BUSY_CORES


def owners(found: Evidence) -> set[QuotaOwner]:
    return {one.hold.owner for one in found.lanes if one.hold is not None}


@given(evidence)
def test_there_is_always_one_diagnosis_with_a_sentence(found: Evidence) -> None:
    diagnosis = diagnose(found, LIMIT_MS)
    assert diagnosis.sentence.startswith(f"{diagnosis.cause}: ")
    assert diagnosis.second is not diagnosis.cause
    assert diagnosis.second is not Cause.UNKNOWN
    assert diagnose(found, LIMIT_MS) == diagnosis


@given(evidence)
def test_placement_is_never_asked_for_without_its_cause(found: Evidence) -> None:
    diagnosis = diagnose(found, LIMIT_MS)
    if diagnosis.placement_can_help:
        by_tasks = diagnosis.cause is Cause.OUR_QUOTA and QuotaOwner.TASK in owners(found)
        assert diagnosis.cause in OF_PLACEMENT or by_tasks
        assert any(may_be_placement(one) for one in found.lanes)


@given(evidence)
def test_no_placement_helps_lanes_that_do_not_copy(found: Evidence) -> None:
    still = tuple(replace(one, state=MovementState.PAUSED_BY_ITSELF) for one in found.lanes)
    assert not diagnose(replace(found, lanes=still), LIMIT_MS).placement_can_help


@given(evidence)
def test_the_order_of_lanes_does_not_matter(found: Evidence) -> None:
    names = {one.partition for one in found.lanes}
    if len(names) == len(found.lanes):
        back = replace(found, lanes=found.lanes[::-1])
        one, other = diagnose(found, LIMIT_MS), diagnose(back, LIMIT_MS)
        assert (one.cause, one.second) == (other.cause, other.second)


@given(st.lists(lanes, min_size=1, max_size=4), st.sampled_from(WAITING))
def test_more_lanes_of_a_cause_never_make_it_less_likely(
    few: list[LaneEvidence], state: MovementState
) -> None:
    """A cause that counts still counts if one more late lane has it."""
    before = diagnose(Evidence(tuple(few)), LIMIT_MS)
    another = LaneEvidence("u-0", state=state, lag_ms=5_000)
    alone = diagnose(Evidence((another,)), LIMIT_MS).cause
    after = diagnose(Evidence((*few, another)), LIMIT_MS)
    if before.cause is alone:
        assert after.cause is alone
    else:
        assert after.cause in {before.cause, alone, before.second}


@given(evidence)
def test_wrong_timestamps_never_explain_lanes_that_are_late(found: Evidence) -> None:
    if any(is_late(one, LIMIT_MS) for one in found.lanes) or found.silent:
        assert diagnose(found, LIMIT_MS).cause is not Cause.WRONG_TIMESTAMPS


@given(evidence)
def test_a_window_of_a_broker_only_replaces_a_cluster_by_the_network(found: Evidence) -> None:
    """Every other cause of a lane is the same with and without it."""
    for lane in found.lanes:
        plain = replace(lane, source_window=None, destination_window=None)
        before, after = (diagnose(Evidence((one,)), LIMIT_MS).cause for one in (plain, lane))
        assert before is after or (after is Cause.NETWORK and before in {*UNAVAILABLE, Cause.BACKLOG})
