"""Test the batching of changes of many znodes into few transactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.coordination.stores import znodes
from mirror.errors import HeadraceError, InvalidRequest, NotAuthorized, SessionLost, Unreachable
from mirror.model.nodes import NewNode, NodeChange
from tests.fakes.node_store import FakeSession, FakeZooKeeper, Fault, Operation


class Many:
    """Znodes to create, by number, and the numbers reported as created in batches and one by one."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.server = FakeZooKeeper()
        self.session: FakeSession = self.server.session()
        self.wanted: dict[int, Sequence[NodeChange]] = {
            number: (NewNode(f"/many/{number}", b"x" * size),) for number, size in enumerate(sizes)
        }
        self.together: list[int] = []
        self.alone: list[int] = []

    def make(self) -> None:
        znodes.change_each(self.session, self.wanted, self.together.extend, self.make_alone)

    def make_alone(self, number: int) -> None:
        self.session.change_together(self.wanted[number])
        self.alone.append(number)

    def made(self) -> set[int]:
        return {int(name) for name in self.session.children("/many")}


@given(
    sizes=st.lists(
        st.one_of(st.integers(0, 9), st.integers(0, 2 * znodes.MOST_CHANGED_BYTES)), max_size=12
    ).flatmap(lambda some: st.integers(0, 250).map(lambda more: [*some, *[1] * more]))
)
def test_all_are_made_once_in_transactions_of_a_bounded_size(sizes: list[int]) -> None:
    many = Many(sizes)
    bytes_of: list[tuple[int, int]] = []

    def script(operation: Operation) -> None:
        if operation.name == "change_together":
            numbers = [int(path.rpartition("/")[2]) for path in operation.paths]
            bytes_of.append((len(numbers), sum(sizes[one] for one in numbers)))

    many.session.script = script
    many.make()
    assert sorted([*many.together, *many.alone]) == list(range(len(sizes)))
    assert many.made() == set(range(len(sizes)))
    for count, size in bytes_of:
        assert count <= znodes.MOST_CHANGES
        assert count == 1 or size <= znodes.MOST_CHANGED_BYTES
    if max(sizes, default=0) < 10:
        assert len(bytes_of) == -(-len(sizes) // znodes.MOST_CHANGES)


def test_where_one_cannot_be_made_the_others_are() -> None:
    many = Many([1] * 5)
    many.session.create("/many/3", b"somebody else's")
    refused: list[int] = []

    def make_alone(number: int) -> None:
        try:
            many.make_alone(number)
        except InvalidRequest:
            refused.append(number)

    znodes.change_each(many.session, many.wanted, many.together.extend, make_alone)
    assert (many.together, many.alone, refused) == ([], [0, 1, 2, 4], [3])
    assert many.session.read("/many/3").data == b"somebody else's"


def test_what_is_refused_for_its_path_is_noted_of_that_one_alone() -> None:
    many = Many([1] * 3)
    many.session.script = lambda one: Fault(False, NotAuthorized) if "/many/1" in one.paths else None
    with pytest.raises(NotAuthorized):
        many.make()
    assert many.made() == {0}


@pytest.mark.parametrize("error", [Unreachable, SessionLost])
@pytest.mark.parametrize("after_effect", [False, True])
def test_where_the_store_is_away_nothing_is_tried_again(
    error: type[HeadraceError], after_effect: bool
) -> None:
    many = Many([1] * 150)
    writes: Iterator[int] = iter(range(9))

    def script(operation: Operation) -> Fault | None:
        return Fault(after_effect, error) if operation.is_write and next(writes) == 1 else None

    many.session.script = script
    with pytest.raises(error):
        many.make()
    assert (many.together, many.alone) == (list(range(100)), [])
    assert len(many.made()) == (150 if after_effect else 100)


def test_a_key_without_changes_costs_no_request() -> None:
    many = Many([])
    many.wanted = {0: (), 1: ()}
    many.make()
    assert many.together == [0, 1]
    assert many.session.log == []
    paths = [f"/many/{number}" for number in range(3)]
    many.session.create(paths[0], b"old")
    many.session.create(paths[1], b"new")
    found = znodes.replacements(many.session, dict.fromkeys(paths, b"new"))
    assert [len(found[path]) for path in paths] == [1, 0, 1]
    assert [len(one) for one in znodes.deletions(many.session, paths).values()] == [1, 1, 0]
