"""Slow servers: a proxy port that delays all data."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

from stack.ports import LOOPBACK
from tests.patience import PATIENCE_SECONDS


class SlowPort:
    """Proxy port to an address. `seconds`: delay in both directions, changeable at any time."""

    def __init__(self, number: int, address: str) -> None:
        self.seconds = 0.0
        self._number = number
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._is_open = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=f"slow-{number}")

    @property
    def here(self) -> str:
        """Address of the proxy."""
        return f"{LOOPBACK}:{self._number}"

    @contextmanager
    def delayed(self, seconds: float) -> Iterator[None]:
        """Delay data within the context."""
        self.seconds = seconds
        try:
            yield
        finally:
            self.seconds = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._is_open.wait(PATIENCE_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE_SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._accept, LOOPBACK, self._number)
        self._is_open.set()
        await self._over.wait()
        server.close()

    async def _accept(self, here: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            there, forth = await asyncio.open_connection(self._host, self._port)
        except OSError:
            back.close()
            return
        try:
            await asyncio.gather(self._carry(here, forth), self._carry(there, back))
        finally:
            forth.close()
            back.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward data in order even if the delay changes; the end of the stream is delayed too."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        delivery = asyncio.ensure_future(self._deliver(under_way, writer))
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                under_way.put_nowait((self._loop.time() + self.seconds, data))
        under_way.put_nowait((self._loop.time() + self.seconds, b""))
        await delivery

    async def _deliver(
        self, under_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        with suppress(ConnectionError):
            while True:
                due, data = await under_way.get()
                await asyncio.sleep(max(due - self._loop.time(), 0.0))
                if not data:
                    writer.close()
                    return
                writer.write(data)
                await writer.drain()
