"""Everything that a command needs for one pair."""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from headrace.clusters.adhoc import bench_of
from headrace.clusters.directory import ClusterDirectory
from headrace.clusters.own_topics import own_topics
from headrace.console.client import RestClient
from headrace.dr.acts import SwitchoverActs
from headrace.dr.book import PairBook, fresh_state, store_of, with_settings
from headrace.dr.datastreams import PairDatastreams
from headrace.settings import HeadraceSettings
from mirror.errors import ConfigError, HeadraceError, InvalidRequest
from mirror.jobs.dr.driver import Driver
from mirror.jobs.dr.operation import PairState, begin, operation_of
from mirror.jobs.dr.settings import PairSettings
from mirror.model.identifiers import ClusterRef
from mirror.replication.context import EngineContext

_CLIENT_ID: Final = "headrace-dr"
_PAUSE_SECONDS: Final = 0.5
_UNDO_SECONDS: Final = 60.0
"""Time for which failing acts of an undo are repeated after the deadline."""


@dataclass(frozen=True)
class PairSession:
    """A pair with its connections. `note`: receives progress and remarks."""

    name: str
    settings: PairSettings
    bench: EngineContext
    book: PairBook
    acts: SwitchoverActs
    note: Callable[[str], None]

    def state(self) -> PairState:
        """Return the stored state, with the datastreams of the present settings. Raises Unreachable,
        CorruptData, NewerFormat."""
        return with_settings(self.book.read(), self.settings)

    def planned(self, target: str) -> PairState:
        """Return the state with a switch-over to a cluster, not stored yet. Raises InvalidRequest for a
        cluster of no role, IllegalTransition."""
        if target not in (self.settings.primary, self.settings.standby):
            raise InvalidRequest(
                f"{target} is not a cluster of {self.name}",
                advice=f"choose {self.settings.primary} or {self.settings.standby}",
            )
        now_ms, operator = self.bench.clock.now_ms(), f"{getpass.getuser()}@{socket.gethostname()}"
        return begin(self.state(), target, uuid4().hex, now_ms, operator)

    def switch(self, target: str, seconds: float) -> PairState:
        """Switch over, or continue to. Raises the errors of `Driver.run`."""
        return self._driver(seconds).run(self.planned(target))

    def abort(self, reason: str) -> PairState:
        """Undo the operation in progress. Raises IllegalTransition if there is none, or no way back."""
        state = self.state()
        operation_of(state)
        return self._driver(0.0).undo(state, reason)

    def _driver(self, seconds: float) -> Driver:
        until = time.monotonic() + seconds
        said: list[str] = []

        def may_repeat(error: HeadraceError, is_undo: bool) -> bool:
            if time.monotonic() >= until + (_UNDO_SECONDS if is_undo else 0.0):
                return False
            if said[-1:] != [str(error)]:
                said.append(str(error))
                self.note(str(error))
            self.bench.run(self._pause())
            return True

        return Driver(self.acts, self.book, self.bench.clock, may_repeat, self.note)

    async def _pause(self) -> None:
        await self.bench.loop.sleep(_PAUSE_SECONDS)


@contextmanager
def pair_session(
    settings: HeadraceSettings,
    name: str,
    client: RestClient,
    note: Callable[[str], None],
    *,
    reads_only: bool,
) -> Iterator[PairSession]:
    """Open the connections of a command. Raises ConfigError for an unknown pair, and StoreInUse if another
    command uses the embedded store of pairs."""
    pair = settings.dr.get(name)
    if pair is None:
        known = ", ".join(sorted(settings.dr)) or "none"
        raise ConfigError(f"unknown pair {name!r} (known: {known})", advice="add [dr.NAME] to the settings")
    cause = {"reason": f"switch-over of {name}", "requested_by": getpass.getuser()}
    clusters = {alias: ClusterRef(alias) for alias in (pair.primary, pair.standby)}
    with (
        store_of(settings, "headrace dr", reads_only=reads_only) as nodes,
        bench_of(settings, _CLIENT_ID, ClusterDirectory(settings.clusters)) as bench,
    ):
        acts = SwitchoverActs(pair, bench, PairDatastreams(client, cause), own_topics(settings))
        yield PairSession(
            name, pair, bench, PairBook(nodes, bench, clusters, fresh_state(name, pair), note), acts, note
        )
