"""Access to the service through its REST interface. Implements `monitor.ports.Service`."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from mirror.coordination.monitors.effect import PlacementEffect
from mirror.errors import DamagedState, NotFound
from mirror.model.bounds import LONGEST_NAME
from mirror.model.capacity.advice import Advice
from mirror.model.datastreams.datastream import DatastreamStatus, LatencyObjective
from mirror.model.datastreams.metadata import TASK_PREFIX
from mirror.model.datastreams.objectives import Mode, Objective
from mirror.model.identifiers import DatastreamName
from mirror.model.topics import TopicSelection
from mirror.wording import counted
from monitor.actions import ActionRecord, RebalanceAction
from monitor.adapters.breaches import MOST, from_answers, known_past
from monitor.adapters.lane_answers import evidence_of
from monitor.adapters.leases import judged_between
from monitor.adapters.subjects import groups_of_one, subject_of
from monitor.causes.evidence import Evidence
from monitor.latency import ObjectiveSubject, Source
from monitor.leader_monitor import PART
from monitor.movement.states import MovementState
from monitor.movement.summary import (
    NOTHING_KNOWN,
    DatastreamStates,
    FleetMovement,
    LossAhead,
    Movement,
    StateCount,
)
from monitor.ports import InstanceClient, LeaseHold, Preview

_TOKEN_BYTES: Final = 4
_T = TypeVar("_T")


class RestService:
    """REST client of the service, which sends its requests to any instance."""

    def __init__(self, rest: InstanceClient) -> None:
        self._rest = rest
        # Unique among processes, even on hosts with equal names.
        name = f"{secrets.token_hex(_TOKEN_BYTES)} at {socket.gethostname()}:{os.getpid()}"
        self._holder = name[:LONGEST_NAME]
        self._lease = ""
        self._read: Mapping[str, tuple[Mapping[str, Any], ObjectiveSubject]] = {}

    def subjects(self) -> Mapping[DatastreamName, ObjectiveSubject]:
        """Return every READY datastream with an objective."""
        found, answer = {}, self._rest.get("/v1/datastreams")
        is_whole = all(datastream["status"] in _STATUSES for datastream in answer)  # no definition is damaged
        alone = groups_of_one(map(_group, answer), is_whole=is_whole)
        for datastream in answer:
            if (datastream["objective"] or datastream.get("objectives")) and datastream[
                "status"
            ] == DatastreamStatus.READY:
                known, is_alone = self._read.get(datastream["name"]), _group(datastream) in alone
                # Nearly all are unchanged since the last evaluation.
                if known is None or known[1].is_alone != is_alone or known[0] != datastream:
                    known = datastream, replace(_subject(datastream), is_alone=is_alone)
                found[datastream["name"]] = known
        self._read = found
        return {DatastreamName(name): subject for name, (_, subject) in found.items()}

    def movements(self) -> FleetMovement:
        """Return the partitions that are not OK; unknown if the instance has an older version."""
        try:
            answer = self._rest.get("/v1/movement")
        except NotFound:
            return NOTHING_KNOWN
        found = {
            DatastreamName(datastream["name"]): DatastreamStates(
                datastream["cluster"], _movement(datastream), datastream.get("destination", "")
            )
            for datastream in answer["datastreams"]
        }
        return FleetMovement(found, answer["is_complete"])

    def has_own_monitor(self) -> bool:
        """Return whether the leader runs the monitor, according to a health report.

        The report is that of the leader, or of the next instance that responds. During an upgrade, the leader
        may have a version without a monitor. The HTTP status of `/v1/health` is not used, because it is 503
        if any component is unhealthy.
        """
        answers = [instance["health"] for instance in self._rest.get("/v1/instances")]
        return any(
            PART in answer["parts"] for answer in [answer for answer in answers if answer is not None][:1]
        )

    def hold(self) -> LeaseHold:
        """Renew or acquire the monitor lease. Instances of older versions have no leases.

        The lease is acquired only if no other monitor holds it.
        """
        try:
            answer = self._rest.put("/v1/monitor/lease", {"holder": self._holder}, "*")
        except NotFound:
            return LeaseHold("", None)
        before, self._lease, found = self._lease, answer["lease"], answer["monitor"]
        acts = tuple(
            RebalanceAction(DatastreamName(act["datastream"]), act["asked_ms"]) for act in found["acts"]
        )
        switch = found["acting"]
        off = "" if switch["is_on"] else switch["reason"] or f"by {switch['requested_by']}"
        other = judged_between(before, self._lease) if self._lease else found["holder"]
        return LeaseHold(other, ActionRecord(off, acts, found["waiting"] or ""))

    def release(self) -> None:
        """Release the monitor lease, so that another monitor can take over at once."""
        if self._lease:
            self._lease = ""
            self._rest.delete("/v1/monitor/lease", holder=self._holder)

    def evidence(self, subject: ObjectiveSubject) -> Evidence:
        """Return the evidence about a datastream from the lanes of all instances. An instance of an older
        version ignores the filter and returns all lanes."""
        answer = self._rest.get("/v1/lanes", datastream=subject.source.group)
        return evidence_of(answer, subject.source, subject.selection)

    def preview_rebalance(self, name: DatastreamName) -> Preview:
        """Return the predicted result of an incremental rebalance (dry run)."""
        answer = self._rest.post("/v1/rebalance", {"datastream": name, "dry_run": True})
        # Instances of older versions do not report whether loads are known.
        known, effect = answer.get("loads_known") is not False, answer.get("effect")
        found = Preview(answer["sentence"], len(answer["moves"]), known)
        if not found.moves:
            return found
        past = known_past(
            lambda: from_answers(self._rest.get("/v1/incidents", datastream=name, open="false", limit=MOST))
        )
        return replace(found, effect=_read(PlacementEffect, effect) if effect else None, past=past)

    def rebalance(self, name: DatastreamName, reason: str) -> str:
        """Request an incremental rebalance, which moves few partitions. Return the request id."""
        body = {"datastream": name, "requested_by": "monitor", "reason": reason}
        if self._lease:
            body["lease"] = self._lease
        identity: str = self._rest.post("/v1/rebalance", body)["request"]
        return identity


_MODES: Final = frozenset(Mode)
_STATUSES: Final = frozenset(DatastreamStatus)
_STATES: Final = frozenset(MovementState)


def _movement(answer: Mapping[str, Any]) -> Movement:
    """Parse the states of a datastream's partitions. States that only newer versions know are ignored."""
    states = tuple(
        StateCount(
            MovementState(each["state"]),
            each["partitions"],
            each["worst"],
            each["reason"],
            each["since_ms"],
            each.get("idle", 0),
            each.get("without_process", 0),  # instances of older versions do not report it
            each.get("offset"),  # likewise
        )
        for each in answer["states"]
        if each["state"] in _STATES
    )
    return Movement(states, _loss(answer["loss"]) if answer["loss"] else None)


