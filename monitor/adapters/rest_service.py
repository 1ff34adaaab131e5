"""The service through its REST interface. Satisfies `monitor.ports.Service`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mirror.model.datastreams.datastream import DatastreamStatus, LatencyObjective
from mirror.model.datastreams.metadata import TASK_PREFIX
from mirror.model.datastreams.objectives.objective import Objective
from mirror.model.identifiers import DatastreamName
from mirror.model.topics import TopicSelection
from monitor.adapters.subjects import subject_of
from monitor.latency import Source, Subject
from monitor.leader_monitor import PART
from monitor.ports import Preview, Rest


class RestService:
    """Asks one instance; any instance will do."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    def subjects(self) -> Mapping[DatastreamName, Subject]:
        """Every READY datastream that has an objective."""
        return {
            DatastreamName(one["name"]): _subject(one)
            for one in self._rest.get("/v1/datastreams")
            if (one["objective"] or one.get("objectives")) and one["status"] == DatastreamStatus.READY
        }

    def has_own_monitor(self) -> bool:
        """As the health of any instance says; `/v1/health` itself answers 503 where something is not well."""
        answers = self._rest.get("/v1/instances")
        return any(PART in one["health"]["parts"] for one in answers if one["health"] is not None)

    def preview_rebalance(self, name: DatastreamName) -> Preview:
        """A dry run of an incremental rebalance."""
        answer = self._rest.post("/v1/rebalance", {"datastream": name, "dry_run": True})
        # An instance of an older version does not say what its preview rests on.
        return Preview(answer["sentence"], len(answer["moves"]), answer.get("loads_known") is not False)

    def rebalance(self, name: DatastreamName, reason: str) -> str:
        """An incremental rebalance: repair what is overloaded with few moves."""
        body = {"datastream": name, "requested_by": "monitor", "reason": reason}
        identity: str = self._rest.post("/v1/rebalance", body)["request"]
        return identity


def _subject(one: Mapping[str, Any]) -> Subject:
    source, problem = one["source"], one["problem"] or {"reason": "", "sets_aside": False}
    return subject_of(
        LatencyObjective(**one["objective"]) if one["objective"] else None,
        Source(one["metadata"].get(TASK_PREFIX) or one["name"], source["cluster"]),
        TopicSelection(source["topics"], source["exclude"], source["internal"]),
        # An instance of an older version knows of none.
        [Objective(**each) for each in one.get("objectives") or ()],
        paused=one["pauses"],
        reason=problem["reason"],
        sets_aside=problem["sets_aside"],
    )
