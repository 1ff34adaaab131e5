"""Reads the states of all configured cluster pairs for the REST interface."""

from __future__ import annotations

from collections.abc import Callable

from headrace.coordination.client import store_folder
from headrace.dr.state_store import fresh_state, node_of, with_settings
from headrace.dr.status import PairView
from headrace.settings import HeadraceSettings, StoreKind
from mirror.adapters.embedded_store.session import session_on_copy
from mirror.errors import HeadraceError, NotFound
from mirror.jobs.dr.operation import PairState, read_state
from mirror.jobs.dr.settings import PairSettings
from mirror.model.identifiers import ClusterRef
from mirror.ports import NodeStore


class PairReader:
    """Reads the state of the configured cluster pairs.

    `copy_at`: reads the copy of a pair's state on a cluster.

    If the coordination store has no state of a pair, it may have lost it. If the state is missing, the copies
    on both clusters are read once and cached.
    """

    def __init__(
        self,
        settings: HeadraceSettings,
        session: NodeStore,
        copy_at: Callable[[ClusterRef, str], PairState | None],
    ) -> None:
        self._settings = settings
        self._session = session
        self._copy_at = copy_at
        self._copied: dict[str, PairState | None] = {}

    def __call__(self) -> list[PairView]:
        """Return the states of all pairs, sorted by name. Raises Unreachable if the store does not
        respond."""
        if not self._settings.dr:
            return []
        embedded = self._settings.store is StoreKind.EMBEDDED
        nodes = session_on_copy(store_folder(self._settings) / "dr") if embedded else self._session
        return [self._view(nodes, name, pair) for name, pair in sorted(self._settings.dr.items())]

    def _view(self, nodes: NodeStore, name: str, pair: PairSettings) -> PairView:
        problem = ""
        try:
            state = read_state(nodes.read(node_of(name)).data)
            self._copied.pop(name, None)
        except NotFound:
            copy, problem = self._copy(name, pair)
            state = copy or fresh_state(name, pair)
        except HeadraceError as error:
            return PairView(name, pair, None, f"the state of {name} is unknown: {error}")
        return PairView(name, pair, with_settings(state, pair), problem)

    def _copy(self, name: str, pair: PairSettings) -> tuple[PairState | None, str]:
        """Return the newest copy of a pair's state on its clusters, and a message about unreadable copies.

        The result is cached if both copies could be read.
        """
        if name in self._copied:
            return self._copied[name], ""
        found, problems = list[PairState](), list[str]()
        for cluster in (pair.primary, pair.standby):
            try:
                copy = self._copy_at(ClusterRef(cluster), name)
            except HeadraceError as error:
                problems.append(f"cannot read the state of {name} on {cluster}: {error}")
            else:
                found += [] if copy is None else [copy]
        latest = max(found, key=lambda state: state.version, default=None)
        if not problems:
            self._copied[name] = latest
        return latest, "; ".join(problems)
