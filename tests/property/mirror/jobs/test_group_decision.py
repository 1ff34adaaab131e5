"""Properties of the rules for the positions of following groups, over any sequence of events."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.jobs.groups.decision import (
    FollowReason,
    SyncedPosition,
    decide,
    group_hindrance,
)
from mirror.protocol.control.groups import ListedGroup
from tests.examples import examples

_KINDS = st.sampled_from(["", "classic", "consumer", "streams", "share"])
_STATES = st.sampled_from(["", "Empty", "Dead", "Stable", "PreparingRebalance", "Assigning", "Reconciling"])
_GROUPS = st.builds(ListedGroup, _KINDS, _STATES)
_OFFSETS = st.integers(0, 20)


@given(_GROUPS, _GROUPS)
def test_no_group_of_another_type_and_none_with_members_is_committed(
    source: ListedGroup, target: ListedGroup
) -> None:
    found = group_hindrance(source, target)
    is_new = target == ListedGroup()
    if (source.kind == "share") != (target.kind == "share") and not (is_new and source.kind == "share"):
        assert found is FollowReason.OTHER_TYPE
    elif target.state not in ("", "Empty", "Dead"):
        assert found is FollowReason.MEMBERS
    else:
        assert found is None


@dataclass
class GroupModel:
    """A group whose offsets are the same on both sides, with a mirror that may be behind."""

    source: int = 0
    mirrored: int = 0
    target: int | None = None
    last: SyncedPosition | None = None
    is_reset: bool = False
    is_foreign: bool = False
    reasons: list[FollowReason] = field(default_factory=list)

    def synchronise(self) -> None:
        """Run one round, and check it against the promises."""
        translated = min(self.source, self.mirrored)
        reason = decide(self.source, self.target, translated, self.last)
        self.reasons.append(reason)
        before = self.target
        if reason.commits:
            self.target = translated
        if before is not None and self.target is not None and self.target < before:
            assert reason is FollowReason.RESET
            assert self.is_reset, "moved back without a reset at the source"
            assert not self.is_foreign, "overruled a position of the destination"
        if reason.follows and self.target is not None:
            assert self.target == translated
            self.last = SyncedPosition(self.source, self.target)
            self.is_reset = self.is_foreign = False


_EVENTS = st.lists(
    st.tuples(st.sampled_from(["source", "mirror", "target", "sync", "delete", "forget"]), _OFFSETS),
    max_size=30,
)


@settings(max_examples=examples(1000))
@given(_EVENTS)
def test_a_position_moves_back_only_after_a_reset_of_the_source(events: list[tuple[str, int]]) -> None:
    model = GroupModel()
    for kind, offset in events:
        if kind == "source":
            model.is_reset = model.is_reset or offset < model.source
            model.source = offset
        elif kind == "mirror":
            model.mirrored = max(model.mirrored, offset)
        elif kind == "target":
            # A position that another client moves and moves back again cannot be told from an untouched one.
            model.is_foreign = model.last is not None and offset != model.last.target
            model.target = offset
        elif kind == "delete":
            model.target = None
        elif kind == "forget":
            model.last = None
        else:
            model.synchronise()
    model.synchronise()


@given(_OFFSETS, _OFFSETS)
def test_an_undisturbed_group_follows_forward_and_back(first: int, second: int) -> None:
    model = GroupModel(mirrored=20)
    model.source = first
    model.synchronise()
    model.is_reset = second < first
    model.source = second
    model.synchronise()
    moved = FollowReason.FORWARD if second > first else FollowReason.RESET
    assert model.reasons == [FollowReason.NEW, FollowReason.CURRENT if first == second else moved]
    assert model.target == second


@given(_OFFSETS, _OFFSETS, _OFFSETS)
def test_a_group_that_has_read_on_at_the_destination_is_not_set_back(
    source: int, read_on: int, later: int
) -> None:
    """The race of MirrorMaker 2: the group has members at one look, and none at the commit."""
    model = GroupModel(source=source, mirrored=20)
    model.synchronise()
    model.target = source + read_on + 1
    model.is_foreign = True
    model.source = min(later, source)
    model.synchronise()
    assert model.target == source + read_on + 1
    assert model.reasons[-1] is FollowReason.WOULD_MOVE_BACK


def test_a_position_that_was_moved_at_the_destination_stays_until_the_group_reads_on() -> None:
    last = SyncedPosition(10, 10)
    assert decide(10, 4, 10, last) is FollowReason.TAKEN_OVER
    assert decide(11, 4, 11, last) is FollowReason.FORWARD
    assert decide(9, 12, 9, last) is FollowReason.WOULD_MOVE_BACK
    assert decide(9, 10, 9, last) is FollowReason.RESET
