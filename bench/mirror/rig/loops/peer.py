"""The peer of the event loop benchmark: a source that answers fetches, a target that accepts batches.

Both use Kafka framing: four bytes of size, then at least a correlation id. The request header is that of
`mirror.protocol.frame`: api key and version, two bytes each, then the correlation id.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
from contextlib import suppress
from typing import Final

HEAD: Final = struct.Struct(">ihhi")
"""Size, api key, version and correlation id of a request."""
ANSWER: Final = struct.Struct(">ii")
"""Size and correlation id of a response."""
ACKNOWLEDGEMENT_BYTES: Final = 64


def listen() -> tuple[socket.socket, int]:
    """Return a socket listening on a free port of the loopback interface, and the port."""
    sock = socket.create_server(("127.0.0.1", 0))
    port: int = sock.getsockname()[1]
    return sock, port


def serve(response_bytes: int) -> None:
    """Print the ports of source and target, then answer requests until standard input closes.

    The source answers each request with a frame of `response_bytes` (body and correlation id).
    """
    source, source_port = listen()
    target, target_port = listen()
    body = bytes(response_bytes - 4)
    for sock, answer in ((source, body), (target, bytes(ACKNOWLEDGEMENT_BYTES))):
        threading.Thread(target=_accept, args=(sock, answer), daemon=True).start()
    print(source_port, target_port, flush=True)
    sys.stdin.read()


def _accept(sock: socket.socket, answer: bytes) -> None:
    while True:
        connection, _ = sock.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_answer, args=(connection, answer), daemon=True).start()


def _answer(connection: socket.socket, answer: bytes) -> None:
    head = bytearray(HEAD.size)
    sink = memoryview(bytearray(1 << 20))
    with suppress(ConnectionError), connection:
        while _fill(connection, memoryview(head)):
            size, _, _, correlation = HEAD.unpack(head)
            rest = size + 4 - HEAD.size
            while rest:
                received = connection.recv_into(sink[: min(rest, len(sink))])
                if not received:
                    return
                rest -= received
            connection.sendmsg([ANSWER.pack(len(answer) + 4, correlation)])
            connection.sendall(answer)


def _fill(connection: socket.socket, view: memoryview) -> bool:
    filled = 0
    while filled < len(view):
        received = connection.recv_into(view[filled:])
        if not received:
            return False
        filled += received
    return True


if __name__ == "__main__":
    serve(int(sys.argv[1]))
