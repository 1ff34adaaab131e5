"""The service through its REST interface. Satisfies `monitor.ports.Service`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import httpx

from mirror.errors import HeadraceError, Unreachable
from mirror.model.datastream import DatastreamStatus, LatencyObjective
from mirror.model.identifiers import DatastreamName
from monitor.ports import Preview

_AWAY: Final = frozenset({502, 503, 504})


class RestService:
    """Talks to one instance; any instance will do."""

    def __init__(self, address: str, timeout_seconds: float) -> None:
        self._address = address
        self._client = httpx.Client(base_url=f"http://{address}", timeout=timeout_seconds)

    def objectives(self) -> Mapping[DatastreamName, LatencyObjective]:
        """Of every READY datastream that has one."""
        return {
            DatastreamName(one["name"]): LatencyObjective(**one["objective"])
            for one in self._ask("GET", "/v1/datastreams")
            if one["objective"] and one["status"] == DatastreamStatus.READY
        }

    def preview_rebalance(self, name: DatastreamName) -> Preview:
        """A dry run of an incremental rebalance."""
        answer = self._ask("POST", "/v1/rebalance", {"datastream": name, "dry_run": True})
        return Preview(answer["sentence"], len(answer["moves"]))

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
