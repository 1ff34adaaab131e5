"""Stores the state of a cluster pair in the coordination store, and copies of the state on both clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final
from urllib.parse import quote
from uuid import uuid4

from headrace.clusters.adhoc import reach
from headrace.coordination.client import connected, store_folder, viewed
from headrace.coordination.document import ExportedState
from headrace.settings import HeadraceSettings, StoreKind
from mirror.adapters.embedded_store.session import EmbeddedSession, session_on_copy
from mirror.adapters.embedded_store.store import EmbeddedStore
from mirror.coordination.stores import znodes
from mirror.errors import (
    AlreadyExists,
    HeadraceError,
    IllegalTransition,
    NotFound,
    Unreachable,
    VersionConflict,
)
from mirror.jobs.dr.log import StateCopy
from mirror.jobs.dr.operation import PairState, read_state, write_state
from mirror.jobs.dr.settings import PairSettings
from mirror.model.identifiers import ClusterRef
from mirror.ports import NodeStore
from mirror.replication.context import EngineContext

_FOLDER: Final = "dr"
"""Folder of the store of pairs, beside an embedded store."""


@contextmanager
def store_of(settings: HeadraceSettings, command: str, *, reads_only: bool) -> Iterator[NodeStore]:
    """Connect a command to the coordination store with the states of the pairs.

    An instance keeps an embedded store open. If the service has an embedded store, the states of pairs are in
    a second one, which one command at a time can open.

    Raises StoreInUse, and the errors of the store's client.
    """
    if settings.store is StoreKind.EMBEDDED:
        folder = store_folder(settings) / _FOLDER
        if reads_only:
            yield session_on_copy(folder)
            return
        session = EmbeddedSession(EmbeddedStore(folder, command))
        session.start()
        try:
            yield session
        finally:
            session.stop()
    else:
        with (viewed if reads_only else connected)(settings, command) as nodes:
            yield nodes


def exported_with_pairs(settings: HeadraceSettings, state: ExportedState) -> ExportedState:
    """Add the states of the cluster pairs to the exported state of a service.

    The pairs may have a separate store. Raises StoreInUse while another command changes them.
    """
    if settings.store is not StoreKind.EMBEDDED or not (store_folder(settings) / _FOLDER).exists():
        return state
    with store_of(settings, "headrace state export", reads_only=False) as nodes:
        paths = [f"{znodes.DR}/{name}" for name in nodes.children(znodes.DR)]
        found = {path: node.data for path, node in nodes.read_present(paths).items()}
    return replace(state, nodes={**state.nodes, **({znodes.DR: b""} if found else {}), **found})


def import_pairs(settings: HeadraceSettings, state: ExportedState) -> ExportedState:
    """Write the states of cluster pairs if they have a separate store. Return the remaining state to import.

    Raises StoreInUse; IllegalTransition if that store has another state of a pair.
    """
    if settings.store is not StoreKind.EMBEDDED:
        return state
    pairs = {path: data for path, data in state.nodes.items() if path.startswith(f"{znodes.DR}/")}
    if pairs:
        with store_of(settings, "headrace state import", reads_only=False) as nodes:
            present = nodes.read_present([f"{znodes.DR}/{name}" for name in nodes.children(znodes.DR)])
            if other := sorted(path for path, node in present.items() if pairs.get(path) != node.data):
                raise IllegalTransition(
                    f"the store of pairs is not empty: {other[0]}",
                    advice="import into a new mirror.state_directory",
                )
            nodes.create_all([(path, data) for path, data in pairs.items() if path not in present])
    others = {path: data for path, data in state.nodes.items() if path != znodes.DR and path not in pairs}
    return replace(state, nodes=others)


def fresh_state(name: str, settings: PairSettings) -> PairState:
    """Return the state of a cluster pair before its first operation."""
    return PairState(
        name=name,
        active=settings.primary,
        datastreams={datastream: datastream for datastream in settings.datastreams},
    )


def with_settings(state: PairState, settings: PairSettings) -> PairState:
    """Replace the datastreams in the state of a pair by the datastreams in the current settings.

    If an operation is in progress, or if the pair has failed over, the state is returned unchanged.
    """
    is_fixed = state.operation is not None or state.fork is not None
    if is_fixed or set(state.datastreams) == set(settings.datastreams):
        return state
    return state.with_(datastreams={name: state.datastreams.get(name, name) for name in settings.datastreams})


def node_of(name: str) -> str:
    """Return the path of the node that stores the state of a pair."""
    return f"{znodes.DR}/{quote(name, safe='')}"


class PairStateStore:
    """Reads and writes the state of one cluster pair.

    `fresh`: initial state, used if no state is stored. `note`: callback for messages about copies that cannot
    be read or written.

    Conditional writes in the coordination store resolve conflicts between operators. If the store has lost
    the state, the latest copy on the clusters is used.
    """

    def __init__(
        self,
        nodes: NodeStore,
        bench: EngineContext,
        clusters: Mapping[str, ClusterRef],
        fresh: PairState,
        note: Callable[[str], None],
    ) -> None:
        self._nodes = nodes
        self._bench = bench
        self._clusters = clusters
        self._copies = {name: StateCopy(bench, reference, fresh.name) for name, reference in clusters.items()}
        self._fresh = fresh
        self._note = note
        self._path = node_of(fresh.name)
        self._writer = uuid4().hex
        self._node_version: int | None = None
        self.silent: set[str] = set()
        """Clusters that do not respond.

        Copies on them are not read, and are written only if `everywhere` is set.
        """

    def beside(self, fresh: PairState) -> PairStateStore:
        """Return a book for another state, such as that of a drill, in the same store and clusters."""
        return PairStateStore(self._nodes, self._bench, self._clusters, fresh, self._note)

    def begin_drill(self) -> None:
        """Prevent other commands from running a drill. Raises IllegalTransition while another drill runs."""
        path = f"{znodes.DRILLS}/{quote(self._fresh.name, safe='')}"
        try:
            self._nodes.create(path, self._writer.encode(), ephemeral=True)
        except AlreadyExists as error:
            raise IllegalTransition(
                f"another command is operating on {self._fresh.name}",
                advice="wait until that command ends or, if it was killed, until its session expires",
            ) from error

    def read(self) -> PairState:
        """Return the newest state of the pair from the store and the copies. Raises Unreachable, CorruptData,
        NewerFormat."""
        found = [self._fresh]
        stored = self._stored()
        if stored is not None:
            found.append(stored)
        for name, copy in self._copies.items():
            if name in self.silent:
                continue
            try:
                reach(self._bench, self._clusters[name])
                state = self._bench.run(copy.read())
            except HeadraceError as error:
                self.silent.add(name)
                self._note(f"cannot read the state of {self._fresh.name} on {name}: {error}")
            else:
                found += [] if state is None else [state]
        return max(found, key=lambda state: state.version)

    def save(self, state: PairState, *, everywhere: bool) -> PairState:
        """Store the state of the pair; see `mirror.jobs.dr.driver.StateStore`."""
        new = state.with_(version=state.version + 1, writer=self._writer)
        try:
            self._write(write_state(new))
        except (VersionConflict, AlreadyExists, NotFound) as error:
            present = self._stored()
            if present is None or (present.version, present.writer) != (new.version, new.writer):
                raise VersionConflict(
                    f"another operator has changed the state of {new.name}",
                    advice=f"see headrace dr status {new.name}",
                ) from error
        for name, copy in self._copies.items():
            if name in self.silent and not everywhere:
                continue
            try:
                self._bench.run(copy.write(new))
            except HeadraceError as error:
                sentence = f"cannot store the state of {new.name} on {name}: {error}"
                if everywhere and error.retriable:
                    raise Unreachable(sentence) from error
                if everywhere:
                    raise
                self.silent.add(name)
                self._note(sentence)
        return new

    def _write(self, value: bytes) -> None:
        if self._node_version is None:
            self._nodes.create(self._path, value)
            self._node_version = 0
        else:
            self._node_version = self._nodes.write(self._path, value, self._node_version)

    def _stored(self) -> PairState | None:
        try:
            node = self._nodes.read(self._path)
        except NotFound:
            self._node_version = None
            return None
        self._node_version = node.version
        return read_state(node.data)