def _loss(answer: Mapping[str, Any]) -> LossAhead:
    # Instances of older versions do not report the share.
    share = answer.get("share")
    return LossAhead(answer["partitions"], answer["worst"], answer["seconds"], answer["eta_seconds"], share)


def _group(definition: Mapping[str, Any]) -> str:
    return str(definition["metadata"].get(TASK_PREFIX) or definition["name"])


def _subject(definition: Mapping[str, Any]) -> ObjectiveSubject:
    source, problem = definition["source"], definition["problem"] or {"reason": "", "sets_aside": False}
    subject = subject_of(
        _read(LatencyObjective, definition["objective"]) if definition["objective"] else None,
        Source(_group(definition), source["cluster"]),
        TopicSelection(source["topics"], source["exclude"], source["internal"]),
        # Instances of older versions do not report these.
        [_read(Objective, each) for each in definition.get("objectives") or ()],
        paused=definition["pauses"],
        reason=problem["reason"],
        sets_aside=problem["sets_aside"],
    )
    return replace(subject, mode=Mode(definition["monitor"]) if definition.get("monitor") in _MODES else None)


def _known(kind: type[Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a document that this version knows. `kind`: dataclass with these fields."""
    return {field.name: document[field.name] for field in fields(kind) if field.name in document}


def _read(kind: type[_T], document: Mapping[str, Any]) -> _T:
    return kind(**_known(kind, document))


_ADVICE: Final = TypeAdapter(Advice)


class RestAdvice:
    """Reads the sizing advice from any instance."""

    def __init__(self, rest: InstanceClient) -> None:
        self._rest = rest

    def __call__(self) -> Advice | None:
        """Return the latest sizing advice, or None. Raises Unreachable, DamagedState."""
        try:
            answer = self._rest.get("/v1/advice")
        except NotFound:
            return None
        if answer.get("computed_ms") is None:
            return None
        try:
            return _ADVICE.validate_python(_known(Advice, answer))
        except ValidationError as error:
            wrong = counted(error.error_count(), "invalid field")
            raise DamagedState(f"cannot parse the sizing advice: {wrong}") from error
