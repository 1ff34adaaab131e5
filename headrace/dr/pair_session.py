"""Connections and operations of one cluster pair, for commands."""

from __future__ import annotations

import getpass
import math
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

from headrace.clusters.adhoc import bench_of, reach
from headrace.clusters.directory import ClusterDirectory
from headrace.clusters.own_topics import own_topics
from headrace.console.client import RestClient
from headrace.console.durations import duration_seconds
from headrace.dr.acts import SwitchoverActs
from headrace.dr.datastreams import PairDatastreams
from headrace.dr.outages import OutageReports, undo_advice, waiting_advice
from headrace.dr.state_store import PairStateStore, fresh_state, store_of, with_settings
from headrace.dr.tail import copy_tail, exported_ends, exported_records
from headrace.settings import HeadraceSettings
from mirror.errors import ConfigError, HeadraceError, IllegalTransition, InvalidRequest
from mirror.jobs.dr.driver import Driver
from mirror.jobs.dr.fork import (
    EXPORT,
    Fork,
    Loss,
    LossLimit,
    TailDecision,
    accepted_limit,
    document_of,
    record_limit,
)
from mirror.jobs.dr.operation import (
    Kind,
    PairState,
    Step,
    Switchover,
    begin,
    fork_of_pair,
    is_returning,
    operation_of,
)
from mirror.jobs.dr.settings import PairSettings
from mirror.lane.rules import RoutingRules
from mirror.model.expressions import expression_of
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition
from mirror.replication.connector import open_sink
from mirror.replication.context import EngineContext

_CLIENT_ID: Final = "headrace-dr"
_PAUSE_SECONDS: Final = 0.2
_UNDO_SECONDS: Final = 60.0
"""Seconds after the deadline for which a failing undo is still retried."""


