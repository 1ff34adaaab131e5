"""Client of Pinot's controller for schemas and tables."""

from __future__ import annotations

import re
from typing import Any, Final

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from mirror.errors import AnalyticsError, NotAuthorized, Refused
from pinot.rows import checked_rows
from pinot.settings import PinotSettings
from pinot.transport import HEADERS, BoundedTransport
from pinot.unreachable import translated

_LEAST_SECONDS: Final = 30.0
"""Minimum timeout, because creating a table takes longer than a query."""
_REFERENCE: Final = re.compile(r"\$\{[A-Za-z0-9_]+\}")


class PinotController:
    """Client of one Pinot controller. `close` closes the connections."""

    def __init__(self, settings: PinotSettings) -> None:
        self._address = settings.controller
        self._attempts = settings.attempts
        longest = max(settings.timeout_seconds, _LEAST_SECONDS)
        auth = (settings.username, settings.password.get_secret_value()) if settings.username else None
        self._http = httpx.Client(
            base_url=f"{'https' if settings.tls else 'http'}://{settings.controller}",
            transport=BoundedTransport(settings, longest),
            headers=HEADERS,
            timeout=longest,
            auth=auth,
            trust_env=False,
        )

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._http.close()

    def schema(self, name: str) -> dict[str, Any] | None:
        """Return the schema document, None if the schema does not exist."""
        return self._found("GET", f"/schemas/{name}")

    @checked_rows
    def table(self, name: str) -> dict[str, Any] | None:
        """Return the definition of the realtime table (JSON); None if the table does not exist."""
        found = self._found("GET", f"/tables/{name}")
        return dict(found["REALTIME"]) if found and "REALTIME" in found else None

    @checked_rows
    def references(self, name: str) -> frozenset[str]:
        """Return the environment variables (`${NAME}`) to which the stored table refers; empty if it does not
        exist. The document that `table` returns may contain their values instead."""
        cluster = self._call("GET", "/cluster/info")["clusterName"]
        path = f"/{cluster}/PROPERTYSTORE/CONFIGS/TABLE/{name}_REALTIME"
        with translated(f"controller {self._address}"):
            answer = self._http.get("/zk/get", params={"path": path})
        if answer.status_code == httpx.codes.NOT_FOUND:
            return frozenset()
        _raise_for(answer, f"GET /zk/get {path}")
        return frozenset(_REFERENCE.findall(answer.text))

    def put_schema(self, document: dict[str, Any], *, exists: bool) -> None:
        """Create or replace a schema. Raises Refused if Pinot cannot change the schema in place."""
        if exists:
            self._call("PUT", f"/schemas/{document['schemaName']}", document)
        else:
            self._call("POST", "/schemas", document)

    def put_table(self, document: dict[str, Any], *, exists: bool) -> None:
        """Create or replace a table. Retries a creation that Pinot rolled back."""
        if exists:
            self._call("PUT", f"/tables/{document['tableName']}", document)
            return
        for attempt in Retrying(
            stop=stop_after_attempt(self._attempts + 2),
            wait=wait_random_exponential(multiplier=0.3, max=3.0),
            retry=retry_if_exception_type(AnalyticsError),
            reraise=True,
        ):
            with attempt:
                self._call("POST", "/tables", document)

    def reload(self, name: str) -> None:
        """Reload the segments of a table to add new columns and indexes."""
        self._call("POST", f"/segments/{name}_REALTIME/reload")

    def drop(self, name: str) -> None:
        """Delete a realtime table with its rows, and its schema. Ignores a missing table or schema."""
        self._found("DELETE", f"/tables/{name}?type=realtime")
        self._found("DELETE", f"/schemas/{name}")

    @checked_rows
    def consuming(self, name: str) -> dict[str, list[dict[str, Any]]]:
        """Map each consuming segment of a table to its state.

        The state of a stalled segment is empty.
        """
        found = self._call("GET", f"/tables/{name}/consumingSegmentsInfo")
        return dict(found["_segmentToConsumingInfoMap"])

    def _found(self, method: str, path: str) -> dict[str, Any] | None:
        """Return the response of the controller; None if the path does not exist."""
        answer = self._sent(method, path, None)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        return _document(answer, f"{method} {path}")

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        return _document(self._sent(method, path, body), f"{method} {path}")

    def _sent(self, method: str, path: str, body: dict[str, Any] | None) -> httpx.Response:
        with translated(f"controller {self._address}"):
            return self._http.request(method, path, json=body)


def _document(answer: httpx.Response, operation: str) -> dict[str, Any]:
    """Return the JSON object in a response. Raises the errors of `_raise_for`, and AnalyticsError."""
    _raise_for(answer, operation)
    try:
        found = answer.json()
    except (ValueError, RecursionError) as error:
        raise AnalyticsError(
            f"Pinot's response to {operation} is not JSON",
            advice="check that pinot.controller is the address of a controller",
        ) from error
    if not isinstance(found, dict):
        raise AnalyticsError(f"Pinot's response to {operation} is not a JSON object")
    return found


def _raise_for(answer: httpx.Response, operation: str) -> None:
    if answer.is_success:
        return
    text = answer.text.strip()[:500]
    if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise NotAuthorized(
            f"Pinot rejected {operation}: {text}", advice="set pinot.username and pinot.password"
        )
    if answer.is_server_error:
        raise AnalyticsError(f"Pinot failed to execute {operation}: {text}")
    raise Refused(f"Pinot rejected {operation}: {text}")
