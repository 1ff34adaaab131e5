"""A large response arrives in pieces of any size, ending with a small one; the reader never hangs."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time

import pytest

from mirror.adapters.system_clock import SystemClock
from mirror.client.connection import Connection
from mirror.client.event_loop import Loop
from mirror.client.request import Request
from mirror.client.transport import Transport
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.memory import BufferPool, ReceiveBuffer
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.deep

_SIZES = (10, 70_000, 300_000, 3_000_000, 70_001, 12, 600_000)


def _serve(listener: socket.socket, seed: int) -> None:
    """Respond to every request with the number of bytes that it requests, in random pieces."""
    numbers = random.Random(seed)
    peer, _ = listener.accept()
    with peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in _SIZES:
            (length,) = struct.unpack(">i", peer.recv(4, socket.MSG_WAITALL))
            request = peer.recv(length, socket.MSG_WAITALL)
            (correlation,) = struct.unpack_from(">i", request, 4)
            (size,) = struct.unpack(">i", request[-4:])
            frame = struct.pack(">ii", size + 4, correlation) + numbers.randbytes(1) * size
            while frame:
                cut = numbers.choice((1, 1_000, 65_536, 524_288, len(frame) - 1))
                peer.sendall(frame[: max(cut, 1)])
                frame = frame[max(cut, 1) :]
                if cut > 1:
                    time.sleep(0.002)
        peer.recv(1)  # closing the connection would wake a reader that waits for too much


@pytest.mark.parametrize("seed", range(4))
def test_large_responses_in_small_pieces(seed: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=_serve, args=(listener, seed))
        server.start()
        client = socket.create_connection(listener.getsockname())
        client.setblocking(False)
        loop = Loop(SystemClock())
        pool = BufferPool(4 << 20, ByteBudget(16 << 20))
        connection = Connection(loop, Transport(client), pool, "server", "test")
        found: list[int] = []
        failures: list[Exception] = []

        def ask() -> None:
            body = [struct.pack(">i", _SIZES[len(found)])]
            connection.send(Request(1, 0, False, body, 4, PATIENCE_SECONDS, on_answer, failures.append))

        def on_answer(body: memoryview, _slab: ReceiveBuffer) -> None:
            assert bytes(body) == bytes(body[:1]) * len(body)
            found.append(len(body))
            if len(found) < len(_SIZES):
                ask()

        ask()
        until = time.monotonic() + PATIENCE_SECONDS
        while len(found) < len(_SIZES) and not failures and time.monotonic() < until:
            loop.run_once(0.5)
        connection.close()
        loop.close()
        server.join()
    assert found == list(_SIZES), failures
