"""State of a pair, and the records that a failure would lose now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.dr.acts import plan_of
from headrace.dr.session import PairSession
from mirror.errors import HeadraceError
from mirror.jobs.dr.operation import PairState, begin, operation_of
from mirror.jobs.dr.settings import PairSettings
from mirror.wording import counted

_SHOWN: Final = ("identity", "origin", "target", "operator", "step", "reached", "failure", "begun_ms")
Lag = Sequence[Mapping[str, Any]] | HeadraceError
"""Partitions as in `GET /v1/datastreams/{name}/lag`, or the reason why they are unknown."""


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


@dataclass(frozen=True)
class PairView:
    """Stored state of a pair, without the lag of its datastreams. Satisfies `api.services.Pair`. `state`:
    None if it is unknown because of `problem`."""

    name: str
    settings: PairSettings
    state: PairState | None
    problem: str = ""

    @property
    def datastreams(self) -> Collection[str]:
        """Names of the datastreams to the cluster that is not active."""
        return () if self.state is None else self.state.datastreams.values()

    def document(self, lags: Mapping[str, Lag]) -> dict[str, Any]:
        """Return the document of `headrace dr status`. `lags`: by name of datastream.

        The pair is degraded if the loss of a failure now would exceed the target, or is unknown.
        """
        state, settings = self.state, self.settings
        problems, topics = [self.problem] if self.problem else [], []
        for name in self.datastreams:
            lag = lags[name]
            if isinstance(lag, HeadraceError):
                problems.append(f"the lag of datastream {name} is unknown: {lag}")
            else:
                topics += sums_by_topic(lag)
        problems += _lag_problems(topics, settings)
        if state is None:
            word, operation = "unknown", None
        else:
            operation = state.operation
            word = "degraded" if problems and operation is None else word_of(state, settings)
        return {
            "pair": self.name,
            "state": word,
            "active": state and state.active,
            "operation": operation
            and {
                key: getattr(operation, key)
                for key in (
                    "identity",
                    "origin",
                    "target",
                    "operator",
                    "step",
                    "reached",
                    "failure",
                    "begun_ms",
                )
            },
            "datastreams": {} if state is None else dict(state.datastreams),
            "topics": topics,
            "problems": problems,
            "plan": [] if state is None else _plan(state, settings),
            "history": []
            if state is None
            else [past.abridged.model_dump(mode="json") for past in state.history],
        }


def _lag_problems(topics: Iterable[Mapping[str, Any]], settings: PairSettings) -> list[str]:
    problems = []
    for row in topics:
        if row["unknown"]:
            problems.append(f"topic {row['topic']}: lag unknown for {counted(row['unknown'], 'partition')}")
        if row["seconds"] > settings.rpo_seconds:
            problems.append(
                f"topic {row['topic']} is {row['seconds']:.1f} s behind, more than {settings.rpo_seconds:g} s"
            )
    return problems


def _plan(state: PairState, settings: PairSettings) -> list[dict[str, Any]]:
    """Return the remaining steps of the operation, or the steps of a switch-over to the other cluster."""
    if state.operation is None:
        state = begin(state, settings.other(state.active), "", 0, "")
    return plan_of(state, operation_of(state), settings)


def status_of(session: PairSession) -> dict[str, Any]:
    """Return the document of `headrace dr status`."""
    view = PairView(session.name, session.settings, session.state())
    lags: dict[str, Lag] = {}
    for name in view.datastreams:
        try:
            lags[name] = session.acts.datastreams.lag(name)["partitions"]
        except HeadraceError as error:
            lags[name] = error
    return view.document(lags)
