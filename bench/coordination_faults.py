"""Silence of partitions when leaders or instances are killed, moved, restarted, or ZooKeeper is away.

`RUNS` (10) and `OUTAGE_SECONDS` (60) in the environment; each figure is the median and the worst of its runs.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable

from bench.coordinating.flow import RATE
from bench.coordinating.service import PARTITIONS, Service, service
from stack.waiting import wait_until

_NAMES = ("one", "two", "three")
_WINDOW = 3.0


def _row(what: str, values: list[float], required: str) -> None:
    median, worst = statistics.median(values), max(values)
    print(f"  {what:58} {median:8.2f} {worst:8.2f}   {required:>12}   {len(values):3} runs", flush=True)


def _leader_killed(running: Service) -> tuple[float, float]:
    """Seconds until a plan without it is in force, and the longest silence of what it did not run."""
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
    """The longest silence of its partitions."""
    leader = running.leader()
    victim = next(name for name in _NAMES if name != leader)
    theirs = [number for number, home in running.homes().items() if home == victim]
    began = time.monotonic()
    running.instances[victim].kill()
    wait_until(lambda: victim not in running.homes(victim).values(), 60, "a plan without it")
    moment = time.monotonic()
    wait_until(lambda: running.flow.flows_since(moment), 60, "everything flows")
    silence = running.flow.longest_silence(theirs, began, time.monotonic())
    running.instances[victim].start()
    running.wait_until_spread()
    return silence


def _moved(running: Service, turn: int) -> tuple[float, float, float]:
    """Silence of a moved partition, of all others meanwhile, and of the others without a move."""
    homes = running.homes()
    partition = turn % PARTITIONS
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
    """The longest silence of any partition while all instances are restarted one by one."""
    began = time.monotonic()
    for name, instance in running.instances.items():
        assert instance.terminate(60) == 0, name
        instance.start()
        running.wait_until_spread()
    return running.flow.longest_silence(range(PARTITIONS), began, time.monotonic())


def _zookeeper_away(running: Service, seconds: float) -> tuple[float, float]:
    """Seconds from its start until every partition flows again, and for how long it flowed without it."""
    began = time.monotonic()
    running.zookeeper.kill()
    wait_until(
        lambda: time.monotonic() - began > seconds, 2 * seconds, "the outage is over", interval_seconds=1
    )
    flowed = running.flow.longest_silence(range(PARTITIONS), began, time.monotonic())
    back = time.monotonic()
    running.zookeeper.start()
    wait_until(lambda: running.flow.flows_since(back), 60, "everything flows again")
    took = time.monotonic() - back
    running.wait_until_spread()
    return took, seconds - flowed


def _several(runs: int, measure: Callable[[int], tuple[float, ...]]) -> list[list[float]]:
    return [list(column) for column in zip(*(measure(turn) for turn in range(runs)), strict=True)]


def main() -> None:
    """All of them, one after the other, on the same three instances."""
    runs, outage = int(os.environ.get("RUNS", "10")), float(os.environ.get("OUTAGE_SECONDS", "60"))
    print(f"{len(_NAMES)} instances, {PARTITIONS} partitions, {RATE} records/s each, session timeout 6 s")
    print(f"  {'seconds':58} {'median':>8} {'worst':>8}   {'required':>12}")
    with service(_NAMES) as running:
        moved = _several(runs, lambda turn: _moved(running, turn))
        _row("a planned move: silence of the moved partition", moved[0], "< 1")
        _row("  of the others meanwhile", moved[1], "as below")
        _row("  of the others without a move", moved[2], "")
        _row(
            "rolling restart of all: longest silence",
            _several(runs, lambda _: (_rolling_restart(running),))[0],
            "< 2",
        )
        running.flow.settle(30)
        sent, missing, repeated = running.flow.counts()
        print(f"  until here {sent} records: {missing} missing, {repeated} repeated (required: 0 and 0)")
    with service(_NAMES) as running:
        killed = _several(runs, lambda _: _leader_killed(running))
        _row("leader killed: new plan in force", killed[0], "< 8")
        _row("  silence of what it did not run", killed[1], "")
        _row(
            "instance killed: silence of its partitions",
            _several(runs, lambda _: (_instance_killed(running),))[0],
            "< 15",
        )
        away = _several(runs, lambda _: _zookeeper_away(running, outage))
        _row(f"ZooKeeper away for {outage:.0f} s: flowing again after its start", away[0], "< 5")
        _row("  flowed on without it for", away[1], "the lease")
        running.flow.settle(30)
        sent, missing, repeated = running.flow.counts()
        print(f"  until here {sent} records: {missing} missing, {repeated} repeated")
