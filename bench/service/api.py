"""A thousand datastreams created over REST by twenty clients, then listed: how long each takes, and how many.

Two instances on a ZooKeeper and two brokers; clients ask both in turn. In the environment: `DATASTREAMS`
(1000), `CLIENTS` (20). The topics that they select do not exist, so that the workers have nothing to copy;
the leader looks after each all the same.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import httpx

from bench.coordination.rig.service import started
from stack.wait import wait_until
from tests.running import RunningInstance

_LISTS = 20
_PATIENCE_SECONDS = 300.0


def main() -> None:
    """Print percentiles of creations and of lists. Raises SystemExit where one is lost or doubled."""
    count, clients = (
        int(os.environ.get(name, usual)) for name, usual in (("DATASTREAMS", 1000), ("CLIENTS", 20))
    )
    with _service(("one", "two")) as instances:
        addresses = [one.address for one in instances]
        names = [f"datastream-{number:05}" for number in range(count)]
        began = time.perf_counter()
        seconds = _created(names, addresses, clients)
        took = time.perf_counter() - began
        print(f"{count:,} datastreams by {clients} clients in {took:.1f} s ({count / took:.0f} a second)")
        print(_HEADING)
        _say("create", seconds)
        for path in ("/v1/datastreams", "/datastream"):
            for address, name in zip(addresses, ("one", "two"), strict=True):
                found, seconds = _listed(address, path)
                _say(f"list {path} at {name}", seconds)
                if sorted(found) != names:
                    raise SystemExit(
                        f"{path} at {name}: {len(found)} listed, {len(set(found))} names of {count}"
                    )
        print("every datastream is listed once by each instance")
        ready = time.perf_counter()
        wait_until(lambda: _are_ready(addresses[0]), _PATIENCE_SECONDS, "every datastream is READY")
        print(f"all are READY {time.perf_counter() - ready:.1f} s after that")
        _, seconds = _listed(addresses[0], "/v1/datastreams")
        _say("list /v1/datastreams of READY ones", seconds)


_HEADING = f"  {'milliseconds':36}{'p50':>10}{'p99':>10}{'most':>10}"


def _say(what: str, seconds: Sequence[float]) -> None:
    ordered = sorted(seconds)
    shown = (ordered[len(ordered) // 2], ordered[-max(1, len(ordered) // 100)], ordered[-1])
    print(f"  {what:36}" + "".join(f"{one * 1000:10.1f}" for one in shown), flush=True)


def _created(names: Sequence[str], addresses: Sequence[str], clients: int) -> list[float]:
    """Seconds of each creation."""
    waiting, seconds, failures = iter(names), list[float](), list[str]()
    lock = threading.Lock()

    def run(number: int) -> None:
        with httpx.Client(base_url=f"http://{addresses[number % len(addresses)]}", timeout=60) as client:
            while True:
                with lock:
                    name = next(waiting, None)
                if name is None:
                    return
                began = time.perf_counter()
                answer = client.post("/v1/datastreams", json=_body(name))
                seconds.append(time.perf_counter() - began)
                if answer.status_code != httpx.codes.CREATED:
                    failures.append(answer.text)

    _side_by_side(run, clients)
    if failures:
        raise SystemExit(f"{len(failures)} creations refused, the first: {failures[0]}")
    return seconds


def _side_by_side(run: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _body(name: str) -> dict[str, object]:
    return {
        "name": name,
        "source": {"cluster": "source", "topics": f"{name}-.*"},
        "destination": {"cluster": "destination"},
        "owner": "bench",
    }


def _listed(address: str, path: str) -> tuple[list[str], list[float]]:
    """The names of the last list, and the seconds of each."""
    seconds, names = [], list[str]()
    with httpx.Client(base_url=f"http://{address}", timeout=60) as client:
        for _ in itertools.repeat(None, _LISTS):
            began = time.perf_counter()
            content = client.get(path)
            seconds.append(time.perf_counter() - began)
            found = content.raise_for_status().json()
            names = [one["name"] for one in (found if isinstance(found, list) else found["elements"])]
    return names, seconds


def _are_ready(address: str) -> bool:
    found = httpx.get(f"http://{address}/v1/datastreams", timeout=60).json()
    return all(one["status"] == "READY" for one in found)


@contextmanager
def _service(names: Sequence[str]) -> Iterator[list[RunningInstance]]:
    """They end with the context."""
    with ExitStack() as stack:
        instances = list(started(stack, names, {}).instances.values())
        wait_until(lambda: len(instances[0].rest.get("/v1/instances")) == len(instances), 60, "all are here")
        yield instances
