"""CPU time of one connection for a GB, with TLS and in plaintext, and of its parts.

The connection reads responses of 5 MB and writes requests of 1 MB. The peer is another process, whose time is
not counted. With `BENCH_FORMER`, the other checkout runs alternately with this one. Interpreted.

`ssl`: the module `ssl` between buffers in memory, with the OpenSSL of the interpreter. `floor`: plaintext and
`ssl`. `AES-256-GCM`: the cipher alone, with the OpenSSL of `cryptography`, which may be another release. The
last lines show the time of the client for a handshake, also with a resumed session.
"""

from __future__ import annotations

import importlib
import os
import resource
import socket
import ssl
import struct
import subprocess
import sys
import time
from contextlib import suppress
from multiprocessing import Process, Queue
from pathlib import Path
from statistics import median
from typing import Any, Final, cast

from cryptography.hazmat.backends.openssl import backend
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_REPOSITORY: Final = Path(__file__).parents[2]
_FILES: Final = _REPOSITORY / "tests/data/tls"
_RESPONSE: Final = 5_000_000
_REQUEST: Final = 1_000_000
_WARMING: Final = 100_000_000
_BYTES: Final = float(os.environ.get("BENCH_BYTES", "1e9"))
_ROUNDS: Final = int(os.environ.get("BENCH_ROUNDS", "3"))
_RECORD: Final = 16 * 1024
_HANDSHAKES: Final = 300


def main() -> None:
    """Print CPU seconds for a GB: the median of the runs."""
    former = os.environ.get("BENCH_FORMER")
    checkouts = {"headrace": str(_REPOSITORY), **({"former": former} if former else {})}
    print(f"CPU-s/GB, median of {_ROUNDS}\n{'':16}{'read':>8}{'write':>8}{'both':>8}")
    plain = 0.0, 0.0
    for way in ("tls", "plain"):
        found: dict[str, list[list[float]]] = {name: [] for name in checkouts}
        for _ in range(_ROUNDS):
            for name, path in checkouts.items():
                found[name].append([_in_process(path, kind, way) for kind in ("read", "write")])
        for name, rounds in found.items():
            read, write = (median(values) for values in zip(*rounds, strict=True))
            print(f"{name + ' ' + way:16}{read:8.2f}{write:8.2f}{read + write:8.2f}", flush=True)
            if name == "headrace":
                plain = read, write
    parts = [memory_seconds() for _ in range(_ROUNDS)]
    for name, (read, write) in {
        "ssl": (own := [median(values) for values in zip(*parts, strict=True)]),
        "floor": [sum(values) for values in zip(plain, own, strict=True)],
        "AES-256-GCM": [median(cipher_seconds() for _ in range(_ROUNDS))] * 2,
    }.items():
        print(f"{name:16}{read:8.2f}{write:8.2f}{read + write:8.2f}")
    print(f"ssl: {ssl.OPENSSL_VERSION}; AES-256-GCM: {backend.openssl_version_text()}")
    for newest in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
        whole, resumed = (handshake_ms(newest, is_resumed=is_resumed) for is_resumed in (False, True))
        print(f"handshake {newest.name}: {whole:.2f} ms, with a resumed session {resumed:.2f} ms")


def _in_process(path: str, kind: str, way: str) -> float:
    environment = {**os.environ, "PYTHONPATH": path, "HEADRACE_COMPILED": "0"}
    done = subprocess.run(
        [sys.executable, __file__, kind, way], env=environment, cwd=path, check=True, stdout=subprocess.PIPE
    )
    return float(done.stdout)


def cipher_seconds() -> float:
    """Return the processor seconds in which OpenSSL encrypts a GB in records."""
    cipher, data, nonce = AESGCM(os.urandom(32)), os.urandom(_RECORD), os.urandom(12)
    before, count = _spent(), int(_BYTES / _RECORD)
    for _ in range(count):
        cipher.encrypt(nonce, data, None)
    return (_spent() - before) / (count * _RECORD / 1e9)


class _Ends:
    """A client and a server that exchange encrypted bytes in memory."""

    def __init__(
        self, client: ssl.SSLContext, server: ssl.SSLContext, session: ssl.SSLSession | None = None
    ) -> None:
        self.received, self.to_send, self._at_server, self._to_client = (ssl.MemoryBIO() for _ in range(4))
        self.client = client.wrap_bio(
            self.received, self.to_send, server_hostname="127.0.0.1", session=session
        )
        self.server = server.wrap_bio(self._at_server, self._to_client, server_side=True)

    def shake_hands(self) -> float:
        """Return the processor seconds of the client, including the session ticket of the server."""
        spent = 0.0
        for _ in range(3):
            before = time.thread_time()
            with suppress(ssl.SSLWantReadError):
                self.client.do_handshake()
            spent += time.thread_time() - before
            self._at_server.write(self.to_send.read())
            with suppress(ssl.SSLWantReadError):
                self.server.do_handshake()
            self.received.write(self._to_client.read())
        self.server.write(b"x")
        self.received.write(self._to_client.read())
        self.client.read(1)
        return spent

    def write(self, data: memoryview) -> float:
        """Return the processor seconds in which the client encrypts the data."""
        before = time.thread_time()
        self.client.write(data)
        self.to_send.read()
        return time.thread_time() - before

    def read(self, data: memoryview, buffer: memoryview) -> float:
        """Return the processor seconds in which the client decrypts the data."""
        self.server.write(data)
        encrypted, filled = self._to_client.read(), 0
        before = time.thread_time()
        self.received.write(encrypted)
        while filled < len(data):
            filled += cast(int, self.client.read(len(data) - filled, cast(bytearray, buffer[filled:])))
        return time.thread_time() - before


