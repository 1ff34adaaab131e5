"""Rehearses a switch-over to the other cluster and back, with a separate topic and consumer group.

A drill runs the steps of a real switch-over with the same clusters, principals and targets. The state of a
drill is stored under a separate name. If a drill is interrupted, the next drill undoes its changes first.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from typing import Any, Final, TypeVar

from headrace.clusters.directory import ClusterDirectory
from headrace.dr.pair_session import PairSession
from headrace.dr.state_store import PairStateStore
from headrace.oncall.canaries import probes_of
from headrace.oncall.canary_gate import run_gate
from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.errors import HeadraceError, IllegalTransition, TimedOut, VersionConflict
from mirror.jobs.dr.fence import allow
from mirror.jobs.dr.operation import PairState, PastSwitchover
from mirror.jobs.dr.report import DRILL_SUFFIX
from mirror.jobs.dr.settings import PairSettings
from mirror.jobs.dr.stillness import log_ends
from mirror.jobs.translate_job import commit_positions
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicDescription, TopicPartition, canary_topic
from monitor.adapters.canary_probe import TOPIC_SETTINGS
from monitor.canary.canary_watch import CanaryPath
from monitor.canary.gate import GateLimits, GateResult
from monitor.canary.ledger import CanaryFigures

_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9._-]")
_LONGEST: Final = 60
_MIN_AVAILABILITY: Final = 0.99
_PAUSE_SECONDS: Final = 0.5
_T = TypeVar("_T")


def plain_name(pair: str) -> str:
    """Convert the name of a pair to characters that names of datastreams and groups may contain."""
    plain = _ILLEGAL.sub("_", pair)[:_LONGEST]
    if plain and plain == pair:
        return plain
    return f"{plain}.{sha256(pair.encode(errors='surrogatepass')).hexdigest()[:8]}"


def drill_store(session: PairSession) -> PairStateStore:
    """Return the object that reads and writes the state of a pair's drills."""
    name = f"{session.name}{DRILL_SUFFIX}"
    return session.store.beside(PairState(name=name, active=session.settings.primary, datastreams={}))


@dataclass
class DrillResult:
    """Result of a switch-over drill.

    `problems`: reasons for the failure, empty if the drill passed. `legs`: switch-overs to the other cluster
    and back. `deliveries`: results of the records that were written before and after the first switch-over.
    """

    pair: str
    problems: list[str] = field(default_factory=list)
    legs: list[PastSwitchover] = field(default_factory=list)
    deliveries: list[GateResult] = field(default_factory=list)

    @property
    def is_passed(self) -> bool:
        """True if all steps of the drill succeeded."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Return the result of the drill as a JSON object."""
        return {
            "pair": self.pair,
            "passed": self.is_passed,
            "problems": self.problems,
            "legs": [leg.model_dump(mode="json") for leg in self.legs],
            "deliveries": [
                {"lost": delivery.lost, **asdict(delivery.figures)} for delivery in self.deliveries
            ],
        }


