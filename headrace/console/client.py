"""REST client of the command line. Errors of the service are raised as exceptions of Headrace."""

from __future__ import annotations

import contextlib
import ssl
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import httpx

from api.access.origins import is_loopback
from headrace.console.access.caller import LARGEST_ANSWER_BYTES, ClientCredentials
from headrace.console.resources import OPERATIONS
from mirror.errors import (
    ConfigError,
    HeadraceError,
    InvalidRequest,
    ServiceAnswerTooLarge,
    Unreachable,
    kind_named,
)
from mirror.model.bounds import REACH_SECONDS, shown

_T = TypeVar("_T")
_AS_OF: Final = "As-Of-Ms"
_SSL: Final = "[SSL"
_AS_SENT: Final = {"Accept-Encoding": "identity"}
"""Header for an uncompressed response. A compressed response could expand to thousands of times its size."""
_SILENCE_SECONDS: Final = 45.0
"""Read timeout of an event stream: three heartbeat intervals."""
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout)
_AWAY: Final = frozenset({502, 503, 504})
"""HTTP statuses of a proxy without a backend, or of an instance with a failed component."""


@cache
def tls_context() -> ssl.SSLContext:
    """Return a TLS context with the CA certificates of the machine.

    The result is cached, because loading takes 17 ms of CPU time.
    """
    return httpx.create_ssl_context()


def _context_of(settings: ClientCredentials) -> ssl.SSLContext:
    """Return the TLS context of the settings. Raises ConfigError."""
    if not settings.ca_file and not settings.certificate_file:
        return tls_context()
    try:
        found = ssl.create_default_context(cafile=settings.ca_file or None)
        if settings.certificate_file:
            found.load_cert_chain(settings.certificate_file, settings.key_file or None)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot load commands.ca_file or commands.certificate_file: {error}") from error
    found.minimum_version = ssl.TLSVersion.TLSv1_2
    return found


def _headers_of(settings: ClientCredentials, url: str) -> dict[str, str]:
    """Return the headers that authenticate the caller. Raises ConfigError.

    Raises InvalidRequest if the token would be sent to another machine in plain text.
    """
    token = settings.token()
    if not token:
        return {}
    parts = urlsplit(url)
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise InvalidRequest(
            f"refusing to send the token to {parts.netloc} without TLS", advice=f"use https://{parts.netloc}"
        )
    return {"Authorization": f"Bearer {token}"}


