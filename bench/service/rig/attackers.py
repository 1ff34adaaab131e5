"""Attackers of an instance, running concurrently in a separate process.

Each kind of attack is a function that is called repeatedly and returns the number of rejected requests.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from multiprocessing import get_context
from multiprocessing.synchronize import Event
from typing import Any, Final, NamedTuple


class Target(NamedTuple):
    """Address of the attacked instance, and tokens for it."""

    host: str
    port: int
    viewer: str
    operator: str


@contextmanager
def attacked(target: Target, name: str, attackers: int) -> Iterator[Callable[[], int]]:
    """Run one of `ATTACKS` for the context; yield a function that returns the requests rejected so far."""
    context = get_context("spawn")
    begun, over, count = context.Event(), context.Event(), context.Value("q", 0)
    process = context.Process(target=_attack, args=(target, name, attackers, begun, over, count))
    process.start()
    begun.wait()
    try:
        yield lambda: int(count.value)
    finally:
        over.set()
        process.join()


def _attack(target: Target, name: str, attackers: int, begun: Event, over: Event, count: Any) -> None:
    """Run the attack threads, in a separate process."""
    attack = ATTACKS[name]

    def run() -> None:
        while not over.is_set():
            with suppress(OSError, HTTPException):
                done = attack(target)
                with count.get_lock():
                    count.value += done
            begun.set()

    threads = [threading.Thread(target=run) for _ in range(attackers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _calls(
    target: Target, method: str, path: str, body: bytes | None = None, token: str = "", count: int = 50
) -> int:
    """Send `count` equal requests over one connection; return the number rejected."""
    refused = 0
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    with closing(HTTPConnection(target.host, target.port, timeout=60)) as client:
        for _ in range(count):
            client.request(method, path, body, headers)
            answer = client.getresponse()
            answer.read()
            refused += answer.status >= 400
            if answer.will_close:
                break
    return refused


def _without_token(target: Target) -> int:
    return _calls(target, "GET", "/v1/datastreams")


def _wrong_token(target: Target) -> int:
    return _calls(target, "GET", "/v1/datastreams", token=f"hr_00000000_{'0' * 64}")


def _wrong_role(target: Target) -> int:
    return _calls(target, "POST", "/v1/datastreams/bench/pause", b"{}", target.viewer)


def _reads(path: str, target: Target) -> int:
    return _calls(target, "GET", path, token=target.viewer, count=10)


def _bodies(body: bytes, target: Target) -> int:
    return _calls(target, "POST", "/v1/datastreams", body, target.operator, count=2)


def _slow_head(target: Target) -> int:
    return _slow(_HEAD + b"X-", target)


def _slow_body(target: Target) -> int:
    return _slow(
        _HEAD + f"Authorization: Bearer {target.operator}\r\nContent-Length: 1000\r\n\r\n".encode(), target
    )


def _slow(part: bytes, target: Target) -> int:
    """Open connections that send a byte now and then."""
    with ExitStack() as stack:
        found = [
            stack.enter_context(socket.create_connection((target.host, target.port), 60)) for _ in range(50)
        ]
        for one in found:
            one.sendall(part)
        for _ in range(10):
            time.sleep(0.1)
            for one in found:
                one.sendall(b"x")
    return len(found)


def _large(target: Target) -> int:
    """Send 100 MiB; the instance accepts less than one."""
    with closing(HTTPConnection(target.host, target.port, timeout=60)) as client:
        client.putrequest("POST", "/v1/datastreams")
        client.putheader("Authorization", f"Bearer {target.operator}")
        client.putheader("Content-Length", str(100 * 2**20))
        client.endheaders()
        with suppress(OSError):
            for _ in range(1_600):
                client.send(b" " * 2**16)
        return 1


def _definition(**more: Any) -> bytes:
    body = {
        "name": "hostile",
        "source": {"cluster": "source", "topics": "nothing"},
        "destination": {"cluster": "destination"},
        "owner": "bench",
    }
    return json.dumps(body | more).encode()


_MANY: Final = ",".join(f"h{number}.example:9092" for number in range(150))
_HARD: Final = "((a{1,9}){1,9}){1,9}(" + "|".join("a" * size for size in range(1, 60)) + ")+!"
_HEAD: Final = b"POST /v1/datastreams HTTP/1.1\r\nHost: localhost\r\n"

ATTACKS: Final[Mapping[str, Callable[[Target], int]]] = {
    "no token": _without_token,
    "wrong token": _wrong_token,
    "wrong role": _wrong_role,
    "slow head": _slow_head,
    "slow body": _slow_body,
    "100 MB": _large,
    "nested": partial(_bodies, b"[" * 899_000),
    "numbers": partial(_bodies, b"[" + b"1," * 449_000 + b"1]"),
    "addresses": partial(_bodies, _definition(source={"cluster": _MANY, "topics": "a"})),
    "expression": partial(
        _bodies,
        _definition(name="h", source={"cluster": "source", "topics": _HARD}, limits={"min_tasks": 10**18}),
    ),
    "events": partial(_reads, "/v1/events?limit=1000"),
    "lanes": partial(_reads, "/v1/lanes"),
    "progress": partial(_reads, "/v1/datastreams/bench/progress"),
}