class Drill:
    """A drill of a cluster pair: a switch-over and its reversal, on a separate topic.

    `seconds`: duration of the writes on each cluster. `deadline_seconds`: timeout of each switch-over and of
    each retried request.
    """

    def __init__(
        self, session: PairSession, directory: ClusterDirectory, seconds: float, deadline_seconds: float
    ) -> None:
        self._real = session
        self._directory = directory
        self._seconds = seconds
        self._deadline_seconds = deadline_seconds
        self._result = DrillResult(session.name)
        plain = plain_name(session.name)
        self._group = f"headrace-drill-{plain}"
        self._prefix = f"{plain}-drill"
        self._store = drill_store(session)

    def planned(self) -> tuple[PairState, PairSettings]:
        """Return the state and the settings that the next drill would have, without storing them.

        Raises IllegalTransition if a switch-over of the pair is in progress.
        """
        real = self._real.state()
        if real.operation is not None:
            raise IllegalTransition(
                f"a switch-over of {real.name} to {real.operation.target} is in progress",
                advice="complete or abort it before the drill",
            )
        state = self._store.read()
        number = state.generation + 1
        name = f"{self._prefix}-{number}"
        begun = state.with_(
            active=real.active,
            datastreams={name: name},
            previous={},
            fences=(),
            operation=None,
            generation=number,
        )
        return begun, self._settings_of(begun)

    def run(self) -> DrillResult:
        """Run the drill, and remove everything that it has created.

        If the removal fails, the next drill repeats it.

        Raises IllegalTransition if a switch-over or a drill of the pair is in progress; VersionConflict if
        this command has lost its session and another drill has begun; errors of the removal.
        """
        self._store.begin_drill()
        self.planned()
        self._clean(self._store.read())
        state, settings = self.planned()
        (name,) = state.datastreams
        self._store.save(state, everywhere=True)
        try:
            self._rehearse(name, state.active, settings)
        except VersionConflict:
            raise
        except HeadraceError as error:
            self._result.problems.append(str(error))
        state = self._store.read()
        if name not in state.datastreams:
            raise VersionConflict(
                f"another operator has begun a drill of {self._real.name}", advice="wait until it has ended"
            )
        self._clean(state)
        return self._result

    def _rehearse(self, name: str, home: str, settings: PairSettings) -> None:
        away = settings.other(home)
        place = TopicPartition(canary_topic(name), 0)
        self._admin(home).create(TopicDescription(place.topic, 1, settings=TOPIC_SETTINGS))
        body = self._definition(name, place.topic, home, away)
        self._patiently(lambda: self._real.acts.datastreams.create([body]))
        self._deliver(name, home, away)
        self._patiently(lambda: self._commit(home, place))
        session = self._session(settings)
        if self._switch(session, away):
            if not any(group.name == self._group for group in self._result.legs[-1].groups):
                self._result.problems.append(f"group {self._group} did not move to {away}")
            self._deliver(name, away, home)
            self._switch(session, home)

    def _switch(self, session: PairSession, target: str) -> bool:
        """Run one switch-over of the drill, record its problems, and return whether it was completed."""
        past = session.run(session.planned(target), self._deadline_seconds).history[-1]
        self._result.legs.append(past)
        if past.failure:
            self._result.problems.append(f"switch-over to {target}: {past.failure}")
        elif past.closed_ms > session.settings.rto_seconds * 1000:
            self._result.problems.append(
                f"switch-over to {target}: {past.closed_ms / 1000:.1f} s without writes, more than"
                f" {session.settings.rto_seconds:g} s"
            )
        return not past.failure

    def _deliver(self, name: str, source: str, destination: str) -> None:
        """Wait until the datastream copies the topic of the drill, then write records and wait for their
        arrival."""
        topic, present = canary_topic(name), self._store.read().datastreams[name]
        self._patiently(lambda: self._require_copied(present))
        path = CanaryPath(ClusterRef(source), topic, ClusterRef(destination), topic)
        limits = GateLimits(int(self._real.settings.rpo_seconds * 1000), 0, _MIN_AVAILABILITY)
        self._real.note(f"write from {source} to {destination}")
        found = run_gate(probes_of(self._directory)(path), limits, self._seconds, _show_nothing)
        self._result.deliveries.append(found)
        where = f"{source} to {destination}"
        self._result.problems += [f"{where}: {failure.sentence}" for failure in found.failures]

    def _require_copied(self, datastream: str) -> None:
        if not self._real.acts.datastreams.lag(datastream)["partitions"]:
            raise TimedOut(f"datastream {datastream} does not copy its topic yet")

    def _commit(self, home: str, place: TopicPartition) -> None:
        """Commit an offset in the middle of the written records for the consumer group of the drill."""
        cluster = self._real.bench.cluster(ClusterRef(home))

        async def commit() -> None:
            end = (await log_ends(cluster, [place]))[place]
            await commit_positions(cluster, self._group, {place: end // 2})

        self._real.bench.run(commit())

    def _clean(self, state: PairState) -> None:
        """Undo or complete the operation of a drill, and remove its datastreams, ACLs and topics."""
        if not state.datastreams:
            return
        settings = self._settings_of(state)
        session = self._session(settings)
        if state.operation is not None:
            if state.operation.is_final:
                state = session.run(session.planned(state.operation.target), self._deadline_seconds)
            else:
                state = session.abort("interrupted")
        self._patiently(lambda: self._real.acts.datastreams.delete(state.datastreams.values()))
        if state.fences:
            closed = self._real.bench.cluster(ClusterRef(settings.other(state.active)))
            self._patiently(lambda: self._real.bench.run(allow(closed, state.fences)))
        for cluster in (settings.primary, settings.standby):
            for name in state.datastreams:
                self._admin(cluster).delete(canary_topic(name))
        self._store.save(state.with_(datastreams={}, previous={}, fences=()), everywhere=True)

    def _settings_of(self, state: PairState) -> PairSettings:
        """Return the settings of the pair, restricted to the drill's datastream and group."""
        update = {"datastreams": list(state.datastreams), "groups": re.escape(self._group)}
        return self._real.settings.model_copy(update=update)

    def _session(self, settings: PairSettings) -> PairSession:
        acts = replace(self._real.acts, settings=settings)
        return replace(
            self._real,
            name=f"{self._real.name}{DRILL_SUFFIX}",
            settings=settings,
            store=self._store,
            acts=acts,
        )

    def _definition(self, name: str, topic: str, home: str, away: str) -> Mapping[str, Any]:
        """Return the request body for the datastream of the drill.

        The owner is that of the first datastream of the pair.
        """
        present = next(iter(self._real.state().datastreams.values()))
        owner = self._real.acts.datastreams.definitions([present])[present].get("owner")
        return {
            "name": name,
            **({"owner": owner} if owner else {}),
            "source": {"cluster": home, "topics": re.escape(topic)},
            "destination": {"cluster": away, "name": "*"},
        }

    def _admin(self, cluster: str) -> KafkaAdmin:
        return KafkaAdmin(self._directory.resolve(ClusterRef(cluster)))

    def _patiently(self, act: Callable[[], _T]) -> _T:
        """Call `act`, and repeat it until the deadline if it raises a retriable error."""
        until = time.monotonic() + self._deadline_seconds
        while True:
            try:
                return act()
            except HeadraceError as error:
                if not error.retriable or time.monotonic() >= until:
                    raise
            self._real.bench.run(self._pause())

    async def _pause(self) -> None:
        await self._real.bench.loop.sleep(_PAUSE_SECONDS)


def _show_nothing(_: CanaryFigures) -> None:
    """Ignore the figures that a run reports while it continues."""
