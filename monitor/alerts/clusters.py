"""Alerts for faults of clusters or processes that affect several datastreams. Pure.

A fault is a cluster that does not respond, brokers that throttle, or a lost process. A fault has one alert
for all datastreams, and suppresses the alerts of the affected datastreams. If the alert of the fault has
fired, those alerts remain suppressed until the datastreams have caught up. Idle datastreams are ignored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror.model.datastreams.lanes import QuotaOwner
from mirror.model.identifiers import DatastreamName
from mirror.wording import counted, first_few
from monitor.alerts.alert import Alert, AlertKey, AlertKind, rfc3339
from monitor.alerts.catalogue import BROKERS_THROTTLE, DESTINATION_AWAY, PROCESS_LOST, SOURCE_AWAY
from monitor.causes.diagnosis import CATCH_UPS, Cause, Diagnosis
from monitor.evaluation import Evaluation
from monitor.latency import ObjectiveStatus
from monitor.movement.states import MovementState
from monitor.movement.summary import DatastreamStates, FleetMovement, StateCount

AWAY: Final[Mapping[MovementState, AlertKind]] = {
    MovementState.SOURCE_AWAY: SOURCE_AWAY,
    MovementState.DESTINATION_AWAY: DESTINATION_AWAY,
}
_ROLES: Final = {SOURCE_AWAY: "source", DESTINATION_AWAY: "destination"}
_OF_PROCESSES: Final = frozenset({Cause.INSTANCE_LOST, Cause.WORKER_LOST})
_UNANSWERED: Final = {
    Cause.SOURCE_BOUND: (SOURCE_AWAY, "fetch_unanswered_seconds"),
    Cause.SOURCE_AWAY: (SOURCE_AWAY, "fetch_unanswered_seconds"),
    Cause.DESTINATION_BOUND: (DESTINATION_AWAY, "produce_unanswered_seconds"),
    Cause.DESTINATION_AWAY: (DESTINATION_AWAY, "produce_unanswered_seconds"),
}
_BEHIND: Final = frozenset(
    {MovementState.CATCHING_UP, MovementState.WARN, MovementState.THROTTLED, MovementState.STALL}
)
_NAMES_SHOWN: Final = 20
_SETTLED_SECONDS: Final = 10.0
"""Seconds after an outage in which measurements may be older than the arrival of the late records."""


class Fault(NamedTuple):
    """Effect of a fault of a cluster or a process on one datastream.

    `partitions`: number of partitions that wait for a cluster. `text`: description of the most affected
    partition. `is_idle`: no records wait or arrive. `is_told`: the alert of the datastream started with the
    fault, and already reports it.
    """

    name: DatastreamName
    kind: AlertKind
    cluster: str
    partitions: int
    worst: str
    text: str
    since_ms: int | None
    is_idle: bool = False
    is_told: bool = False

    @property
    def key(self) -> AlertKey:
        """Key of the alert that reports the fault for the whole cluster."""
        return AlertKey(self.kind.name, "", cluster=self.cluster)


def faults_of(findings: Mapping[DatastreamName, Evaluation], movements: FleetMovement) -> list[Fault]:
    """Return the faults of clusters and processes, with an entry for each datastream that they affect.

    A fault is a partition that waits for a cluster or has lost its process, or late records caused by a
    cluster or a lost process. If records arrive in time again, earlier late records are ignored, although the
    window of the objective still contains them.
    """
    found = []
    for name, moving in movements.datastreams.items():
        states = [count for count in moving.movement.states if count.state in AWAY]
        found += [_cluster_fault(name, moving, count) for count in states]
        if lost := [count for count in moving.movement.states if count.without_process]:
            found += [_stopped(name, count) for count in lost]
            continue
        finding = findings.get(name)
        if not states and finding is not None and finding.diagnosis is not None and not finding.is_over:
            found += _diagnosed(name, moving, finding.diagnosis)
    return found


def _cluster_fault(name: DatastreamName, datastream_states: DatastreamStates, count: StateCount) -> Fault:
    kind = AWAY[count.state]
    since = "" if count.since_ms is None else f" since {rfc3339(count.since_ms)}"
    text = f"{count.worst}{since}: {count.text or count.state.value}"
    cluster, since_ms = _cluster(datastream_states, kind), count.since_ms
    return Fault(name, kind, cluster, count.partitions, count.worst, text, since_ms, count.is_idle)


def _stopped(name: DatastreamName, count: StateCount) -> Fault:
    text = f"{count.worst}: {count.text}"
    return Fault(name, PROCESS_LOST, "", count.partitions, count.worst, text, count.since_ms, count.is_idle)


def _diagnosed(
    name: DatastreamName, datastream_states: DatastreamStates, found: Diagnosis
) -> Iterator[Fault]:
    if found.cause in _UNANSWERED:
        kind, figure = _UNANSWERED[found.cause]
        if figure in found.evidence:
            yield Fault(name, kind, _cluster(datastream_states, kind), 0, "", found.sentence, None)
    elif found.cause in _OF_PROCESSES:
        yield Fault(name, PROCESS_LOST, "", 0, "", found.sentence, None)
    elif found.cause is Cause.BROKER_QUOTA:
        is_source = found.evidence.get("quota") == QuotaOwner.SOURCE.value
        cluster = datastream_states.cluster if is_source else datastream_states.destination
        yield Fault(name, BROKERS_THROTTLE, cluster, 0, "", found.sentence, None)


def _cluster(datastream_states: DatastreamStates, kind: AlertKind) -> str:
    return datastream_states.cluster if kind is SOURCE_AWAY else datastream_states.destination


def cluster_alerts(faults: Collection[Fault]) -> Iterator[Alert]:
    """Yield one alert for each cluster and kind of fault. The alert lists all affected datastreams.

    There is no alert if every affected datastream already reports the fault in its own alert. `Conditions`
    sets the start of the alerts.
    """
    by_key: dict[AlertKey, list[Fault]] = defaultdict(list)
    for fault in faults:
        if not fault.is_idle:
            by_key[fault.key].append(fault)
    for each in by_key.values():
        if all(fault.is_told for fault in each):
            continue
        first = min(each, key=lambda fault: (fault.since_ms is None, fault.since_ms or 0, fault.name))
        names = tuple(sorted({str(fault.name) for fault in each}))
        yield Alert(
            first.kind,
            _summary(first, counted(len(names), "datastream")),
            f"{first_few(names, _NAMES_SHOWN)}; {first.text}",
            first.since_ms or 0,
            "",
            first.cluster,
            partitions=sum(fault.partitions for fault in each),
            worst=first.worst,
            datastreams=names,
        )


def _summary(fault: Fault, datastreams: str) -> str:
    cluster = fault.cluster or "of some datastreams"
    if fault.kind is PROCESS_LOST:
        return f"a process was lost: records of {datastreams} are late"
    if fault.kind is BROKERS_THROTTLE:
        return f"brokers of the cluster {cluster} throttle: records of {datastreams} are late"
    return f"the {_ROLES[fault.kind]} {cluster} does not respond: it blocks {datastreams}"


@dataclass(slots=True)
class _Outage:
    """Time during which a fault of a cluster or a process affects one datastream.

    `kind`: alert of the fault. `seen`: last time at which the fault affected the datastream. `was_sent`: the
    alert of the fault, or that of the datastream, has fired. `is_over`: the datastream has caught up.
    """

    seen: float
    kind: AlertKind
    was_sent: bool = False
    is_over: bool = False


class Outages:
    """Datastreams that faults affect, and whose own alerts are therefore suppressed (see the module
    docstring). Times are monotonic seconds.

    `most_seconds`: time after which alerts of a datastream that has not caught up are sent again.
    `unsent_seconds`: the same time if the fault ended before its alert fired.
    """

    def __init__(self, most_seconds: float, unsent_seconds: float = 0.0) -> None:
        self._most, self._unsent = most_seconds, unsent_seconds
        self._outages: dict[DatastreamName, _Outage] = {}

    def update(
        self,
        faults: Collection[Fault],
        fired: Collection[AlertKey],
        findings: Mapping[DatastreamName, Evaluation],
        movements: FleetMovement,
        now: float,
    ) -> None:
        """Update the outages after an evaluation of all datastreams. `fired`: keys of the firing alerts."""
        affected = {fault.name for fault in faults}
        for fault in faults:
            outage = self._outages.setdefault(fault.name, _Outage(now, fault.kind))
            outage.seen, outage.kind, outage.is_over = now, fault.kind, False
            outage.was_sent = outage.was_sent or fault.is_told or fault.key in fired
        for name, outage in list(self._outages.items()):
            if name in affected:
                continue
            is_reported_since = now - outage.seen >= _SETTLED_SECONDS
            outage.is_over = outage.is_over or (
                is_reported_since and not _is_behind(name, findings, movements)
            )
            follows = outage.kind is PROCESS_LOST or _catches_up(findings.get(name))
            is_reported = outage.was_sent or (follows and not outage.is_over)
            most = self._most if outage.was_sent else self._unsent
            if not is_reported or now - outage.seen >= most:
                del self._outages[name]

    @property
    def held_back(self) -> frozenset[str]:
        """Datastreams that a fault affects, or that have not caught up since a fault."""
        return frozenset(str(name) for name, outage in self._outages.items() if not outage.is_over)

    @property
    def burnt(self) -> frozenset[str]:
        """Datastreams in `held_back` or recently caught up. Their error budget windows include an outage."""
        return frozenset(map(str, self._outages))


def _catches_up(finding: Evaluation | None) -> bool:
    cause = finding.diagnosis if finding is not None else None
    return cause is not None and cause.cause in CATCH_UPS


def _is_behind(
    name: DatastreamName, findings: Mapping[DatastreamName, Evaluation], movements: FleetMovement
) -> bool:
    finding, moving = findings.get(name), movements.datastreams.get(name)
    if finding is not None and finding.verdict.standing is not ObjectiveStatus.WITHIN:
        return True
    if moving is None:
        return not movements.is_complete
    return any(state.state in _BEHIND and not state.is_idle for state in moving.movement.states)