@dataclass(frozen=True)
class PairSession:
    """A cluster pair with its connections. `note`: callback for messages about the progress."""

    name: str
    settings: PairSettings
    bench: EngineContext
    store: PairStateStore
    acts: SwitchoverActs
    note: Callable[[str], None]

    def state(self) -> PairState:
        """Return the stored state of the pair, with the datastreams of the current settings. Raises
        Unreachable, CorruptData, NewerFormat."""
        return with_settings(self.store.read(), self.settings)

    def planned(self, target: str, kind: Kind = Kind.SWITCHOVER, **fields: Any) -> PairState:
        """Return the state that the pair would have with a new operation, without storing it.

        `target`: empty for the active cluster. Raises InvalidRequest if it is not a cluster of the pair;
        IllegalTransition.
        """
        state = self.state()
        if not target:
            target = state.active
        if target not in (self.settings.primary, self.settings.standby):
            raise InvalidRequest(
                f"{target} is not a cluster of {self.name}",
                advice=f"choose {self.settings.primary} or {self.settings.standby}",
            )
        return begin(state, target, uuid4().hex, self.bench.clock.now_ms(), self.operator, kind, **fields)

    @property
    def operator(self) -> str:
        """Name of the user who runs this command, and of the host."""
        return f"{getpass.getuser()}@{socket.gethostname()}"

    def run(self, planned: PairState, seconds: float) -> PairState:
        """Run or resume a planned operation of the pair. Reports clusters that do not respond. Raises the
        errors of `Driver.run`."""
        operation, until = operation_of(planned), self.bench.loop.now() + seconds

        def note(text: str) -> None:
            nonlocal operation
            if isinstance(text, Step):
                operation = operation.with_(reached=text)
            self.note(text)

        def advice(silent: str) -> str:
            now = self.bench.loop.now()
            left = until - now if now < until else until + _UNDO_SECONDS - now
            return waiting_advice(self.name, operation, silent, max(left, 0.0))

        with self._outage_reports(operation, advice):
            return self._driver(until, note).run(planned)

    def _outage_reports(
        self, operation: Switchover, advice: Callable[[str], str]
    ) -> AbstractContextManager[None]:
        is_failover = operation.kind is Kind.FAILOVER  # does not need the lost cluster
        needed = (operation.target,) if is_failover else (operation.origin, operation.target)
        return OutageReports(self.bench, needed, advice, self.note).watching()

    def planned_failover(self, target: str, max_loss: str, accepted: str) -> PairState:
        """Return the state that the pair would have with a failover and its measured loss, without storing
        it.

        `max_loss`: limit of the loss, in records or as a duration. `accepted`: `Loss.figure` that the
        operator accepts, or empty. Raises InvalidRequest if it is not the measured loss, and the errors of
        `planned`.
        """
        self.store.silent.add(self.settings.other(target))  # probably lost, and not required
        limit = record_limit(max_loss) or LossLimit(seconds=duration_seconds(max_loss))
        state = self.planned(target, Kind.FAILOVER, limit=limit)
        operation = operation_of(state)
        if operation.step is not Step.LOSS_ACCEPTED or operation.failure:
            return state
        operation = self.acts.intend(state, operation)
        if accepted:
            operation = operation.with_(limit=accepted_limit(accepted, operation.loss or Loss()))
        return state.with_(operation=operation)

    def fail_back(self, seconds: float) -> PairState:
        """Copy the records written on the active cluster since the failover, then switch over.

        Raises the errors of `Driver.run`.
        """
        until = self.bench.loop.now() + seconds
        state = self.state()
        if not is_returning(state):
            state = self.run(self.planned("", Kind.FAILBACK), seconds)
            if state.history[-1].failure:
                return state
        target = self.settings.other(state.active)
        return self.run(self.planned(target), max(until - self.bench.loop.now(), 0.0))

    def tail(self, state: PairState, selection: str) -> tuple[Fork, dict[TopicPartition, int]]:
        """Return the exact fork, and the end offsets on the lost cluster of the selected topics.

        The fork is determined by a comparison of both clusters. Raises IllegalTransition if the pair has no
        fork; InvalidRequest, Unreachable.
        """
        fork = fork_of_pair(state)
        reach(self.bench, *map(ClusterRef, (self.settings.primary, self.settings.standby)))
        expression = expression_of("topics", selection)
        ends = self.acts.ends_at(fork.cluster, fork.definitions)
        chosen = {place: end for place, end in ends.items() if expression.matches(place.topic)}
        return self.bench.run(self.acts.tail(fork).settle()), chosen

    def export_tail(self, folder: Path, selection: str) -> TailDecision:
        """Write the undecided records of the lost cluster to files, and record the export in the state.

        Resumes an interrupted export to the same folder. Raises IllegalTransition, InvalidRequest,
        ConfigError, Unreachable.
        """
        state = self.state()
        if state.operation is not None:
            raise IllegalTransition(f"a {state.operation.kind} of {self.name} is in progress")
        fork, ends = self.tail(state, selection)
        reader = self.acts.tail(fork)
        ranges = self.bench.run(reader.ranges(ends))
        earlier = exported_ends(folder.absolute(), ranges)
        sink = open_sink(f"file:{quote(str(folder.absolute()))}")
        try:
            records = self.bench.run(copy_tail(reader, ranges, sink, RoutingRules()))
        finally:
            sink.close()
        records += self.bench.run(exported_records(folder.absolute(), ranges, earlier))
        decision = TailDecision(
            action=EXPORT,
            at_ms=self.bench.clock.now_ms(),
            operator=self.operator,
            selection=selection,
            records=records,
            ends=document_of(ends),
            folder=str(folder.absolute()),
        )
        self.store.save(state.with_(fork=fork.after(decision)), everywhere=True)
        return decision

    def abort(self, reason: str) -> PairState:
        """Undo the operation in progress.

        Raises IllegalTransition without an operation, or after the point of no return.
        """
        state = self.state()
        operation = operation_of(state).by(self.operator)

        with self._outage_reports(operation, partial(undo_advice, seconds=_UNDO_SECONDS)):
            driver = self._driver(self.bench.loop.now(), self.note)
            return driver.undo(state.with_(operation=operation), reason)

    def _driver(self, until: float, note: Callable[[str], None]) -> Driver:
        """Return a driver that retries steps until a time (monotonic seconds), and an undo longer."""
        reported: list[str] = []

        def may_repeat(error: HeadraceError, is_undo: bool) -> bool:
            if self.bench.loop.now() >= until + (_UNDO_SECONDS if is_undo else 0.0):
                return False
            if reported[-1:] != [str(error)]:
                reported.append(str(error))
                note(str(error))
            self.bench.run(self._pause())
            return True

        return Driver(self.acts, self.store, self.bench.clock, may_repeat, note)

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
    request_seconds: float = math.inf,
) -> Iterator[PairSession]:
    """Open the connections that a command for a pair needs.

    `request_seconds`: maximum duration of a request. Raises ConfigError for an unknown pair; StoreInUse if
    another command uses the embedded store of pairs.
    """
    pair = settings.dr.get(name)
    if pair is None:
        known = ", ".join(sorted(settings.dr)) or "none"
        raise ConfigError(f"unknown pair {name!r} (known: {known})", advice="add [dr.NAME] to the settings")
    cause = {"reason": f"switch-over of {name}", "requested_by": getpass.getuser()}
    clusters = {alias: ClusterRef(alias) for alias in (pair.primary, pair.standby)}
    with (
        store_of(settings, "headrace dr", reads_only=reads_only) as nodes,
        bench_of(settings, _CLIENT_ID, ClusterDirectory(settings.clusters), request_seconds) as bench,
    ):
        acts = SwitchoverActs(pair, bench, PairDatastreams(client, cause), own_topics(settings))
        yield PairSession(
            name,
            pair,
            bench,
            PairStateStore(nodes, bench, clusters, fresh_state(name, pair), note),
            acts,
            note,
        )
