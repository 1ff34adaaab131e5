"""Parses instances' reports on their lanes, in the format of `/v1/lanes`. A value that is missing in the
report of another version is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mirror.errors import DamagedState
from mirror.model.datastreams.lanes import QuotaHold, QuotaOwner, WindowLimit
from mirror.model.topics import TopicSelection
from monitor.causes.evidence import BacklogOrigin, Evidence, LaneEvidence, Phases
from monitor.latency import Source
from monitor.movement.states import MovementState

_PHASES: Final = ("wait_ms", "fetch_ms", "queue_ms", "produce_ms")
_BEGINS: Final = frozenset({"starting"})


def evidence_of(answer: Any, source: Source, selection: TopicSelection) -> Evidence:
    """Return the lanes that copy a datastream's topics, and the other lanes of its group. Raises
    DamagedState.

    Datastreams of a group share the same tasks.
    """
    try:
        selected: dict[bool, list[LaneEvidence]] = {True: [], False: []}
        for lane in answer["lanes"]:
            if lane["datastream"] == source.group:
                is_ours = selection.matches(lane["partition"].rpartition("-")[0])
                selected[is_ours].append(_lane(lane))
        silent = tuple(
            instance["name"] for instance in answer["instances"] if instance["state"] != "answered"
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedState(f"cannot parse the instances' reports on lanes: {error!r}") from error
    return Evidence(tuple(selected[True]), silent, tuple(selected[False]))


def _lane(answer: Mapping[str, Any]) -> LaneEvidence:
    movement = answer.get("movement") or {}
    rates = answer.get("per_second") or {}
    batches = rates.get("batches", 0.0)
    unanswered = answer.get("unanswered") or {}
    return LaneEvidence(
        partition=answer["partition"],
        instance=answer["instance"],
        task=answer["task"],
        worker=answer["worker"],
        is_starting=answer["phase"] in _BEGINS,
        state=_state(movement.get("state")),
        reason=movement.get("reason") or answer["reason"],
        eta_seconds=movement.get("eta_seconds"),
        lag_records=answer["lag_records"],
        lag_ms=answer["lag_ms"],
        bytes_per_second=answer["bytes_per_second"],
        batches_per_second=batches,
        phases=_phases(rates, batches),
        cpu=rates["cpu_ms"] / 1000 if "cpu_ms" in rates else None,
        worker_cpu=answer.get("worker_cpu"),
        worker_waited=answer.get("worker_waited"),
        fetch_unanswered=unanswered.get("fetch_seconds"),
        produce_unanswered=unanswered.get("produce_seconds"),
        hold=_hold(answer.get("held_back")),
        source_window=_window(answer.get("source_window")),
        destination_window=_window(answer.get("destination_window")),
        origin=_origin(answer.get("backlog")),
        origin_ms=answer.get("backlog_since_ms"),
        lost=answer.get("lost_instance") or "",
        timestamp_offset=answer.get("timestamp_offset_seconds"),
    )


def _phases(rates: Mapping[str, float], batches: float) -> Phases | None:
    if batches <= 0 or not all(name in rates for name in _PHASES):
        return None
    return Phases(*(rates[name] / batches for name in _PHASES))


def _state(name: str | None) -> MovementState | None:
    """Parse the movement state of a lane. Return None for a missing value, or one unknown to this version."""
    return MovementState(name) if name is not None and name in MovementState.__members__ else None


def _origin(name: str | None) -> BacklogOrigin | None:
    """Parse the origin of a backlog. Return None for a missing value, or one unknown to this version."""
    return BacklogOrigin(name) if name is not None and name in set(BacklogOrigin) else None


def _hold(document: Mapping[str, Any] | None) -> QuotaHold | None:
    if document is None or document["owner"] not in set(QuotaOwner):
        return None
    return QuotaHold(QuotaOwner(document["owner"]), document["share"], document["broker"])


def _window(document: Mapping[str, Any] | None) -> WindowLimit | None:
    return None if document is None else WindowLimit(*(document[name] for name in WindowLimit._fields))
