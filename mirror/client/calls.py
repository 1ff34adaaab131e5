"""Sends requests from coroutines that wait for the response."""

from __future__ import annotations

from typing import TypeVar

from mirror.client.connection import Connection
from mirror.client.event_loop import Promise
from mirror.client.request import Request
from mirror.errors import CorruptData
from mirror.lane.memory import ReceiveBuffer
from mirror.protocol.control.call import Call

T = TypeVar("T")


async def make_call(
    connection: Connection,
    call: Call[T],
    timeout_seconds: float,
    version: int | None = None,
    *,
    urgent: bool = False,
) -> T:
    """Send a request on a connection, and wait for the response.

    `urgent`: send the request even while other requests are held.

    Raises Unreachable, TimedOut, CorruptData; Refused for an unsupported request.
    """
    if version is None:
        version = call.choose(connection.features.versions.get(call.api))
    wait = connection.throttled_until - connection.loop.now()
    if wait > 0:
        await connection.loop.sleep(wait)
    promise = Promise[T]()
    body = call.encode(version)

    def on_answer(frame: memoryview, _slab: ReceiveBuffer) -> None:
        try:
            value, throttle_ms = call.decode(version, frame)
        except CorruptData as error:
            promise.fail(error)
            raise
        connection.throttle(throttle_ms)
        promise.resolve(value)

    request = Request(
        call.api,
        version,
        call.is_flexible(version),
        [body],
        len(body),
        timeout_seconds,
        on_answer,
        promise.fail,
        most_bytes=call.most_bytes,
    )
    connection.send(request, urgent=urgent)
    return await promise
