"""Planning from scratch: task count, fullest task, time and memory, compared with heaviest-first."""

from __future__ import annotations

import heapq
import json
import resource
import subprocess
import sys
import time

import numpy as np

from bench.placement.loads import CAPACITY, KINDS, USABLE, Floats, draw, loads_of

SIZES = ((100, 10), (1_000, 40), (10_000, 200), (200_000, 2_000))


def reference(rates: Floats) -> tuple[int, Floats, np.ndarray, float]:
    """Place like Brooklin: ceil(sum / usable) tasks, each partition by integer KB/s on the lightest."""
    started = time.perf_counter()
    kilobytes = (rates // 1024).astype(np.int64)
    tasks = int(-(-int(kilobytes.sum()) // (USABLE // 1024)))
    heap = [(0, task) for task in range(tasks)]
    placed = np.empty(len(rates), np.int64)
    for partition in np.argsort(-kilobytes, kind="stable").tolist():
        load, task = heap[0]
        placed[partition] = task
        heapq.heapreplace(heap, (load + int(kilobytes[partition]), task))
    seconds = time.perf_counter() - started
    loads = np.asarray(np.bincount(placed, weights=rates, minlength=tasks), np.float64)
    return tasks, loads, np.bincount(placed, minlength=tasks), seconds


def resident_mib() -> float:
    """Return the current resident memory of this process."""
    with open("/proc/self/statm") as line:
        return int(line.read().split()[1]) * resource.getpagesize() / 2**20


def measure(kind: str, partitions: int, tasks: int, fill: float = 0.97) -> dict[str, float | int | str]:
    """Return the figures of the first plan and the best of three more, computed in this process.

    `mib`: peak memory above that after the imports. `cpu`: CPU seconds of the fastest plan, which other
    processes on the machine disturb least.
    """
    from assigner.planner import plan

    before = resident_mib()
    loads = loads_of(draw(kind, partitions, tasks, 1, fill))
    seconds, cpu = [], []
    for _ in range(4):
        started, busy = time.perf_counter(), time.process_time()
        answer = plan(loads, CAPACITY)
        seconds.append(time.perf_counter() - started)
        cpu.append(time.process_time() - busy)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    counts = np.bincount(answer.task_of, minlength=len(answer.alive))
    carried = answer.loads[answer.alive, 0]
    return {
        "tasks": answer.tasks,
        "bound": answer.task_lower_bound,
        "over": len(answer.overloaded),
        "ratio": float(carried.max() / carried.mean()),
        "gap": answer.gap.max_load,
        "counts": f"{counts.min()}..{counts.max()}",
        "first": seconds[0],
        "warm": min(seconds[1:]),
        "cpu": min(cpu[1:]),
        "mib": peak - before,
        "stage": answer.stage,
    }


def fresh(module: str, call: str) -> dict[str, float | int | str]:
    """Return the result of a call in a new process, with the seconds spent on imports."""
    code = (
        "import json, time; started = time.perf_counter();"
        f"import {module} as m, assigner.planner; imported = time.perf_counter() - started;"
        f"print(json.dumps({{**m.{call}, 'imports': imported}}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found: dict[str, float | int | str] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print the reference and Headrace, then the growth with ten times the partitions."""
    print(
        "reference: tasks, tasks above usable, max/usable, partitions a task, s | ours: tasks (bound), above,"
    )
    print(
        "max/mean, partitions a task, s cold (first plan of a fresh process), s warm, CPU s warm, MiB above"
    )
    print("imports, stage\n")
    for partitions, tasks in SIZES:
        for kind in KINDS:
            count, carried, held, seconds = reference(draw(kind, partitions, tasks, 1))
            ours = fresh("bench.placement.full", f"measure('{kind}', {partitions}, {tasks})")
            theirs = (
                f"{count:5} {int((carried > USABLE).sum()):5} {carried.max() / USABLE:7.4f} "
                f"{f'{held.min()}..{held.max()}':>11} {seconds:5.2f}"
            )
            mine = (
                f"{ours['tasks']:5} ({ours['bound']}) {ours['over']} {ours['ratio']:9.6f} "
                f"{ours['counts']:>9} {ours['first']:6.3f} {ours['warm']:6.3f} {ours['cpu']:6.3f} "
                f"{ours['mib']:5.0f} {ours['stage']}"
            )
            print(f"{partitions:7} {kind:9} | {theirs} | {mine}")
        print()
    print("growth: ten times the partitions and the tasks, both 99.985 % full, CPU seconds warm")
    for kind in KINDS:
        small = float(fresh("bench.placement.full", f"measure('{kind}', 20_000, 200)")["cpu"])
        large = float(fresh("bench.placement.full", f"measure('{kind}', 200_000, 2_000, 0.7)")["cpu"])
        print(f"{kind:9} {small:.3f} s -> {large:.3f} s: {large / small:.1f} times")
