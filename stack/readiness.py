"""Checks whether servers are ready. A check returns an empty text if so, otherwise the reason."""

from __future__ import annotations

import http.client
import socket
import struct
from typing import Final

from stack.ports import LOOPBACK

_PATIENCE_SECONDS: Final = 5.0
_METADATA: Final = 3
_API_VERSIONS: Final = 18
_CORRELATION: Final = 7


def zookeeper(port: int) -> str:
    """Check with `ruok` that ZooKeeper runs, and with `srvr` that it has a role and therefore serves
    sessions."""
    try:
        if _four_letters(port, b"ruok") != "imok":
            return "ZooKeeper does not respond to ruok with imok"
        answer = _four_letters(port, b"srvr")
    except OSError as error:
        return f"ZooKeeper does not respond ({error})"
    return "" if "\nMode: " in answer else (answer.strip().partition("\n")[0] or "ZooKeeper has no role yet")


def zookeeper_role(port: int) -> str:
    """Return `standalone`, `leader` or `follower`; "" if ZooKeeper does not serve sessions."""
    try:
        answer = _four_letters(port, b"srvr")
    except OSError:
        return ""
    return answer.partition("\nMode: ")[2].partition("\n")[0]


def zookeeper_sessions(port: int) -> int:
    """Return the number of sessions that use this server. Raises OSError."""
    return _four_letters(port, b"cons").count("sid=0x")


def _four_letters(port: int, word: bytes) -> str:
    with socket.create_connection((LOOPBACK, port), _PATIENCE_SECONDS) as connection:
        connection.sendall(word)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    return received.decode("utf-8", errors="replace")


def kafka(port: int, brokers: int) -> str:
    """Request ApiVersions, then Metadata: the cluster must list all its brokers and a controller."""
    try:
        with socket.create_connection((LOOPBACK, port), _PATIENCE_SECONDS) as connection:
            if struct.unpack_from(">h", _request(connection, _API_VERSIONS, 0, b""))[0]:
                return "Kafka rejected ApiVersions"
            listed, controller = _brokers_in(_request(connection, _METADATA, 1, struct.pack(">i", 0)))
    except (OSError, struct.error) as error:
        return f"Kafka does not respond ({error})"
    if controller < 0:
        return "Kafka has no controller yet"
    return "" if listed >= brokers else f"{listed} of {brokers} Kafka brokers are registered"


def _request(connection: socket.socket, key: int, version: int, body: bytes) -> bytes:
    """Send a request in Kafka's protocol, header version 1; return the response without its correlation
    id."""
    client = b"headrace-stack"
    header = struct.pack(f">hhih{len(client)}s", key, version, _CORRELATION, len(client), client)
    connection.sendall(struct.pack(">i", len(header) + len(body)) + header + body)
    (size,) = struct.unpack(">i", _exactly(connection, 4))
    return _exactly(connection, size)[4:]


def _exactly(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ConnectionResetError("the connection was closed")
        received += chunk
    return received


def _brokers_in(response: bytes) -> tuple[int, int]:
    """Return the number of brokers and the controller's id (or -1) from a Metadata response of version 1.

    The response contains an array of (id int32, host string, port int32, rack nullable string), then the
    controller's id.
    """
    (count,) = struct.unpack_from(">i", response)
    position = 4
    for _ in range(count):
        position += 4
        for after in (4, 0):  # the host is followed by the port, the rack by nothing
            (length,) = struct.unpack_from(">h", response, position)
            position += 2 + max(0, length) + after
    return count, struct.unpack_from(">i", response, position)[0]


def http_health(port: int, server: str) -> str:
    """Check that `GET /health` returns 200."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=_PATIENCE_SECONDS)
    try:
        connection.request("GET", "/health")
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"{server} does not respond ({error})"
    finally:
        connection.close()
    return "" if status == http.client.OK else f"{server} returned {status} for /health"
