"""HTTP transport for requests to a Pinot server, with limits on size and total time.

httpx applies its timeouts to each read, so a server that sends a byte now and then never times out. A
compressed response can also expand to thousands of times its size. The transport therefore limits the total
time of a request, and decompresses gzip in steps of limited size.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

import anyio
import httpx

from mirror.errors import AnswerTooLarge
from pinot.settings import PinotSettings

HEADERS: Final = {"Accept-Encoding": "gzip"}
"""Headers for clients on this transport, which supports only gzip."""
_AS_SENT: Final = frozenset({"", "identity"})
_WITH_GZIP_HEADER: Final = zlib.MAX_WBITS | 16
_RAW_HEADERS: Final = frozenset({"content-encoding", "content-length", "transfer-encoding"})


class BoundedTransport(httpx.BaseTransport):
    """HTTP transport that opens a new connection for each request.

    Raises AnswerTooLarge beyond `PinotSettings.largest_answer_bytes`, and httpx.ReadTimeout after `seconds`.
    """

    def __init__(self, settings: PinotSettings, seconds: float) -> None:
        self._settings = settings
        self._seconds = seconds
        self._tls = httpx.create_ssl_context()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the HTTP request and return the response with its whole body."""
        try:
            return anyio.run(partial(self._exchange, request))
        except TimeoutError as error:
            raise httpx.ReadTimeout(f"no response within {self._seconds:g} s", request=request) from error

    async def _exchange(self, request: httpx.Request) -> httpx.Response:
        with anyio.fail_after(self._seconds):
            async with self._client() as client:
                response = await client.send(request, stream=True)
                try:
                    body = await _body(response, self._settings.largest_answer_bytes)
                finally:
                    await response.aclose()
        kept = [pair for pair in response.headers.multi_items() if pair[0].lower() not in _RAW_HEADERS]
        return httpx.Response(response.status_code, headers=kept, content=body, request=request)

    def _client(self) -> httpx.AsyncClient:
        """Return a new HTTP client.

        Without TLS, the client ignores proxies, because a proxy would see the password of a plain request.
        """
        return httpx.AsyncClient(verify=self._tls, trust_env=self._settings.tls)


async def _body(response: httpx.Response, most: int) -> bytes:
    """Read the whole body of the response.

    Raises AnswerTooLarge, and httpx.DecodingError for a compression that was not offered.
    """
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding in _AS_SENT:
        return await _joined(response.aiter_raw(), most)
    if encoding == "gzip":
        return await _joined(_opened(response.aiter_raw()), most)
    raise httpx.DecodingError(
        f"unexpected Content-Encoding of the response: {encoding!r}", request=response.request
    )


async def _joined(parts: AsyncIterator[bytes], most: int) -> bytes:
    found = bytearray()
    async for part in parts:
        found += part
        if len(found) > most:
            raise AnswerTooLarge(
                f"response of Pinot exceeds {most} bytes",
                advice="narrow the query, or raise pinot.largest_answer_bytes",
            )
    return bytes(found)


async def _opened(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Decompress gzip data, and yield it in parts of at most 64 KiB. Raises httpx.DecodingError."""
    opener = zlib.decompressobj(_WITH_GZIP_HEADER)
    try:
        async for part in parts:
            waiting = part
            while waiting and not opener.eof:
                yield opener.decompress(waiting, 65_536)
                waiting = opener.unconsumed_tail
        yield opener.flush()
    except zlib.error as error:
        raise httpx.DecodingError(f"invalid gzip data in the response: {error}") from error
    if not opener.eof:
        raise httpx.DecodingError("truncated gzip data in the response")
