"""The state of a stopped service, moved to another store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.coordination.client import connected
from headrace.coordination.document import ExportedState, from_document, to_document
from headrace.coordination.transfer import exported, import_state
from headrace.dr.state_store import import_pairs, store_of
from headrace.settings import load_settings
from mirror.coordination.stores import znodes
from mirror.coordination.stores.root import ensure_root
from mirror.errors import CorruptData, IllegalTransition, NewerFormat, Unreachable
from mirror.ports import NodeStore
from tests.fakes.node_store import FakeSession, FakeZooKeeper, failing_write
from tests.unit.headrace.conftest import Headrace

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
states = st.builds(
    ExportedState,
    st.dictionaries(names, st.binary(max_size=30), max_size=5),
    st.dictionaries(names, st.integers(0, 100), max_size=3),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.integers(0),
)


@given(states)
def test_a_state_survives_as_a_document(state: ExportedState) -> None:
    assert from_document(to_document(state), "f") == state


@given(states, st.data())
def test_a_changed_document_is_refused(state: ExportedState, draw: st.DataObject) -> None:
    document = json.loads(to_document(state))
    document["content"]["nodes"]["/more"] = {"text": ""}
    with pytest.raises(CorruptData):
        from_document(json.dumps(document).encode(), "f")
    whole = to_document(state)
    with pytest.raises(CorruptData):
        from_document(whole[: draw.draw(st.integers(0, len(whole) - 2))], "f")


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"kind": 1}'])
def test_other_documents_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptData):
        from_document(data, "f")


def test_a_newer_document_is_refused() -> None:
    document = json.loads(to_document(ExportedState({}))) | {"format": 2}
    with pytest.raises(NewerFormat):
        from_document(json.dumps(document).encode(), "f")


def a_service(nodes: NodeStore) -> None:
    """What a service has left behind."""
    ensure_root(nodes)
    nodes.create("/datastreams/orders ü", b'{"a": 1}')
    nodes.create("/plan", b"\xff\x00")
    nodes.create("/plan/group/1-x", b"tasks")
    for _ in range(7):
        nodes.create("/events/e-", b"event", sequential=True)
    for number in range(5):
        nodes.delete(f"/events/e-{number:010}")
    nodes.delete(nodes.create("/live/i-", b"", sequential=True))


@pytest.fixture
def stopped() -> FakeSession:
    """The store of a stopped service."""
    session = FakeZooKeeper().session()
    a_service(session)
    return session


def tree(nodes: NodeStore, path: str = "") -> dict[str, bytes]:
    """All nodes by path."""
    found: dict[str, bytes] = {}
    for name in nodes.children(path):
        below = f"{path}/{name}"
        found |= {below: nodes.read(below).data, **tree(nodes, below)}
    return found


@pytest.fixture(params=["fake", "embedded"])
def empty(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[NodeStore]:
    """A store without nodes."""
    if request.param == "fake":
        yield FakeZooKeeper().session()
        return
    monkeypatch.setenv("HEADRACE_MIRROR__STATE_DIRECTORY", str(tmp_path / "other"))
    with connected(load_settings(), "test") as nodes:
        yield nodes


def test_everything_is_moved_and_numbers_continue(stopped: FakeSession, empty: NodeStore) -> None:
    state = exported(stopped, "here", 1)
    before = tree(stopped)
    import_state(empty, from_document(to_document(state), "f"))
    assert tree(empty) == before == tree(stopped)
    ensure_root(empty)
    for folder, prefix in (("/events", "e-"), ("/live", "i-")):
        moved = empty.create(f"{folder}/{prefix}", sequential=True)
        assert moved >= stopped.create(f"{folder}/{prefix}", sequential=True)


def test_a_counter_of_thousands_is_moved(stopped: FakeSession, empty: NodeStore) -> None:
    state = exported(stopped, "here", 1)
    import_state(empty, ExportedState(state.nodes, {**state.next_numbers, znodes.EVENTS: 2_345}))
    assert empty.create("/events/e-", sequential=True) == "/events/e-0000002345"


def test_a_running_service_is_not_exported(stopped: FakeSession) -> None:
    stopped.create("/live/i-", b"", ephemeral=True, sequential=True)
    with pytest.raises(IllegalTransition, match="live"):
        exported(stopped, "here", 1)


def test_an_empty_store_has_nothing_to_export(empty: NodeStore) -> None:
    with pytest.raises(IllegalTransition):
        exported(empty, "here", 1)


def test_nothing_is_overwritten(stopped: FakeSession, empty: NodeStore) -> None:
    state = exported(stopped, "here", 1)
    empty.create("/datastreams/mine", b"")
    with pytest.raises(IllegalTransition, match="empty"):
        import_state(empty, state)
    assert tree(empty) == {"/datastreams": b"", "/datastreams/mine": b""}


@pytest.mark.parametrize("version", [b"", b"x", str(znodes.FORMAT + 1).encode()])
def test_a_state_of_another_format_is_not_imported(empty: NodeStore, version: bytes) -> None:
    with pytest.raises(NewerFormat):
        import_state(empty, ExportedState({znodes.VERSION: version}))
    assert tree(empty) == {}


@pytest.mark.parametrize("after_effect", [False, True])
def test_an_import_that_breaks_off_anywhere_keeps_instances_away_and_can_be_repeated(
    stopped: FakeSession, after_effect: bool
) -> None:
    state = exported(stopped, "here", 1)
    for number in count():
        nodes = FakeZooKeeper().session()
        nodes.script = failing_write(number, after_effect=after_effect)
        try:
            import_state(nodes, state)
        except Unreachable:
            nodes.script = lambda _: None
            if znodes.IMPORT in tree(nodes):
                with pytest.raises(IllegalTransition):
                    ensure_root(nodes)
                import_state(nodes, state)
            elif not tree(nodes):
                import_state(nodes, state)
            assert tree(nodes) == tree(stopped)
        else:
            break
    assert number > 10


def test_the_commands(headrace: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "state.json"
    monkeypatch.setenv("HEADRACE_MIRROR__STATE_DIRECTORY", str(tmp_path / "one"))
    assert headrace("state", "export", str(file)).code == 2
    with connected(load_settings(), "test") as nodes:
        a_service(nodes)
        expected = tree(nodes)
        assert headrace("state", "export", str(file)).code == 1
    shown = headrace("state", "export", str(file), "--json")
    assert (shown.code, json.loads(shown.out)["nodes"]) == (0, len(expected))
    assert file.stat().st_mode & 0o777 == 0o600
    assert headrace("state", "export", str(file)).code == 2
    assert headrace("state", "import", str(file)).code == 2
    monkeypatch.setenv("HEADRACE_MIRROR__STATE_DIRECTORY", str(tmp_path / "two"))
    assert headrace("state", "import", str(file)).code == 0
    with connected(load_settings(), "test") as nodes:
        assert tree(nodes) == expected
    assert headrace("state", "import", str(tmp_path / "missing")).code == 1


def test_the_states_of_pairs_move_although_they_have_a_store_of_their_own(
    headrace: Headrace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, pairs = tmp_path / "state.json", {"/dr": b"", "/dr/a%2Fb": b"one", "/dr/drill": b"\xff"}
    monkeypatch.setenv("HEADRACE_MIRROR__STATE_DIRECTORY", str(tmp_path / "one"))
    with connected(load_settings(), "test") as nodes:
        a_service(nodes)
    with store_of(load_settings(), "test", reads_only=False) as nodes:
        nodes.create_all(list(pairs.items()))
        nodes.create("/drills/drill", ephemeral=True)
        assert headrace("state", "export", str(file)).code != 0
    assert headrace("state", "export", str(file)).code == 0
    state = from_document(file.read_bytes(), "f")
    assert {path: data for path, data in state.nodes.items() if path.startswith("/dr")} == pairs

    other = FakeZooKeeper().session()
    import_state(other, state)
    assert exported(other, "here", 1).nodes == state.nodes
    monkeypatch.setenv("HEADRACE_MIRROR__STATE_DIRECTORY", str(tmp_path / "two"))
    for expected in (0, 2):  # then it is not empty
        assert headrace("state", "import", str(file)).code == expected
    with connected(load_settings(), "test") as nodes:
        assert "/dr" not in tree(nodes)
    with store_of(load_settings(), "test", reads_only=False) as nodes:
        assert tree(nodes) == pairs


def test_the_state_of_another_pair_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_MIRROR__STATE_DIRECTORY", str(tmp_path))
    state = ExportedState({"/dr": b"", "/dr/p": b"one", "/plan": b""})
    for _ in range(2):  # an interrupted import is repeated
        assert import_pairs(load_settings(), state).nodes == {"/plan": b""}
    with pytest.raises(IllegalTransition):
        import_pairs(load_settings(), ExportedState({"/dr/p": b"two"}))
    with pytest.raises(IllegalTransition):
        import_pairs(load_settings(), ExportedState({"/dr/q": b"one"}))
