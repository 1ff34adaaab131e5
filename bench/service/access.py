"""Cost of authentication, and response times of /health and /metrics while an instance is attacked.

Two instances of a service on ZooKeeper and two brokers: one knows 1,002 tokens, the other has authentication
off. The same request is sent with and without a token, in turn, over persistent connections, 3,000 times
(`CALLS`) each. Each kind of attack then runs for 5 seconds (`SECONDS`) in 8 threads (`ATTACKERS`) of another
process, which shares the cores of the machine with the instance and its servers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from http import HTTPStatus
from http.client import HTTPConnection
from typing import Final

from bench.service.rig.attackers import ATTACKS, Target, attacked
from bench.service.rig.guarded import Guarded, guarded, percentiles

_PATHS: Final = ("/health", "/v1/health", "/metrics")
_PAUSE_SECONDS: Final = 0.005
_WARM: Final = 200


def main() -> None:
    """Print the cost of authentication, and response time percentiles of each path under each attack."""
    calls, seconds, attackers = (
        int(os.environ.get(name, usual))
        for name, usual in (("CALLS", 3000), ("SECONDS", 5), ("ATTACKERS", 8))
    )
    with guarded() as site:
        _print_cost(site, calls)
        print(f"\n{attackers} attackers, {seconds} s each; health and metrics without credentials")
        print(f"  {'milliseconds':34}{'asked':>7}{'p50':>9}{'p99':>9}{'most':>9}{'attacks refused':>17}")
        host, _, port = site.instance.address.rpartition(":")
        target = Target(host, int(port), site.viewer, site.operator)
        _print_latency("nothing", _measured(target, seconds), 0)
        for name in ATTACKS:
            with attacked(target, name, attackers) as refused:
                taken = _measured(target, seconds)
            _print_latency(name, taken, refused())


def _print_cost(site: Guarded, calls: int) -> None:
    asking, other = site.instance.address, site.open_instance.address
    token = {"Authorization": f"Bearer {site.viewer}"}
    print(f"  {'microseconds of a call':34}{'without':>11}{'with':>11}{'more':>11}{'p99':>11}{'with':>11}")
    for label, path, place in (
        ("GET /v1/health of one instance", "/v1/health", asking),
        ("GET /v1/datastreams/bench of two", "/v1/datastreams/bench", other),
    ):
        without, with_token = _alternating((place, path, {}), (asking, path, token), calls)
        shown = (without[0], with_token[0], with_token[0] - without[0], without[1], with_token[1])
        print(f"  {label:34}" + "".join(f"{one * 1000:11.0f}" for one in shown), flush=True)


def _alternating(
    one: tuple[str, str, Mapping[str, str]], other: tuple[str, str, Mapping[str, str]], calls: int
) -> tuple[tuple[float, float, float], ...]:
    """Return response time percentiles in ms of two requests sent alternately, each given by address, path
    and headers."""
    with ExitStack() as stack:
        clients = [
            (stack.enter_context(closing(HTTPConnection(address, timeout=60))), path, headers)
            for address, path, headers in (one, other)
        ]
        times: list[list[float]] = [[], []]
        for number in range(_WARM + calls):
            for (client, path, headers), found in zip(clients, times, strict=True):
                took = _milliseconds(client, path, headers)
                if number >= _WARM:
                    found.append(took)
    return tuple(map(percentiles, times))


def _measured(target: Target, seconds: float) -> Mapping[str, list[float]]:
    """Return the response times of each path in ms, over one persistent connection."""
    found: dict[str, list[float]] = {path: [] for path in _PATHS}
    until = time.monotonic() + seconds
    with closing(HTTPConnection(target.host, target.port, timeout=60)) as client:
        while time.monotonic() < until:
            for path, times in found.items():
                times.append(_milliseconds(client, path, {}))
            time.sleep(_PAUSE_SECONDS)
    return found


def _milliseconds(client: HTTPConnection, path: str, headers: Mapping[str, str]) -> float:
    """Return the ms of a request. Raises SystemExit if the status is not 200."""
    began = time.perf_counter()
    client.request("GET", path, headers=dict(headers))
    answer = client.getresponse()
    body = answer.read()
    took = (time.perf_counter() - began) * 1000
    if answer.status != HTTPStatus.OK:
        raise SystemExit(f"{path}: {answer.status} {body[:500]!r}")
    return took


def _print_latency(name: str, taken: Mapping[str, list[float]], refused: int) -> None:
    for path, times in taken.items():
        shown = "".join(f"{percentile:9.1f}" for percentile in percentiles(times))
        more = f"{refused:17,}" if path == _PATHS[0] and refused else ""
        print(f"  {f'{name}: {path}':34}{len(times):7}{shown}{more}", flush=True)
