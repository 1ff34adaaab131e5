"""State of a pair, and the records that a failure would lose now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.dr.session import PairSession
from mirror.errors import HeadraceError
from mirror.jobs.dr.operation import PairState
from mirror.jobs.dr.settings import PairSettings
from mirror.wording import counted


def word_of(state: PairState, settings: PairSettings) -> str:
    """Return the state of a pair: steady, failing-over, failed-over or failing-back."""
    if state.operation is not None:
        return "failing-over" if state.operation.target == settings.standby else "failing-back"
    return "steady" if state.active == settings.primary else "failed-over"


def sums_by_topic(partitions: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return records and age that are not copied by topic, the oldest first. `unknown`: number of partitions
    whose lag is unknown; the sums do not include them."""
    found: dict[str, dict[str, Any]] = {}
    for one in partitions:
        row = found.setdefault(
            one["topic"], {"topic": one["topic"], "records": 0, "seconds": 0.0, "unknown": 0}
        )
        if one["lag_records"] is None:
            row["unknown"] += 1
            continue
        row["records"] += one["lag_records"]
        row["seconds"] = max(row["seconds"], (one["lag_ms"] or 0) / 1000)
    return sorted(found.values(), key=lambda row: (-row["unknown"], -row["seconds"], row["topic"]))


def status_of(session: PairSession) -> dict[str, Any]:
    """Return the document of `headrace dr status`. It is degraded if the loss of a failure now would exceed
    the target, or is unknown."""
    state, settings = session.state(), session.settings
    problems, topics = [], []
    for name in state.datastreams.values():
        try:
            topics += sums_by_topic(session.acts.datastreams.lag(name)["partitions"])
        except HeadraceError as error:
            problems.append(f"the lag of datastream {name} is unknown: {error}")
    for row in topics:
        if row["unknown"]:
            problems.append(f"topic {row['topic']}: lag unknown for {counted(row['unknown'], 'partition')}")
        if row["seconds"] > settings.rpo_seconds:
            problems.append(
                f"topic {row['topic']} is {row['seconds']:.1f} s behind, more than {settings.rpo_seconds:g} s"
            )
    operation = state.operation
    return {
        "pair": session.name,
        "state": "degraded" if problems and operation is None else word_of(state, settings),
        "active": state.active,
        "operation": operation
        and {
            key: getattr(operation, key)
            for key in ("identity", "origin", "target", "operator", "step", "reached", "failure", "begun_ms")
        },
        "datastreams": dict(state.datastreams),
        "topics": topics,
        "problems": problems,
        "history": [past.abridged.model_dump(mode="json") for past in state.history],
    }
