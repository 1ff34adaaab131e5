"""Test the summary of many partitions in a few rows."""

from __future__ import annotations

from mirror.model.topics import TopicPartition
from monitor.movement.states import LaneJudgement, MovementState
from monitor.movement.summary import LossAhead, Movement, PartitionMovement, StateCount, added, movement_of

_S = MovementState


def one(number: int, judgement: LaneJudgement, since_ms: int | None = None) -> PartitionMovement:
    return PartitionMovement(TopicPartition("t", number), judgement, since_ms)


def test_partitions_are_counted_by_state_with_the_one_that_is_so_for_longest() -> None:
    found = movement_of(
        [
            one(0, LaneJudgement(_S.STALL, "late"), 500),
            one(1, LaneJudgement(_S.OK)),
            one(2, LaneJudgement(_S.STALL, "first"), 100),
            one(3, LaneJudgement(None, "no report yet")),
            one(4, LaneJudgement(_S.STOP, "nobody runs task t0")),
            one(5, LaneJudgement(_S.STALL, "nobody knows since when")),
        ]
    )
    assert found == Movement(
        (
            StateCount(_S.STALL, 3, "t-2", "first", 100),
            StateCount(_S.STOP, 1, "t-4", "nobody runs task t0"),
        )
    )


def test_the_partition_that_loses_data_first_is_named_with_how_long_catching_up_takes() -> None:
    found = movement_of(
        [
            one(0, LaneJudgement(_S.CATCHING_UP, eta_seconds=7200.0, seconds_to_loss=2400.0)),
            one(1, LaneJudgement(_S.WARN, seconds_to_loss=9000.0)),
            one(2, LaneJudgement(_S.CATCHING_UP, eta_seconds=60.0, seconds_to_loss=90.0)),
            one(3, LaneJudgement(_S.OK, seconds_to_loss=5.0)),
        ]
    )
    assert found.loss == LossAhead(2, "t-0", 2400.0, 7200.0)


def test_rows_add_up_in_any_order_and_nothing_adds_nothing() -> None:
    parts = [
        movement_of([one(number, LaneJudgement(_S.STALL, seconds_to_loss=float(number)), 1_000 - number)])
        for number in range(5)
    ]
    whole = added(parts)
    assert whole == added(reversed(parts)) == added([added(parts[:2]), Movement(), added(parts[2:])])
    assert whole.loss == LossAhead(5, "t-0", 0.0)
    assert [(count.partitions, count.worst) for count in whole.states] == [(5, "t-4")]
    assert added([]) == Movement()
