"""One HTTP exchange with a Pinot server, bounded in size and in total time.

httpx's own time-outs count for each read, so that a server which sends a byte now and then never reaches
one, and a compressed response opens into thousands of times its size. A cancelled task has an end, and gzip
is opened here, step by step.
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
"""For clients on this transport: other compressions are not opened."""
_AS_SENT: Final = frozenset({"", "identity"})
_WITH_GZIP_HEADER: Final = zlib.MAX_WBITS | 16
_RAW_HEADERS: Final = frozenset({"content-encoding", "content-length", "transfer-encoding"})


class BoundedTransport(httpx.BaseTransport):
    """A connection of its own for each request. Raises AnswerTooLarge beyond
    `PinotSettings.largest_answer_bytes`, and httpx.ReadTimeout after `seconds`."""

    def __init__(self, settings: PinotSettings, seconds: float) -> None:
        self._settings = settings
        self._seconds = seconds
        self._tls = httpx.create_ssl_context()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request and return the response with its whole body."""
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
        """A proxy would read the password of a plain request."""
        return httpx.AsyncClient(verify=self._tls, trust_env=self._settings.tls)


async def _body(response: httpx.Response, most: int) -> bytes:
    """Raises AnswerTooLarge; httpx.DecodingError for a compression that was not offered."""
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding in _AS_SENT:
        return await _joined(response.aiter_raw(), most)
    if encoding == "gzip":
        return await _joined(_opened(response.aiter_raw()), most)
    raise httpx.DecodingError(f"the response is compressed by {encoding!r}", request=response.request)


async def _joined(parts: AsyncIterator[bytes], most: int) -> bytes:
    found = bytearray()
    async for part in parts:
        found += part
        if len(found) > most:
            raise AnswerTooLarge(
                f"Pinot sends more than {most} bytes",
                advice="narrow the question, or raise pinot.largest_answer_bytes",
            )
    return bytes(found)


async def _opened(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the content of gzip in steps of at most 64 KiB. Raises httpx.DecodingError."""
    opener = zlib.decompressobj(_WITH_GZIP_HEADER)
    try:
        async for part in parts:
            waiting = part
            while waiting and not opener.eof:
                yield opener.decompress(waiting, 65_536)
                waiting = opener.unconsumed_tail
        yield opener.flush()
    except zlib.error as error:
        raise httpx.DecodingError(f"the response is no gzip: {error}") from error
    if not opener.eof:
        raise httpx.DecodingError("the response ends halfway")
