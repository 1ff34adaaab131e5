"""The service through its REST interface. Satisfies `monitor.ports.Service`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import httpx

from mirror.errors import HeadraceError, Unreachable
from mirror.model.datastreams.datastream import DatastreamStatus, LatencyObjective
from mirror.model.datastreams.metadata import TASK_PREFIX
from mirror.model.identifiers import DatastreamName
from mirror.model.topics import TopicSelection
from monitor.latency import Source, Subject
from monitor.ports import Preview

_NAMES_SHOWN: Final = 5
_AWAY: Final = frozenset({502, 503, 504})


class RestService:
    """Talks to one instance; any instance will do."""

    def __init__(self, address: str, timeout_seconds: float) -> None:
        self._address = address
        self._client = httpx.Client(base_url=f"http://{address}", timeout=timeout_seconds)

    def subjects(self) -> Mapping[DatastreamName, Subject]:
        """Every READY datastream that has an objective."""
        return {
            DatastreamName(one["name"]): _subject(one)
            for one in self._ask("GET", "/v1/datastreams")
            if one["objective"] and one["status"] == DatastreamStatus.READY
        }

    def preview_rebalance(self, name: DatastreamName) -> Preview:
        """A dry run of an incremental rebalance."""
        answer = self._ask("POST", "/v1/rebalance", {"datastream": name, "dry_run": True})
        # An instance of an older version does not say what its preview rests on.
        return Preview(answer["sentence"], len(answer["moves"]), answer.get("loads_known") is not False)

    def rebalance(self, name: DatastreamName, reason: str) -> str:
        """An incremental rebalance: repair what is overloaded with few moves."""
        body = {"datastream": name, "requested_by": "monitor", "reason": reason}
        identity: str = self._ask("POST", "/v1/rebalance", body)["request"]
        return identity

    def close(self) -> None:
        """Release the connection."""
        self._client.close()

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        try:
            response = self._client.request(method, path, json=body)
        except httpx.TransportError as error:
            raise Unreachable(f"no Headrace instance answers at {self._address}") from error
        if not response.is_success:
            kind = Unreachable if response.status_code in _AWAY else HeadraceError
            raise kind(f"{method} {path} answered {response.status_code}: {response.text[:300]}")
        return response.json()


def _subject(one: Mapping[str, Any]) -> Subject:
    source, problem = one["source"], one["problem"]
    return Subject(
        LatencyObjective(**one["objective"]),
        Source(one["metadata"].get(TASK_PREFIX) or one["name"], source["cluster"]),
        TopicSelection(source["topics"], source["exclude"], source["internal"]),
        halted=problem["reason"] if problem is not None and problem["sets_aside"] else "",
        paused=", ".join(sorted(one["pauses"])[:_NAMES_SHOWN]),
    )