def _contexts(newest: ssl.TLSVersion) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    client = ssl.create_default_context(cafile=_FILES / "ca.pem")
    client.maximum_version = newest
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(_FILES / "broker.pem")
    return client, server


def memory_seconds() -> tuple[float, float]:
    """Return the processor seconds in which `ssl` decrypts and encrypts a GB between buffers in memory."""
    ends = _Ends(*_contexts(ssl.TLSVersion.TLSv1_3))
    ends.shake_hands()
    data, buffer = memoryview(os.urandom(4 * _RECORD)), memoryview(bytearray(4 * _RECORD))
    count = int(_BYTES / len(data))
    read = sum(ends.read(data, buffer) for _ in range(count))
    write = sum(ends.write(data) for _ in range(count))
    return read / (count * len(data) / 1e9), write / (count * len(data) / 1e9)


def handshake_ms(newest: ssl.TLSVersion, *, is_resumed: bool) -> float:
    """Return the processor time of a client for a handshake in milliseconds."""
    contexts = _contexts(newest)
    spent, session = 0.0, None
    for number in range(_HANDSHAKES + 1):
        ends = _Ends(*contexts, session)
        seconds = ends.shake_hands()
        spent += seconds if number else 0.0  # the first one is never resumed
        assert ends.client.session_reused == (session is not None)
        session = ends.client.session if is_resumed else None
    return spent / _HANDSHAKES * 1000


def _spent() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _serve(ports: Queue[int], is_tls: bool) -> None:
    """Answer short requests with a large response, and large requests with a short one."""
    listener = socket.create_server(("127.0.0.1", 0))
    ports.put(listener.getsockname()[1])
    caller, _ = listener.accept()
    if is_tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(_FILES / "broker.pem")
        caller = context.wrap_socket(caller, server_side=True)
    buffer, large = memoryview(bytearray(2 * _REQUEST)), os.urandom(_RESPONSE)

    def read(size: int) -> memoryview:
        filled = 0
        while filled < size:
            count = caller.recv_into(buffer[filled:size])
            if not count:
                sys.exit()
            filled += count
        return buffer[:size]

    with suppress(ConnectionError, ssl.SSLEOFError):
        while True:
            (size,) = struct.unpack(">i", read(4))
            correlation = bytes(read(size)[4:8])
            answer = large if size < _REQUEST else b""
            caller.sendall(struct.pack(">i", 4 + len(answer)) + correlation)
            caller.sendall(answer)


class Exchange:
    """Requests and responses of one connection until `_BYTES` have passed."""

    def __init__(self, kind: str, port: int, is_tls: bool) -> None:
        self._reads = kind == "read"
        self._body = [b"x" * 200] if self._reads else [b"x" * 200, memoryview(os.urandom(_REQUEST))]
        self._port = port
        self._is_tls = is_tls
        self._connection: Any = None
        self.done = self._open = 0
        clock: Any = importlib.import_module("mirror.adapters.system_clock")
        loops: Any = importlib.import_module("mirror.client.event_loop")
        self._loop = loops.Loop(clock.SystemClock())

    def seconds_per_gb(self) -> float:
        """Return the CPU seconds for a GB, after a warm-up."""
        self._loop.spawn(self._connect())
        while self.done < _WARMING:
            self._loop.run_once(1.0)
        before, done = _spent(), self.done
        while self._open:
            self._loop.run_once(1.0)
        return (_spent() - before) / ((self.done - done) / 1e9)

    async def _connect(self) -> None:
        # The former checkout may have it in another module.
        connect: Any = importlib.import_module("mirror.client.handshake").connect
        clusters: Any = importlib.import_module("mirror.protocol.control.cluster")
        connections: Any = importlib.import_module("mirror.client.connection")
        memory: Any = importlib.import_module("mirror.lane.memory")
        tls: Any = importlib.import_module("mirror.tls")
        context = tls.client_context(str(_FILES / "ca.pem")) if self._is_tls else None
        transport = await connect(self._loop, clusters.Endpoint("127.0.0.1", self._port), context, 10.0)
        pool = memory.BufferPool(2 * _RESPONSE, memory.ByteBudget(10 * _RESPONSE))
        self._connection = connections.Connection(self._loop, transport, pool, "the peer", "bench")
        for _ in range(2 if self._reads else 5):
            self._ask()

    def _ask(self) -> None:
        requests: Any = importlib.import_module("mirror.client.request")
        size = sum(map(len, self._body))
        self._open += 1
        self._connection.send(
            requests.Request(
                *(1, 0, False, False, self._body, size, 60.0, self._on_answer, self._on_failure),
                most_bytes=2 * _RESPONSE,
            )
        )

    def _on_answer(self, frame: memoryview, _slab: object) -> None:
        self._open -= 1
        self.done += len(frame) if self._reads else _REQUEST
        if self.done < _BYTES + _WARMING:
            self._ask()

    def _on_failure(self, error: Exception) -> None:
        raise SystemExit(f"the connection failed: {error}")


def measure(kind: str, way: str) -> float:
    """Return the processor seconds of this process for a GB."""
    ports: Queue[int] = Queue()
    peer = Process(target=_serve, args=(ports, way == "tls"), daemon=True)
    peer.start()
    try:
        return Exchange(kind, ports.get(), way == "tls").seconds_per_gb()
    finally:
        peer.kill()


if __name__ == "__main__":
    sys.path[0] = os.getcwd()
    print(measure(*sys.argv[1:]))
