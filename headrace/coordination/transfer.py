"""Exports the state of a stopped service from its coordination store, and imports it into an empty one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from headrace.coordination.document import ExportedState
from mirror.coordination.store.tree import parent_of
from mirror.coordination.stores import znodes
from mirror.errors import IllegalTransition, NewerFormat
from mirror.model.nodes import NodeDeletion
from mirror.ports import NodeStore
from mirror.wording import first_few

_OF_INSTANCES: Final = frozenset(
    {
        znodes.LIVE,
        znodes.LEAVING,
        znodes.HOLDINGS,
        znodes.TROUBLES,
        znodes.QUOTAS,
        znodes.NO_TOPICS,
        znodes.DRILLS,
    }
)
"""Parent nodes of the nodes that belong to a running instance or command."""
_NUMBERED: Final = (znodes.LIVE, znodes.REQUESTS, znodes.OPERATIONS, znodes.PROPOSALS, znodes.EVENTS)
"""Parent nodes with sequential children. The new store continues the sequence numbers."""
_COUNTER: Final = "counter-"
_AT_ONCE: Final = 1_000
_SHOWN: Final = 3


def exported(nodes: NodeStore, store: str, now_ms: int) -> ExportedState:
    """Read all nodes of the coordination store. Raises IllegalTransition while instances are live or if there
    is no state."""
    _require_stopped(nodes)
    nodes.sync()
    paths = list(_paths(nodes, ""))
    if znodes.VERSION not in paths:
        raise IllegalTransition(f"{store} contains no state of a service", advice="check the settings")
    found = nodes.read_present(paths)
    next_numbers = {folder: _next_number(nodes, folder) for folder in _NUMBERED if folder in found}
    _require_stopped(nodes)
    return ExportedState({path: node.data for path, node in found.items()}, next_numbers, store, now_ms)


def import_state(
    nodes: NodeStore,
    state: ExportedState,
    write_elsewhere: Callable[[ExportedState], ExportedState] = lambda state: state,
) -> None:
    """Write all nodes of an export to an empty coordination store.

    The nodes of an unfinished import are replaced. Raises NewerFormat; IllegalTransition if the store is not
    empty.

    `write_elsewhere`: writes a part of the state to another store, and returns the rest.
    """
    _require_known_format(state)
    present = nodes.children("")
    if znodes.IMPORT.removeprefix("/") in present:
        for name in present:
            if f"/{name}" != znodes.IMPORT:
                nodes.delete_tree(f"/{name}")
    elif present:
        raise IllegalTransition(
            f"the store is not empty: {first_few(present, _SHOWN)}",
            advice="import into a new mirror.state_directory, coordination.topic or zookeeper.root",
        )
    else:
        nodes.create(znodes.IMPORT)
    state = write_elsewhere(state)
    for folder, number in state.next_numbers.items():
        nodes.create(folder, state.nodes.get(folder, b""))
        _advance(nodes, folder, number - sum(parent_of(path) == folder for path in state.nodes))
    others = [(path, data) for path, data in state.nodes.items() if path not in state.next_numbers]
    nodes.create_all(sorted(others, key=lambda other: other[0].count("/")))
    nodes.delete(znodes.IMPORT)


def _require_stopped(nodes: NodeStore) -> None:
    if live := nodes.children(znodes.LIVE):
        raise IllegalTransition(
            f"instances of the service are still live: {first_few(live, _SHOWN)}",
            advice="stop all instances; a killed instance disappears after the session timeout",
        )


def _require_known_format(state: ExportedState) -> None:
    text = state.nodes.get(znodes.VERSION, b"").decode(errors="replace")
    if not text.isdecimal() or int(text) > znodes.FORMAT:
        raise NewerFormat(
            f"the exported state has format {text!r}, this version supports up to {znodes.FORMAT}",
            advice="import it with the version that exported it, or a newer one",
        )


def _paths(nodes: NodeStore, path: str) -> Iterator[str]:
    """Yield the paths below a node, parents first."""
    for name in nodes.children(path):
        below = f"{path}/{name}"
        yield below
        if below not in _OF_INSTANCES:
            yield from _paths(nodes, below)


def _next_number(nodes: NodeStore, folder: str) -> int:
    """Return the number of the next sequential node. Finds out by creating and deleting one."""
    made = nodes.create(f"{folder}/{_COUNTER}", sequential=True)
    nodes.delete(made)
    return int(made.rpartition("-")[2]) + 1


def _advance(nodes: NodeStore, folder: str, steps: int) -> None:
    """Increase the number of a parent's next sequential node by `steps`, by creating and deleting
    children."""
    while steps > 0:
        paths = [f"{folder}/{_COUNTER}{number}" for number in range(min(steps, _AT_ONCE))]
        nodes.create_all([(path, b"") for path in paths])
        for start in range(0, len(paths), znodes.MOST_CHANGES):
            nodes.change_together([NodeDeletion(path) for path in paths[start : start + znodes.MOST_CHANGES]])
        steps -= len(paths)
