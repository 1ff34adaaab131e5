"""Sends POST requests with a deadline for the whole call.

The time-outs of httpx apply to each read, so a server that sends single bytes could block the call forever.
Cancelling the task at the deadline prevents that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from ipaddress import ip_address
from typing import Final

import anyio
import httpx

from mirror.errors import InvalidRequest, Refused, TimedOut, Unreachable
from mirror.model.reasons import legible
from mirror.tls import trusting
from monitor.alerts.deliveries.ports import RetryLater

_MOST_ANSWER_BYTES: Final = 65_536
_PLAIN: Final = {"Accept-Encoding": "identity"}
"""Requests an uncompressed response, to which the size limit applies directly."""
_LONGEST_REASON: Final = 200
_TOO_MANY: Final = 429
_LATER: Final = frozenset({408, 425, _TOO_MANY})
_NOT_AS_IT_IS: Final = frozenset({400, 413, 422})
_FIRST_SERVER_ERROR: Final = 500


@dataclass(frozen=True, slots=True)
class _HttpResponse:
    status: int
    text: str
    retry_after: str


class HttpCall:
    """HTTP client that sends requests to one receiver of alerts.

    `shows_answers`: the text of an error response may be logged.

    Raises ConfigError if the certificate authorities cannot be read.
    """

    def __init__(self, ca_file: str, timeout_seconds: float, *, shows_answers: bool = False) -> None:
        self._tls = trusting(ca_file, "ca_file") if ca_file else httpx.create_ssl_context()
        self._timeout = timeout_seconds
        self._shows_answers = shows_answers

    def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, has_credentials: bool, now_ms: int
    ) -> None:
        """Send a POST request to the receiver. Raises Unreachable, TimedOut, RetryLater, Refused,
        InvalidRequest like `Receiver.send`."""
        address = _checked(url, has_credentials=has_credentials)
        if not all(value.isascii() for value in headers.values()):
            raise Refused("HTTP header values must be ASCII; check the token")
        try:
            reply = anyio.run(partial(self._post, address, body, headers))
        except (TimeoutError, httpx.TimeoutException) as error:
            raise TimedOut(f"no response within {self._timeout:g} s") from error
        except httpx.HTTPError as error:
            raise Unreachable(f"request failed: {legible(str(error)) or type(error).__name__}") from error
        if not httpx.codes.is_success(reply.status):
            raise self._error_of(reply, now_ms)

    async def _post(self, url: httpx.URL, body: bytes, headers: Mapping[str, str]) -> _HttpResponse:
        with anyio.fail_after(self._timeout):
            async with (
                httpx.AsyncClient(
                    timeout=self._timeout, verify=self._tls, trust_env=url.scheme == "https"
                ) as client,
                client.stream("POST", url, content=body, headers={**_PLAIN, **headers}) as response,
            ):
                found = b""
                async for part in response.aiter_raw():
                    found += part
                    if len(found) > _MOST_ANSWER_BYTES:
                        break
                text = found[:_MOST_ANSWER_BYTES].decode("utf-8", "replace")
                return _HttpResponse(response.status_code, text, response.headers.get("Retry-After", ""))

    def _error_of(self, reply: _HttpResponse, now_ms: int) -> Exception:
        text = f"HTTP status {reply.status}"
        if self._shows_answers and reply.text.strip():
            text += f": {legible(' '.join(reply.text.split()), _LONGEST_REASON)}"
        if reply.status in _NOT_AS_IT_IS:
            return InvalidRequest(text)
        if reply.status in _LATER or reply.status >= _FIRST_SERVER_ERROR:
            return RetryLater(text, _seconds_of(reply.retry_after, now_ms))
        return Refused(text)


def _checked(text: str, *, has_credentials: bool) -> httpx.URL:
    """Parse the URL of a receiver. Raises Refused without quoting the URL, which may be a secret."""
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise Refused("invalid URL") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise Refused("invalid URL: must begin with http:// or https:// and a host")
    if (has_credentials or url.userinfo) and url.scheme == "http" and not is_loopback(url.host):
        raise Refused("credentials are not sent without TLS", advice="configure an https:// URL")
    return url


def is_loopback(host: str) -> bool:
    """Return whether the host is `localhost` or a loopback address, without resolving names."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _seconds_of(retry_after: str, now_ms: int) -> float:
    """Return the seconds in a `Retry-After` header (RFC 9110), which has seconds or a date; 0 if it is
    invalid."""
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after[:9])
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - now_ms / 1000)
    except (ValueError, OverflowError):
        return 0.0
