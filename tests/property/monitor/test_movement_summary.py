"""Aggregated partitions give the same summary as single ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.model.topics import TopicPartition
from monitor.movement.states import LaneJudgement, MovementState
from monitor.movement.summary import PartitionMovement, added, movement_of

seconds = st.none() | st.sampled_from([0.0, 60.0, 90.0, 7_200.0])
judgements = st.builds(
    LaneJudgement,
    st.none() | st.sampled_from(sorted(MovementState)),
    st.sampled_from(["late", "first"]),
    eta_seconds=seconds,
    seconds_to_loss=seconds,
    keeps_ahead=st.booleans(),
)
found = st.builds(
    lambda judgement, since_ms: (judgement, since_ms),
    judgements,
    st.none() | st.sampled_from([0, 100, 200]),
)


@given(st.lists(found, max_size=12).flatmap(lambda each: st.permutations(list(enumerate(each)))))
def test_partitions_together_are_what_they_are_one_by_one(
    each: list[tuple[int, tuple[LaneJudgement, int | None]]],
) -> None:
    places = [PartitionMovement(TopicPartition("t", number), *one) for number, one in each]
    assert movement_of(places) == added(movement_of([one]) for one in places)
