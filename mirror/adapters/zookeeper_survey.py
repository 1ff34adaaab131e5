"""Inspects the ZooKeeper servers with the four-letter words `srvr` and `dirs`.

Four-letter commands need no session and no authentication. A server responds only to words in its
`4lw.commands.whitelist`, by default only `srvr`. No four-letter word reports the free disk space.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kazoo.hosts import collect_hosts

from mirror.adapters.settings import ZooKeeperSettings
from mirror.adapters.zookeeper_access import tls_connection, tls_context
from mirror.model.clusters import address_of

_MOST_BYTES: Final = 65_536
_CHUNK: Final = 4_096

Connect = Callable[[tuple[str, int], float], socket.socket]
"""Callback that connects to a host and port within a number of seconds. Raises OSError."""


class ServerFacts(NamedTuple):
    """State of a ZooKeeper server. Fields are None or empty if the server does not report them."""

    address: str
    problem: str = ""
    """Reason why the server could not be queried."""
    is_serving: bool = True
    """False if the server runs but serves no sessions, because the ensemble has no quorum."""
    release: str = ""
    mode: str = ""
    """Mode of the server: `leader`, `follower`, `observer` or `standalone`."""
    nodes: int | None = None
    snapshot_bytes: int | None = None
    log_bytes: int | None = None
    """Size of the server's transaction logs in bytes."""


def survey_servers(settings: ZooKeeperSettings, seconds: float) -> tuple[ServerFacts, ...]:
    """Query every server in the settings, each within `seconds`.

    Raises ConfigError for unusable certificates.
    """
    connect = _connector(settings)
    servers, _ = collect_hosts(settings.servers)
    return tuple(_server_facts(connect, host, int(port), seconds) for host, port in sorted(servers))


def server_facts(address: str, srvr: str, dirs: str) -> ServerFacts:
    """Parse the responses to `srvr` and `dirs`. Rejections and the output of other programs are ignored."""
    if "not currently serving requests" in srvr:
        return ServerFacts(address, is_serving=False)
    state, sizes = _fields(srvr), _fields(dirs)
    return ServerFacts(
        address,
        release=state.get("zookeeper version", "").partition("-")[0].partition(",")[0],
        mode=state.get("mode", ""),
        nodes=_number(state, "node count"),
        snapshot_bytes=_number(sizes, "datadir_size"),
        log_bytes=_number(sizes, "logdir_size"),
    )


def _connector(settings: ZooKeeperSettings) -> Connect:
    if not settings.security.tls:
        return socket.create_connection
    context = tls_context(settings.security)
    return lambda address, timeout: tls_connection(context, address, address[0], timeout)


def _server_facts(connect: Connect, host: str, port: int, seconds: float) -> ServerFacts:
    address, until = address_of(host, port), time.monotonic() + seconds
    try:
        srvr, dirs = (_answer(connect, (host, port), word, until) for word in (b"srvr", b"dirs"))
    except OSError as error:
        return ServerFacts(address, problem=str(error))
    return server_facts(address, srvr, dirs)


def _answer(connect: Connect, address: tuple[str, int], word: bytes, until: float) -> str:
    """Send a four-letter word to a server, and return the response. Raises OSError.

    The server ends the response by closing the connection.
    """
    found = b""
    with connect(address, _left(until)) as connection:
        connection.sendall(word)
        while len(found) < _MOST_BYTES:
            connection.settimeout(_left(until))
            if not (chunk := connection.recv(_CHUNK)):
                break
            found += chunk
    return found.decode(errors="replace")


def _left(until: float) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


def _fields(text: str) -> Mapping[str, str]:
    """Parse lines of the form `Name: value` into a dictionary. Names are converted to lower case."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {name.strip().lower(): value.strip() for name, colon, value in pairs if colon}


def _number(fields: Mapping[str, str], name: str) -> int | None:
    value = fields.get(name, "")
    return int(value) if value.isascii() and value.isdigit() else None
