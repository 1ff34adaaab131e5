"""The state machine of the coordination store against a model that is too simple to be wrong."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mirror.coordination.store.codec import decode_command, decode_state, encode_command, encode_state
from mirror.coordination.store.commands import (
    LARGEST_NODE,
    Change,
    Changes,
    Command,
    EndSession,
    EphemeralNode,
    Heartbeat,
    OpenSession,
    Operation,
    RefusalKind,
    Removal,
    Result,
    TreeRemoval,
)
from mirror.coordination.store.machine import REMEMBERED, State, apply
from mirror.coordination.store.tree import find, walk
from mirror.errors import CorruptData
from mirror.model.nodes import NewNode, NextNode, NodeDeletion, NodeWrite
from tests.examples import examples

NAMES = ("a", "b", "ü")
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(lambda names: "/" + "/".join(names))
data = st.binary(max_size=4)
versions = st.integers(0, 3)
sessions = st.sampled_from(["one", "two"])
operations = st.one_of(
    st.builds(NodeWrite, paths, data, versions),
    st.builds(NewNode, paths, data),
    st.builds(NextNode, paths, data),
    st.builds(EphemeralNode, paths, data, st.booleans()),
    st.builds(NodeDeletion, paths),
    st.builds(Removal, paths, st.none() | versions),
    st.builds(TreeRemoval, paths),
)
changes = st.builds(Change, sessions, st.integers(1, 30), st.lists(operations, max_size=4).map(tuple))
commands = st.one_of(
    st.builds(OpenSession, sessions),
    st.builds(Heartbeat, sessions, st.integers(0, 5)),
    st.builds(EndSession, sessions, st.none() | st.integers(0, 5)),
    changes,
)


def played(history: list[Command], state: State | None = None) -> tuple[State, list[Result]]:
    """The state after a history, and the result of each command."""
    state, results = state or State(), []
    for command in history:
        state, result = apply(state, command)
        results.append(result)
    return state, results


def flat(state: State) -> dict[str, tuple[bytes, int, str]]:
    """Data, version and owner of every node."""
    return {path: (node.data, node.version, node.owner) for path, node in walk(state.root)}


@dataclass(frozen=True)
class ModelNode:
    data: bytes
    version: int = 0
    owner: str = ""
    next_number: int = 0


class Impossible(Exception):
    pass


class Model:
    """All nodes in one dictionary by path, copied for every command."""

    def __init__(self) -> None:
        self.nodes = {"": ModelNode(b"")}
        self.open: dict[str, int] = {}

    def perform(self, session: str, operation: Operation) -> str | int | None:
        path, nodes = operation.path, self.nodes
        match operation:
            case NodeWrite(_, content, version):
                self._require(path in nodes and nodes[path].version == version)
                nodes[path] = replace(nodes[path], data=content, version=version + 1)
                return version + 1
            case NewNode(_, content):
                return self._create(path, ModelNode(content))
            case NextNode(_, content):
                return self._next(path, ModelNode(content))
            case EphemeralNode(_, content, is_sequential):
                node = ModelNode(content, owner=session)
                return self._next(path, node) if is_sequential else self._create(path, node)
            case _:
                self._remove(operation)
        return None

    def _remove(self, operation: Operation) -> None:
        path, nodes = operation.path, self.nodes
        below = sorted(one for one in nodes if one.startswith(f"{path}/"))
        match operation:
            case NodeDeletion():
                self._require(path in nodes and not below)
                del nodes[path]
            case Removal(_, version):
                if path in nodes:
                    self._require(version in {None, nodes[path].version} and not below)
                    del nodes[path]
            case TreeRemoval():
                for one in [path, *below]:
                    nodes.pop(one, None)

    def require_session(self, session: str) -> None:
        self._require(session in self.open)

    def _require(self, is_possible: bool) -> None:
        if not is_possible:
            raise Impossible

    def _parents(self, path: str) -> str:
        steps = path.split("/")[:-1]
        for above, here in pairwise(["/".join(steps[:end]) for end in range(1, len(steps) + 1)]):
            if here not in self.nodes:
                self._member(above, here, ModelNode(b""))
        return "/".join(steps)

    def _create(self, path: str, node: ModelNode) -> str:
        parent = self._parents(path)
        self._require(path not in self.nodes)
        self._member(parent, path, node)
        return path

    def _next(self, path: str, node: ModelNode) -> str:
        parent = self._parents(path)
        while f"{path}{self.nodes[parent].next_number:010}" in self.nodes:
            self.nodes[parent] = replace(self.nodes[parent], next_number=self.nodes[parent].next_number + 1)
        return self._create(f"{path}{self.nodes[parent].next_number:010}", node)

    def _member(self, parent: str, path: str, node: ModelNode) -> None:
        self._require(not self.nodes[parent].owner)
        self.nodes[parent] = replace(self.nodes[parent], next_number=self.nodes[parent].next_number + 1)
        self.nodes[path] = node

    def watched(self, before: dict[str, ModelNode]) -> tuple[set[str], set[str]]:
        """Paths whose data or membership differs from before."""
        after = self.nodes
        data = {path for path in {*before, *after} if _shown(before.get(path)) != _shown(after.get(path))}
        members = {path for path in {*before, *after} if (path in before) != (path in after)}
        return data, members | {path.rpartition("/")[0] for path in members}


def _shown(node: ModelNode | None) -> tuple[bytes, int] | None:
    return None if node is None else (node.data, node.version)


class MachineAgainstModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.state = State()
        self.model = Model()
        self.history: list[Command] = []
        self.requests = {"one": 0, "two": 0}
        self.last: dict[str, tuple[Command, Result]] = {}

    def _apply(self, command: Command) -> Result:
        self.history.append(command)
        self.state, result = apply(self.state, command)
        return result

    @rule(session=sessions)
    def open(self, session: str) -> None:
        assert self._apply(OpenSession(session)).refusal is None
        if session not in self.model.open:
            self.requests[session] = 0
            self.last.pop(session, None)
        self.model.open.setdefault(session, 0)

    @rule(session=sessions, number=st.integers(0, 5))
    def beat(self, session: str, number: int) -> None:
        result = self._apply(Heartbeat(session, number))
        assert (result.refusal is None) == (session in self.model.open)
        if session in self.model.open:
            self.model.open[session] = max(number, self.model.open[session])

    @rule(session=sessions, heartbeat=st.none() | st.integers(0, 5))
    def end(self, session: str, heartbeat: int | None) -> None:
        result = self._apply(EndSession(session, heartbeat))
        ends = session in self.model.open and heartbeat in {None, self.model.open[session]}
        assert (result.refusal is None) == ends
        if ends:
            before = dict(self.model.nodes)
            self.model.nodes = {path: one for path, one in before.items() if one.owner != session}
            del self.model.open[session]
            assert (set(result.changes.data), set(result.changes.children)) == self.model.watched(before)

    @rule(session=sessions, wanted=st.lists(operations, min_size=1, max_size=4))
    def change(self, session: str, wanted: list[Operation]) -> None:
        self.requests[session] += 1
        command = Change(session, self.requests[session], tuple(wanted))
        result = self._apply(command)
        before = dict(self.model.nodes)
        try:
            self.model.require_session(session)
            answers = tuple(self.model.perform(session, one) for one in wanted)
        except Impossible:
            self.model.nodes = before
            assert result.refusal is not None
            assert result.changes == Changes()
        else:
            assert (result.refusal, result.answers) == (None, answers)
            data, children = self.model.watched(before)
            assert result.changes.data >= data
            assert result.changes.children >= children
        self.last[session] = (command, result)

    @precondition(lambda self: self.last)
    @rule(session=sessions)
    def repeat(self, session: str) -> None:
        if session in self.last and session in self.model.open:
            command, first = self.last[session]
            if first.refusal is not None and first.refusal.kind is RefusalKind.NO_SESSION:
                return
            assert self._apply(command) == replace(first, changes=Changes())

    @invariant()
    def trees_are_equal(self) -> None:
        expected = {
            path: (one.data, one.version, one.owner) for path, one in self.model.nodes.items() if path
        }
        assert flat(self.state) == expected
        assert {path: node.next_number for path, node in walk(self.state.root)} == {
            path: one.next_number for path, one in self.model.nodes.items() if path
        }

    @invariant()
    def sessions_know_their_nodes(self) -> None:
        assert set(self.state.sessions) == set(self.model.open)
        for name, record in self.state.sessions.items():
            assert record.ephemerals == {
                path for path, node in self.model.nodes.items() if node.owner == name
            }

    def teardown(self) -> None:
        again, _ = played(self.history)
        assert again == self.state
        assert list(encode_state(again)) == list(encode_state(self.state))


TestMachineAgainstModel = MachineAgainstModel.TestCase
TestMachineAgainstModel.settings = settings(max_examples=examples(200), stateful_step_count=30)


@settings(max_examples=examples(200))
@given(st.lists(commands, max_size=30))
def test_a_state_is_never_modified_by_what_follows(history: list[Command]) -> None:
    state = State()
    for command in history:
        before = list(encode_state(state))
        following, _ = apply(state, command)
        assert list(encode_state(state)) == before
        state = following


@settings(max_examples=examples(200))
@given(st.lists(commands, max_size=30), st.integers(0, 30))
def test_a_replica_that_starts_from_a_snapshot_goes_on_like_the_others(
    history: list[Command], at: int
) -> None:
    whole, results = played(history)
    early, _ = played(history[:at])
    restored = decode_state(iter(list(encode_state(early))))
    assert restored == early
    late, later_results = played([decode_command(encode_command(one)) for one in history[at:]], restored)
    assert late == whole
    assert later_results == results[at:]


@settings(max_examples=examples(200))
@given(st.lists(commands, max_size=20), st.data())
def test_a_command_delivered_twice_takes_effect_once(history: list[Command], draw: st.DataObject) -> None:
    numbered = [
        replace(one, request=number) if isinstance(one, Change) else one
        for number, one in enumerate(history, 1)
    ]
    doubled = []
    for command in numbered:
        doubled += [command] * draw.draw(st.integers(1, 3))
    assert flat(played(doubled)[0]) == flat(played(numbered)[0])


@given(commands, st.data())
def test_damaged_commands_are_refused_and_nothing_else_is_raised(
    command: Command, draw: st.DataObject
) -> None:
    record = bytearray(encode_command(command))
    record[draw.draw(st.integers(0, len(record) - 1))] = draw.draw(st.integers(0, 255))
    with contextlib.suppress(CorruptData):
        decode_command(bytes(record))


@given(st.binary(max_size=40))
def test_bytes_that_are_no_command_are_refused(record: bytes) -> None:
    with pytest.raises(CorruptData):
        decode_command(record)


@given(st.lists(commands, max_size=20), st.data())
def test_an_incomplete_snapshot_is_refused(history: list[Command], draw: st.DataObject) -> None:
    records = list(encode_state(played(history)[0]))
    left_out = draw.draw(st.integers(0, len(records) - 1))
    with pytest.raises(CorruptData):
        decode_state(iter(records[:left_out] + records[left_out + 1 :]))


def test_memory_of_results_is_bounded_and_a_forgotten_request_is_never_applied_again() -> None:
    state, _ = apply(State(), OpenSession("one"))
    for number in range(1, 2 * REMEMBERED):
        state, _ = apply(state, Change("one", number, (NextNode("/q/n-", b""),)))
    assert len(state.sessions["one"].results) == REMEMBERED
    after, result = apply(state, Change("one", 1, (NewNode("/late", b""),)))
    assert result.refusal is not None
    assert result.refusal.kind is RefusalKind.FORGOTTEN
    assert after.root == state.root


def test_a_name_that_is_taken_is_skipped() -> None:
    taken = tuple(NewNode(f"/q/e-{number:010}", b"") for number in range(2, 5))
    wanted = [Change("one", 1, taken), Change("one", 2, (NextNode("/q/e-", b""), NextNode("/q/e-", b"")))]
    _, results = played([OpenSession("one"), *wanted])
    assert results[-1].answers == ("/q/e-0000000005", "/q/e-0000000006")


def test_a_late_heartbeat_and_an_expiry_exclude_each_other() -> None:
    history: list[Command] = [
        OpenSession("one"),
        OpenSession("two"),
        Change("one", 1, (EphemeralNode("/live/i-", b"", True),)),
        Heartbeat("one", 7),
    ]
    state, _ = played(history)
    beaten, (_, ended) = played([Heartbeat("one", 8), EndSession("one", 7)], state)
    assert ended.refusal is not None
    assert ended.refusal.kind is RefusalKind.ALIVE
    assert len(flat(beaten)) == 2
    expired, (_, late) = played([EndSession("one", 7), Heartbeat("one", 8)], state)
    assert late.refusal is not None
    assert late.refusal.kind is RefusalKind.NO_SESSION
    assert list(flat(expired)) == ["/live"]


@pytest.mark.parametrize(
    "path", ["", "/", "a", "/a/", "//a", "/a//b", "/.", "/a/..", "/a\0", "/\ud800", "/" + "x" * 5_000]
)
def test_hostile_paths_are_refused(path: str) -> None:
    state, (_, result) = played([OpenSession("one"), Change("one", 1, (NewNode(path, b""),))])
    assert result.refusal is not None
    assert result.refusal.kind is RefusalKind.INVALID
    assert decode_state(iter(list(encode_state(state)))) == state
    assert not flat(state)


def test_a_node_has_a_largest_size_and_ephemeral_nodes_have_no_children() -> None:
    wanted = [
        Change("one", 1, (NewNode("/large", bytes(LARGEST_NODE)), EphemeralNode("/live", b""))),
        Change("one", 2, (NodeWrite("/large", bytes(LARGEST_NODE + 1), 0),)),
        Change("one", 3, (NewNode("/live/below", b""),)),
    ]
    state, results = played([OpenSession("one"), *wanted])
    assert [one.refusal is None for one in results] == [True, True, False, False]
    large = find(state.root, "/large")
    assert large is not None
    assert large.version == 0
