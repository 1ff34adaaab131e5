"""Gaps in the delivery of partitions when instances are killed, moved or restarted, and after server outages.

Environment: `STORE` (`zookeeper`, or `kafka`: three brokers), `RUNS` (10), `OUTAGE_SECONDS` (5,20,60) and
`BENCH_CASES`. Each figure is the minimum, median and maximum of its runs. Cases: planned, killed,
store-killed, source-frozen, destination-killed …
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

from bench.coordination.rig.flow import RATE
from bench.coordination.rig.outages import Kind, outage
from bench.coordination.rig.service import PARTITIONS, Service, service
from bench.mirror.rig.clusters import chosen
from stack.process.wait import wait_until

_NAMES = ("one", "two", "three")
_SERVERS = ("store", "source", "destination")
_STORE = os.environ.get("STORE", "zookeeper")
_WINDOW = 3.0


def _row(label: str, values: list[float], required: str) -> None:
    figures = min(values), statistics.median(values), max(values)
    columns = " ".join(f"{figure:8.2f}" for figure in figures)
    print(f"  {label:70} {columns}   {required:>12}   {len(values):3} runs", flush=True)


def _leader_killed(running: Service) -> tuple[float, float]:
    """Return the seconds until a plan without the leader, and the longest gap of other partitions."""
    leader = running.leader()
    innocent = [number for number, home in running.homes().items() if home != leader]
    began = time.monotonic()
    running.instances[leader].kill()
    wait_until(lambda: leader not in running.homes(leader).values(), 60, "a plan without the leader")
    took = time.monotonic() - began
    silence = running.flow.longest_silence(innocent, began, time.monotonic())
    running.instances[leader].start()
    running.wait_until_spread()
    return took, silence


def _instance_killed(running: Service) -> float:
    """Return the longest gap of the partitions of a killed instance."""
    leader = running.leader()
    victim = next(name for name in _NAMES if name != leader)
    theirs = [number for number, home in running.homes().items() if home == victim]
    began = time.monotonic()
    running.instances[victim].kill()
    wait_until(lambda: victim not in running.homes(victim).values(), 60, "a plan without it")
    moment = time.monotonic()
    wait_until(lambda: running.flow.flows_since(moment), 60, "all partitions are copied")
    silence = running.flow.longest_silence(theirs, began, time.monotonic())
    running.instances[victim].start()
    running.wait_until_spread()
    return silence


def _moved(running: Service, number: int) -> tuple[float, float, float]:
    """Return the gap of a moved partition, and the longest gap of other partitions during and before the
    move."""
    homes = running.homes()
    partition = number % PARTITIONS
    target = next(name for name in _NAMES if name != homes[partition])
    others = [number for number in homes if number != partition]
    calm = time.monotonic()
    wait_until(lambda: time.monotonic() - calm > _WINDOW, 2 * _WINDOW, "a window without a move")
    began = time.monotonic()
    quiet = running.flow.longest_silence(others, calm, began)
    body = {"partitions": [f"orders-{partition}"], "instance": target}
    running.instances[target].rest.post("/v1/datastreams/bench/move", body)
    wait_until(lambda: running.homes().get(partition) == target, 30, "the move is planned")
    wait_until(lambda: time.monotonic() - began > _WINDOW, 2 * _WINDOW, "a window with a move")
    until = time.monotonic()
    flow = running.flow
    return flow.silence(partition, began, until), flow.longest_silence(others, began, until), quiet


def _rolling_restart(running: Service) -> float:
    """Return the longest gap of any partition during a rolling restart of all instances."""
    began = time.monotonic()
    for name, instance in running.instances.items():
        assert instance.terminate(60) == 0, name
        instance.start()
        running.wait_until_spread()
    return running.flow.longest_silence(range(PARTITIONS), began, time.monotonic())


def _several(runs: int, measure: Callable[[int], tuple[float, ...]]) -> list[list[float]]:
    return [list(column) for column in zip(*(measure(number) for number in range(runs)), strict=True)]


def _planned(runs: int) -> None:
    with service(_NAMES, _STORE) as running:
        moved = _several(runs, lambda number: _moved(running, number))
        _row("planned move: gap of the moved partition", moved[0], "< 1")
        _row("planned move: longest gap of the other partitions", moved[1], "as next row")
        _row("no move: longest gap of the same partitions", moved[2], "")
        _row(
            "rolling restart of all instances: longest gap of any partition",
            _several(runs, lambda _: (_rolling_restart(running),))[0],
            "< 2",
        )
        _end(running, "missing, 0 repeated")


def _killed(runs: int) -> None:
    with service(_NAMES, _STORE) as running:
        killed = _several(runs, lambda _: _leader_killed(running))
        _row("leader killed: time until a new plan is in effect", killed[0], "< 8")
        _row("leader killed: longest gap of partitions on other instances", killed[1], "")
        _row(
            "instance killed: longest gap of its partitions",
            _several(runs, lambda _: (_instance_killed(running),))[0],
            "< 15",
        )
        _end(running, "missing")


def _outages(name: str, kind: Kind, runs: int, seconds: list[float]) -> list[list[float]]:
    """Return, for each length of outage, the seconds from the return of the server until all partitions are
    copied."""
    lasts: list[list[float]] = []
    with service(_NAMES, _STORE) as running:
        for second in seconds:
            found = []
            for _ in range(runs):
                found.append(outage(running.flow, running.server(name), kind, second))
                running.wait_until_spread()
            label = f"{name} {kind} for {second:.0f} s: from its return until all partitions are copied"
            lasts.append([each.last for each in found])
            _row(label, lasts[-1], "<= 10")
            _row("  from its return until the first partition is copied", [each.first for each in found], "")
            if name == "store":
                _row(
                    "  time for which all partitions were copied without the store",
                    [each.flowed for each in found],
                    "lease time",
                )
        _end(running, "missing")
    return lasts


def _print_outages(found: dict[str, list[list[float]]], runs: int, seconds: list[float]) -> None:
    """Print the rows of all outages side by side."""
    print(f"\nseconds from the return of a server until all partitions are copied, {runs} runs of each")
    print(
        f"  {'outage and its length':22}"
        + "".join(f"{f'{second:.0f} s':>22}" for second in seconds)
        + f"{'required':>12}"
    )
    print(" " * 24 + f"{'min median    max':>22}" * len(seconds))
    for label, lasts in found.items():
        columns = (f"{min(last):8.1f}{statistics.median(last):7.1f}{max(last):7.1f}" for last in lasts)
        print(f"  {label:22}{''.join(columns)}{'<= 10':>12}")


def _end(running: Service, required: str) -> None:
    running.flow.settle(30)
    sent, missing, repeated = running.flow.counts()
    print(f"  {sent} records so far: {missing} missing, {repeated} repeated (required: 0 {required})")


def main() -> None:
    """Run the cases of `BENCH_CASES` (default: all), each with three new instances and new servers."""
    runs = int(os.environ.get("RUNS", "10"))
    seconds = [float(one) for one in os.environ.get("OUTAGE_SECONDS", "5,20,60").split(",")]
    print(
        f"{len(_NAMES)} instances, {PARTITIONS} partitions, {RATE} records/s each, session timeout 6 s,"
        f" {_STORE}"
    )
    heading = "seconds (gap: time in which a partition gets no record)"
    print(f"  {heading:70} {'min':>8} {'median':>8} {'max':>8}   {'required':>12}")
    away = {f"{name}-{kind}": (name, kind) for name in _SERVERS for kind in Kind}
    found: dict[str, list[list[float]]] = {}
    for case in chosen("planned", "killed", *away):
        if case == "planned":
            _planned(runs)
        elif case == "killed":
            _killed(runs)
        else:
            name, kind = away[case]
            found[f"{name} {kind}"] = _outages(name, kind, runs, seconds)
    if found:
        _print_outages(found, runs, seconds)