class RestClient:
    """REST client that sends each request to any instance of the service.

    `addresses`: `host:port` or `https://host:port`, separated by commas. Addresses are tried in order, and
    finally the addresses that `find_more` returns. `note_age`: called with the age of a response in seconds
    if the coordination store is unreachable. `keeps_connection`: if False, the connection is closed after
    each response, and `close` is not needed. `settings`: credentials of the caller; None for anonymous calls.
    """

    def __init__(
        self,
        addresses: str,
        timeout_seconds: float = 30.0,
        note_age: Callable[[int], None] = lambda _: None,
        *,
        keeps_connection: bool = True,
        settings: ClientCredentials | None = None,
        find_more: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._addresses = deque(addresses.split(","))
        self._named = addresses.replace(",", ", ")
        self._timeout_seconds = timeout_seconds
        self._note_age = note_age
        self._largest = settings.largest_answer_bytes if settings else LARGEST_ANSWER_BYTES
        self._keeps_connection = keeps_connection
        self._settings = settings
        self._find_more = find_more
        self._client = self._client_of(self._addresses[0])

    def _client_of(self, address: str) -> httpx.Client:
        """Return an HTTP client for an address. Raises ConfigError, InvalidRequest."""
        url, settings = address if "://" in address else f"http://{address}", self._settings
        return httpx.Client(
            base_url=url,
            timeout=self._timeout(self._timeout_seconds),
            verify=self._context(url),
            headers={**_AS_SENT, **(_headers_of(settings, url) if settings else {})},
            limits=httpx.Limits(max_keepalive_connections=None if self._keeps_connection else 0),
            trust_env=url.startswith("https://"),  # a proxy could read the token of a plain-text request
        )

    def _context(self, url: str) -> ssl.SSLContext | bool:
        """Return the TLS context, or False for plain HTTP. Certificates are only loaded for HTTPS."""
        if not url.startswith("https://"):
            return False
        return _context_of(self._settings) if self._settings else tls_context()

    def _timeout(self, read_seconds: float) -> httpx.Timeout:
        seconds = self._timeout_seconds
        return httpx.Timeout(seconds, read=read_seconds, connect=min(seconds, REACH_SECONDS))

    def _send(self, send: Callable[[httpx.Client], httpx.Response], *, may_repeat: bool) -> httpx.Response:
        """Send a request to the first instance that responds. Raises the last TransportError.

        `may_repeat`: if an instance may have received the request, send it to another instance nevertheless.
        """
        for _ in range(len(self._addresses) - 1):
            try:
                return send(self._client)
            except httpx.TransportError as error:
                self._switch_to_next()
                if not (may_repeat or isinstance(error, _NOT_SENT)):
                    raise
        try:
            return send(self._client)
        except httpx.TransportError as error:
            may_send = may_repeat or isinstance(error, _NOT_SENT)
            if not (may_send and self._switch_to_found()):
                self._switch_to_next()
                raise
        return self._send(send, may_repeat=may_repeat)

    def _switch_to_found(self) -> bool:
        """Call `find_more` for further addresses of instances, unless it was called before. Return whether
        there is a new one."""
        find, self._find_more = self._find_more, tuple
        more = [fromkey for fromkey in dict.fromkeys(find()) if fromkey not in self._addresses]
        if more:
            self._client.close()
            self._addresses.extendleft(reversed(more))
            self._named = ", ".join(self._addresses)
            self._client = self._client_of(self._addresses[0])
        return bool(more)

    def _switch_to_next(self) -> None:
        if len(self._addresses) > 1:
            self._client.close()
            self._addresses.rotate(-1)
            self._client = self._client_of(self._addresses[0])

    def get(self, path: str, **parameters: Any) -> Any:
        """Return a resource as JSON. Raises Unreachable, NotFound, HeadraceError."""
        return self._ask("GET", path, params=parameters)

    def post(self, path: str, body: object = None, **parameters: Any) -> Any:
        """Send a POST request, and return the JSON of the response.

        A body of None is sent as an empty object, because actions require a body. Raises Unreachable,
        InvalidRequest, HeadraceError.
        """
        return self._ask("POST", path, json={} if body is None else body, params=parameters)

    def begin(self, method: str, path: str, body: object = None, **parameters: Any) -> tuple[Any, str]:
        """Send a request that may start an operation. Return the JSON of the response, and the path of the
        operation.

        The path is empty if no operation was started. Raises the errors of `post`.
        """
        headers = {"If-Match": "*"} if method == "DELETE" else {}
        more = {} if body is None and method != "POST" else {"json": body or {}}
        response = self._answer(method, path, headers=headers, params=parameters, **more)
        location = response.headers.get("Location", "")
        return self._json(response), location if location.startswith(f"{OPERATIONS}/") else ""

    def create(self, path: str, body: object, **parameters: Any) -> Any:
        """Create a resource, and return the JSON of the response. Raises the errors of `post`.

        Without a response, the request is retried once with the same idempotency key.
        """
        headers = {"Idempotency-Key": f'"{uuid.uuid4()}"'}
        try:
            return self._ask("POST", path, json=body, headers=headers, params=parameters)
        except Unreachable:
            return self._ask("POST", path, json=body, headers=headers, params=parameters)

    def version(self, path: str) -> str:
        """Return the ETag of a resource. Raises Unreachable, NotFound, HeadraceError."""
        return self.get_with_version(path)[1]

    def get_with_version(self, path: str) -> tuple[Any, str]:
        """Return a resource as JSON, and its ETag. Raises Unreachable, NotFound, HeadraceError."""
        response = self._answer("GET", path)
        return self._json(response), str(response.headers.get("ETag", "*"))

    def patch(self, path: str, changes: object, version: str, **parameters: Any) -> Any:
        """Apply a merge patch to a resource if it has this version, and return the JSON of the response.

        Raises Unreachable, InvalidRequest, StaleVersion, HeadraceError.
        """
        headers = {"If-Match": version, "Content-Type": "application/merge-patch+json"}
        return self._ask("PATCH", path, json=changes, headers=headers, params=parameters)

    def put(self, path: str, document: object, version: str, **parameters: Any) -> Any:
        """Replace a resource if it has this version, and return the JSON of the response. Raises the errors
        of `patch`."""
        headers = {"If-Match": version}
        return self._ask("PUT", path, json=document, headers=headers, params=parameters)

    def delete(self, path: str, version: str = "*", **parameters: Any) -> Any:
        """Delete a resource if it has this version (default: any), and return the JSON of the response.

        Raises Unreachable, NotFound, StaleVersion, HeadraceError.
        """
        return self._ask("DELETE", path, headers={"If-Match": version}, params=parameters)

    @contextlib.contextmanager
    def stream(self, path: str, headers: Mapping[str, str], **parameters: Any) -> Iterator[Iterator[bytes]]:
        """Open a streaming response, and yield its bytes as they arrive.

        Raises the errors of `get`. Raises Unreachable if the stream ends unexpectedly or heartbeats are
        missing.
        """
        timeout = self._timeout(_SILENCE_SECONDS)

        def send(client: httpx.Client) -> httpx.Response:
            request = client.build_request("GET", path, headers=headers, params=parameters, timeout=timeout)
            return client.send(request, stream=True)

        try:
            with contextlib.closing(self._send(send, may_repeat=True)) as response:
                if not response.is_success:
                    raise _error_of(self._whole(response))
                if response.headers.get("Content-Type", "").partition(";")[0] != headers["Accept"]:
                    raise self._stranger()
                yield response.iter_bytes()
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: httpx.TransportError) -> Unreachable:
        if isinstance(error.__cause__ or error.__context__, ssl.SSLError) or _SSL in str(error):
            return Unreachable(
                f"TLS connection to {self._named} failed: {error}",
                advice="check commands.ca_file, commands.certificate_file and the names in the server's"
                " certificate",
            )
        return Unreachable(
            f"no response from a Headrace instance at {self._named}",
            advice="start an instance with headrace serve, or select another with --at host:port",
        )

    def _stranger(self) -> HeadraceError:
        return HeadraceError(
            f"the server at {self._addresses[0]} is not a Headrace instance",
            advice="select an instance with --at host:port",
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _answer(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        def send(client: httpx.Client) -> httpx.Response:
            request = client.build_request(method, path, **arguments)
            with contextlib.closing(client.send(request, stream=True)) as begun:
                return self._whole(begun)

        try:
            response = self._send(send, may_repeat=method == "GET")
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        except UnicodeEncodeError as error:
            raise InvalidRequest(f"request text is not valid UTF-8: {shown(error.object)}") from error
        except httpx.InvalidURL as error:
            raise InvalidRequest(f"cannot send the request to {self._addresses[0]}: {error}") from error
        if not response.is_success:
            raise _error_of(response)
        if _AS_OF in response.headers and response.headers.get("Age", "").isdigit():
            self._note_age(int(response.headers["Age"]))
        return response

    def _whole(self, response: httpx.Response) -> httpx.Response:
        """Read the body of a response. Raises ServiceAnswerTooLarge; HeadraceError if it is compressed."""
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise self._stranger()
        body = bytearray()
        for part in response.iter_bytes():
            body += part
            if len(body) > self._largest:
                raise ServiceAnswerTooLarge(
                    f"response from {self._addresses[0]} exceeds {self._largest} bytes",
                    advice="narrow the request, or raise commands.largest_answer_bytes",
                )
        return httpx.Response(
            response.status_code, headers=response.headers, content=bytes(body), request=response.request
        )

    def _ask(self, method: str, path: str, **arguments: Any) -> Any:
        return self._json(self._answer(method, path, **arguments))

    def _json(self, response: httpx.Response) -> Any:
        try:
            return response.json() if response.content else None
        except (ValueError, RecursionError) as error:
            raise self._stranger() from error


def _error_of(response: httpx.Response) -> HeadraceError:
    """Return the error that the service reported. The `kind` in the problem document determines its class."""
    try:
        body = response.json()
        message, advice = body["detail"], body.get("advice", "")
        kind = kind_named(body.get("kind", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        away = response.status_code in _AWAY
        return (Unreachable if away else HeadraceError)(
            f"HTTP {response.status_code} from {response.request.url}"
        )
    if kind is not None:
        return kind(message, advice=advice)
    return (InvalidRequest if response.is_client_error else HeadraceError)(message, advice=advice)


def unless_it_may_pass(ask: Callable[[], _T]) -> Callable[[], _T | None]:
    """Wrap a call so that it returns None, instead of raising, for an error that a retry may resolve."""

    def attempt() -> _T | None:
        try:
            return ask()
        except HeadraceError as error:
            if not error.retriable:
                raise
            return None

    return attempt
