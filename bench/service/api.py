"""A thousand datastreams created over REST by twenty clients, then listed: time per request and throughput.

Two instances on ZooKeeper and two brokers; the clients use both. Environment: `DATASTREAMS` (1000), `CLIENTS`
(20). The selected topics do not exist, so workers have nothing to copy; the leader still checks each
datastream.

All processes share the cores of one machine, so CPU time is printed for each too: it varies less between runs
than response times. The clients are minimal; a full HTTP client would use as much CPU as ZooKeeper.
"""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from http import HTTPStatus
from http.client import HTTPConnection

import psutil

from bench.coordination.rig.service import Started, started
from bench.mirror.rig.watch import cpu_seconds, family
from stack.process.wait import wait_until

_LISTS = 20
_PATIENCE_SECONDS = 300.0


def main() -> None:
    """Print percentiles of creations and lists. Raise SystemExit if a datastream is missing or duplicated."""
    count, clients = (
        int(os.environ.get(name, usual)) for name, usual in (("DATASTREAMS", 1000), ("CLIENTS", 20))
    )
    with _service(("one", "two")) as site:
        addresses = [instance.address for instance in site.instances.values()]
        names = [f"datastream-{number:05}" for number in range(count)]
        before, began = _cpu(site), time.perf_counter()
        seconds = _created(names, addresses, clients)
        took, after = time.perf_counter() - began, _cpu(site)
        print(f"{count:,} datastreams by {clients} clients in {took:.1f} s ({count / took:.0f} a second)")
        shares = {process: (after[process] - before[process]) / count * 1000 for process in after}
        shown = ", ".join(f"{process} {share:.1f}" for process, share in shares.items())
        print(f"processor milliseconds of a creation: {sum(shares.values()):.1f} ({shown})")
        print(_HEADING)
        _print_row("create", seconds)
        for path in ("/v1/datastreams", "/datastream"):
            for address, name in zip(addresses, ("one", "two"), strict=True):
                found, seconds = _listed(address, path)
                _print_row(f"list {path} at {name}", seconds)
                if sorted(found) != names:
                    raise SystemExit(
                        f"{path} at {name}: {len(found)} listed, {len(set(found))} names of {count}"
                    )
        print("every datastream is listed once by each instance")
        ready = time.perf_counter()
        wait_until(lambda: _are_ready(addresses[0]), _PATIENCE_SECONDS, "every datastream is READY")
        print(f"all are READY {time.perf_counter() - ready:.1f} s after that")
        _, seconds = _listed(addresses[0], "/v1/datastreams")
        _print_row("list /v1/datastreams of READY ones", seconds)


_HEADING = f"  {'milliseconds':36}{'p50':>10}{'p99':>10}{'most':>10}"


def _print_row(label: str, seconds: Sequence[float]) -> None:
    ordered = sorted(seconds)
    shown = (ordered[len(ordered) // 2], ordered[-max(1, len(ordered) // 100)], ordered[-1])
    print(f"  {label:36}" + "".join(f"{one * 1000:10.1f}" for one in shown), flush=True)


def _created(names: Sequence[str], addresses: Sequence[str], clients: int) -> list[float]:
    """Return the seconds that each creation took."""
    waiting, seconds, failures = iter(names), list[float](), list[str]()
    lock = threading.Lock()

    def run(number: int) -> None:
        with closing(_client(addresses[number % len(addresses)])) as client:
            while True:
                with lock:
                    name = next(waiting, None)
                if name is None:
                    return
                body = json.dumps(_body(name))
                began = time.perf_counter()
                status, answer = _answer(client, "POST", "/v1/datastreams", body)
                seconds.append(time.perf_counter() - began)
                if status != HTTPStatus.CREATED:
                    failures.append(answer.decode())

    _side_by_side(run, clients)
    if failures:
        raise SystemExit(f"{len(failures)} creations failed; first error: {failures[0]}")
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
    """Return the names of the last list, and the seconds of each list."""
    seconds, names = [], list[str]()
    with closing(_client(address)) as client:
        for _ in itertools.repeat(None, _LISTS):
            began = time.perf_counter()
            status, content = _answer(client, "GET", path)
            seconds.append(time.perf_counter() - began)
            assert status == HTTPStatus.OK, content
            found = json.loads(content)
            names = [one["name"] for one in (found if isinstance(found, list) else found["elements"])]
    return names, seconds


def _are_ready(address: str) -> bool:
    with closing(_client(address)) as client:
        _, content = _answer(client, "GET", "/v1/datastreams")
    return all(datastream["status"] == "READY" for datastream in json.loads(content))


def _client(address: str) -> HTTPConnection:
    return HTTPConnection(address, timeout=60)


def _answer(client: HTTPConnection, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
    """Return status and content; the connection stays open."""
    client.request(method, path, body, {"Content-Type": "application/json"})
    answer = client.getresponse()
    return answer.status, answer.read()


def _cpu(site: Started) -> Mapping[str, float]:
    """Return the CPU seconds so far of all processes involved in a creation."""
    instances = [instance.pid for instance in site.instances.values()]
    brokers = [node.pid for cluster in (site.pair.source, site.pair.target) for node in cluster.nodes]
    own = os.times()
    return {
        "instances": sum(map(_family_seconds, instances)),
        "ZooKeeper": _family_seconds(site.store.servers["zookeeper"].pid),
        "brokers": sum(map(_family_seconds, brokers)),
        "clients": own.user + own.system,
    }


def _family_seconds(pid: int) -> float:
    return sum(map(cpu_seconds, family(psutil.Process(pid))))


@contextmanager
def _service(names: Sequence[str]) -> Iterator[Started]:
    """Run the instances for the context, and wait until all have joined."""
    with ExitStack() as stack:
        site = started(stack, names, {})
        one = site.instances[names[0]].rest
        wait_until(lambda: len(one.get("/v1/instances")) == len(names), 60, "all instances joined")
        yield site
