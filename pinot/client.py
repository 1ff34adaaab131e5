"""Client of a Pinot broker; the only module that uses pinotdb.

Pinot reports failures in responses with status 200, and may return the rows of only some servers. Pinot also
truncates results: without LIMIT to 10 rows, at the LIMIT, and grouped results at its own limit. `PinotClient`
treats all of these responses as errors, so a call either returns a complete result or raises.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import httpx
import pinotdb
from pinotdb import exceptions as pinot_exceptions
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from mirror.errors import AnalyticsError, AnswerTooLarge, HeadraceError, InvalidRequest, NotFound, TimedOut
from mirror.model import bounds
from pinot.rows import checked_rows
from pinot.settings import PinotSettings
from pinot.transport import HEADERS, BoundedTransport
from pinot.unreachable import translated

Value: TypeAlias = str | int | float | bool | Sequence[str] | Sequence[int]
Row: TypeAlias = list[Any]

_SOON: Final = wait_random_exponential(multiplier=0.1, max=2.0)
_NO_SUCH_TABLE: Final = frozenset({190})
_TOO_LATE: Final = frozenset({240, 250, 400, 427})
"""Error codes of Pinot for queries that took too long; see QueryException in pinot-common."""
_LONGEST_TEXT: Final = 10_000
"""Maximum length of a parameter in characters; regular expressions are the longest parameters."""
_LIMIT: Final = re.compile(r" limit (\d+)\s*$", re.IGNORECASE)
_CUT: Final = ("partialResult", "numGroupsLimitReached", "maxRowsInJoinReached", "maxRowsInDistinctReached")


@dataclass(frozen=True)
class QueryResult:
    """Rows as returned by Pinot, and the time of the query in milliseconds."""

    columns: tuple[str, ...]
    rows: list[Row]
    milliseconds: int


class PinotClient:
    """Client of one Pinot broker. Thread-safe; `close` closes the connections."""

    def __init__(self, settings: PinotSettings) -> None:
        self.settings = settings
        host, _, port = settings.broker.rpartition(":")
        timeout = settings.timeout_seconds
        auth = (settings.username, settings.password.get_secret_value()) if settings.username else None
        self._http = httpx.Client(
            transport=BoundedTransport(settings, timeout + 1.0),
            headers=HEADERS,
            timeout=httpx.Timeout(timeout + 1.0, connect=timeout),
            auth=auth,
            trust_env=False,
        )
        self._connection = pinotdb.connect(
            host=host, port=int(port), scheme="https" if settings.tls else "http", session=self._http
        )

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._http.close()

    def ask(self, sql: str, parameters: Mapping[str, Value] | None = None) -> QueryResult:
        """Run a query and return its complete result, after at most `attempts` attempts.

        `sql` names its parameters as `%(name)s` and ends with a LIMIT. With ORDER BY or `limit 1`, the LIMIT
        chooses the rows to return; otherwise a result that reaches the LIMIT is an error. Raises Unreachable,
        TimedOut, AnalyticsError (for an error or an incomplete result), AnswerTooLarge, NotFound (no such
        table).
        """
        _check(sql, parameters or {})
        for attempt in Retrying(
            stop=stop_after_attempt(self.settings.attempts),
            wait=_SOON,
            retry=retry_if_exception(_is_retriable),
            reraise=True,
        ):
            with attempt:
                result = self._ask_once(sql, dict(parameters or {}))
                _refuse_truncated(sql, len(result.rows))
                return result
        raise AssertionError("internal error: all attempts ended without a result or an error")

    @checked_rows
    def _ask_once(self, sql: str, parameters: dict[str, Value]) -> QueryResult:
        limited = f"set timeoutMs = {int(self.settings.timeout_seconds * 1000)}; {sql}"
        with closing(self._connection.cursor()) as cursor:
            response = _translated(cursor, limited, parameters, self.settings.broker)
            _refuse_half(response)
            return QueryResult(
                columns=tuple(entry[0] for entry in cursor.description or ()),
                rows=cursor.fetchall(),
                milliseconds=int(response.get("timeUsedMs", 0)),
            )


def _is_retriable(error: BaseException) -> bool:
    return isinstance(error, HeadraceError) and error.retriable


def _check(sql: str, parameters: Mapping[str, Value]) -> None:
    """Raise an error for a query without LIMIT, or for parameters that pinotdb would quote incorrectly.

    pinotdb does not quote a star. pinotdb would write an empty list as `in ()`, and None as the name of a
    column.
    """
    if not _LIMIT.search(sql):
        raise AssertionError("query without LIMIT: Pinot would truncate the result to 10 rows")
    for name, value in parameters.items():
        values = value if isinstance(value, list | tuple) else [value]
        if not values or "*" in values:
            raise InvalidRequest(f"{name} must not be {'an empty list' if not values else 'a star'}")
        if any(item is None or item != item for item in values):  # NaN differs from itself
            raise InvalidRequest(f"{name} is null or NaN")
        for item in values:
            if isinstance(item, str):
                bounds.text(name, item, _LONGEST_TEXT)


def _translated(cursor: Any, sql: str, parameters: dict[str, Value], broker: str) -> Mapping[str, Any]:
    """Run one query and return the raw response; translate errors of pinotdb and httpx."""
    try:
        with translated(f"broker {broker}"):
            cursor.execute(sql, parameters)
    except pinot_exceptions.Error as error:
        raise _failure(cursor.raw_query_response, error) from error
    response: Mapping[str, Any] = cursor.raw_query_response["response"]
    return response


def _failure(raw: Mapping[str, Any] | None, error: Exception) -> HeadraceError:
    """Return the error that describes why pinotdb rejected a response."""
    response = (raw or {}).get("response")
    found = response.get("exceptions", []) if isinstance(response, Mapping) else []
    codes = {int(entry.get("errorCode", 0)) for entry in found}
    messages = [str(entry.get("message", "")).strip() for entry in found] or [str(error).strip()]
    text = " ".join(messages[0].splitlines()[:2])[:300]  # a Java stack trace follows
    if codes & _NO_SUCH_TABLE:
        return NotFound("Pinot lacks the table", advice="headrace pinot apply creates the tables")
    if codes & _TOO_LATE:
        return TimedOut(f"Pinot timed out on a query: {text}")
    return AnalyticsError(f"Pinot returned an error: {text}")


def _refuse_half(response: Mapping[str, Any]) -> None:
    for flag in _CUT:
        if response.get(flag):
            raise AnalyticsError(f"Pinot returned a partial result ({flag})")
    if response.get("numServersQueried", 0) == 0:
        raise AnalyticsError(
            "no Pinot server executed the query",
            advice="the table is still being created, or all its servers are down",
        )


def _refuse_truncated(sql: str, rows: int) -> None:
    """Raise AnswerTooLarge if a result fills a LIMIT that does not choose its rows."""
    found = _LIMIT.search(sql)
    limit = int(found[1]) if found else 0
    if rows >= limit > 1 and " order by " not in sql.lower():
        raise AnswerTooLarge(
            f"the result reaches the limit of {limit} rows, at which Pinot truncates it",
            advice="narrow the query, for example to a shorter time",
        )
