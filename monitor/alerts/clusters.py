"""Alerts of clusters that do not respond. Pure.

A cluster has one alert, however many datastreams it blocks. The alerts of these datastreams are held back
meanwhile and, if the alert of the cluster has fired, until they have caught up. Idle datastreams do not count
and cause no alert.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror.model.identifiers import DatastreamName
from mirror.wording import counted, first_few
from monitor.alerts.alert import Alert, AlertKey, AlertKind, rfc3339
from monitor.alerts.catalogue import DESTINATION_AWAY, SOURCE_AWAY
from monitor.causes.diagnosis import Cause
from monitor.cycle import TurnResult
from monitor.latency import ObjectiveStatus
from monitor.movement.states import MovementState
from monitor.movement.summary import DatastreamStates, FleetMovement, StateCount

AWAY: Final[Mapping[MovementState, AlertKind]] = {
    MovementState.SOURCE_AWAY: SOURCE_AWAY,
    MovementState.DESTINATION_AWAY: DESTINATION_AWAY,
}
_ROLES: Final = {SOURCE_AWAY: "source", DESTINATION_AWAY: "destination"}
_UNANSWERED: Final = {
    Cause.SOURCE_BOUND: (SOURCE_AWAY, "fetch_unanswered_seconds"),
    Cause.DESTINATION_BOUND: (DESTINATION_AWAY, "produce_unanswered_seconds"),
}
_BEHIND: Final = frozenset({MovementState.CATCHING_UP, MovementState.WARN, MovementState.THROTTLED})
_NAMES_SHOWN: Final = 20


class Fault(NamedTuple):
    """A datastream blocked by a cluster. `partitions`: number of partitions known to wait for it; `text`:
    description of the worst partition. `is_idle`: no records wait or arrive."""

    name: DatastreamName
    kind: AlertKind
    cluster: str
    partitions: int
    worst: str
    text: str
    since_ms: int | None
    is_idle: bool = False

    @property
    def key(self) -> AlertKey:
        """Key of the cluster's alert."""
        return AlertKey(self.kind.name, "", cluster=self.cluster)


def faults_of(findings: Mapping[DatastreamName, TurnResult], movements: FleetMovement) -> list[Fault]:
    """Return the datastreams blocked by clusters: those with partitions that wait for one, and those
    late because one has not responded for longer than their objective."""
    found = []
    for name, one in movements.datastreams.items():
        states = [count for count in one.movement.states if count.state in AWAY]
        found += [_cluster_fault(name, one, count) for count in states]
        if not states and (finding := findings.get(name)) is not None:
            found += _unanswered(name, one, finding)
    return found


def _cluster_fault(name: DatastreamName, one: DatastreamStates, count: StateCount) -> Fault:
    kind = AWAY[count.state]
    since = "" if count.since_ms is None else f" since {rfc3339(count.since_ms)}"
    text = f"{count.worst}{since}: {count.reason or count.state.value}"
    cluster, since_ms = _cluster(one, kind), count.since_ms
    return Fault(name, kind, cluster, count.partitions, count.worst, text, since_ms, count.is_idle)


def _unanswered(name: DatastreamName, one: DatastreamStates, finding: TurnResult) -> Iterator[Fault]:
    cause = finding.diagnosis
    if cause is not None and cause.cause in _UNANSWERED:
        kind, figure = _UNANSWERED[cause.cause]
        if figure in cause.evidence:
            yield Fault(name, kind, _cluster(one, kind), 0, "", cause.sentence, None)


def _cluster(one: DatastreamStates, kind: AlertKind) -> str:
    return one.cluster if kind is SOURCE_AWAY else one.destination


def cluster_alerts(faults: Collection[Fault]) -> Iterator[Alert]:
    """Yield one alert per cluster and kind. `Conditions` sets their start."""
    by_key: dict[AlertKey, list[Fault]] = defaultdict(list)
    for one in faults:
        if not one.is_idle:
            by_key[one.key].append(one)
    for each in by_key.values():
        first = min(each, key=lambda one: (one.since_ms is None, one.since_ms or 0, one.name))
        names = tuple(sorted({str(one.name) for one in each}))
        role, cluster = _ROLES[first.kind], first.cluster or "of some datastreams"
        yield Alert(
            first.kind,
            f"the {role} {cluster} does not respond: {counted(len(names), 'datastream')} blocked",
            f"{first_few(names, _NAMES_SHOWN)}; {first.text}",
            first.since_ms or 0,
            "",
            first.cluster,
            partitions=sum(one.partitions for one in each),
            worst=first.worst,
            datastreams=names,
        )


@dataclass(slots=True)
class _Outage:
    """Outage of one datastream. `seen`: time at which a cluster last blocked it. `was_sent`: the alert of the
    cluster has fired. `is_over`: the datastream has caught up since."""

    seen: float
    was_sent: bool = False
    is_over: bool = False


class Outages:
    """Datastreams whose own alerts are held back, see the module. Times are monotonic seconds.
    `most_seconds`: time after which a datastream that has not caught up has its own alerts again."""

    def __init__(self, most_seconds: float) -> None:
        self._most = most_seconds
        self._outages: dict[DatastreamName, _Outage] = {}

    def look(
        self,
        faults: Collection[Fault],
        fired: Collection[AlertKey],
        findings: Mapping[DatastreamName, TurnResult],
        movements: FleetMovement,
        now: float,
    ) -> None:
        """Update the state after a turn. `fired`: keys of the alerts that fire."""
        affected = {one.name for one in faults}
        for one in faults:
            outage = self._outages.setdefault(one.name, _Outage(now))
            outage.seen, outage.is_over = now, False
            outage.was_sent = outage.was_sent or one.key in fired
        for name, outage in list(self._outages.items()):
            if name in affected:
                continue
            outage.is_over = outage.is_over or not _is_behind(name, findings, movements)
            if not outage.was_sent or now - outage.seen >= self._most:
                del self._outages[name]

    @property
    def held_back(self) -> frozenset[str]:
        """Datastreams that are blocked or are catching up afterwards."""
        return frozenset(str(name) for name, one in self._outages.items() if not one.is_over)

    @property
    def burnt(self) -> frozenset[str]:
        """`held_back` and datastreams that caught up recently: windows of error budgets still include the
        outage."""
        return frozenset(map(str, self._outages))


def _is_behind(
    name: DatastreamName, findings: Mapping[DatastreamName, TurnResult], movements: FleetMovement
) -> bool:
    finding, moving = findings.get(name), movements.datastreams.get(name)
    if finding is not None and finding.verdict.standing is not ObjectiveStatus.WITHIN:
        return True
    if moving is None:
        return not movements.is_complete
    return any(one.state in _BEHIND for one in moving.movement.states)
