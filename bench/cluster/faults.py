"""Faults of two clusters, each of three brokers with three replicas: longest gap, comparison of every record.

Each fault hits the source, then the destination. `client silent` is the longest time in which another client
of that cluster got no record of some partition, `copies silent` the same for the copies. The numbers of
records come from comparing all records. Those that the cluster itself has lost are not `lost` by the mirror.
Below each row are the reasons that the lanes reported, and the losses that they recorded. Environment:

    BENCH_CASES=broker killed,disk full    faults, by default all
    BENCH_SIDES=source                     by default source,destination
    BENCH_RATE=500                         records/s
    BENCH_SECONDS=10                       duration of each fault
    BENCH_GUARANTEE=exactly-once           by default effectively-once

A full disk needs root, to mount a small file system for a broker. The exit code is 1 if a fault could not be
carried out or a record was lost, repeated or out of order.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from mirror.model.datastreams.policy import Guarantee
from stack.kafka import KafkaCluster
from tests.chaos.clusters.faults import Kind
from tests.chaos.clusters.run import SIDES, ClusterFaults, Order, Row

_CLONE_NEWNS: Final = 0x20000
_DISK: Final = "size=512m"
_PATIENCE_SECONDS: Final = 180.0
_SHOWN: Final = 4
_FIRST_COLUMNS: Final = (("", "", "time to"), ("fault", "cluster", "repair"))
_COLUMNS: Final = (
    ("client", "silent"),
    ("copies", "silent"),
    ("time to", "catch up"),
    ("records", "written"),
    ("", "lost"),
    ("", "repeated"),
    ("out of", "order"),
    ("not from", "source"),
    ("lost by", "cluster"),
)


def main() -> None:
    """Print a row for each fault. Raise SystemExit(1) if an expectation was violated."""
    kinds = [Kind(name) for name in _chosen("BENCH_CASES", Kind)]
    sides = _chosen("BENCH_SIDES", SIDES)
    guarantee = Guarantee(os.environ.get("BENCH_GUARANTEE") or Guarantee.EFFECTIVELY_ONCE)
    order = Order(
        float(os.environ.get("BENCH_RATE") or 500),
        seconds=float(os.environ.get("BENCH_SECONDS") or 10),
        patience=_PATIENCE_SECONDS,
        guarantee=guarantee,
    )
    print(f"{guarantee}, {order.rate:g} records/s, faults of {order.seconds:g} s; all times in s")
    for first, names in zip(_FIRST_COLUMNS, zip(*_COLUMNS, strict=True), strict=True):
        print("  {:18}{:13}{:>8}".format(*first) + "".join(f"{name:>10}" for name in names))
    violated = False
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        run = ClusterFaults(Path(folder), order)
        if Kind.DISK_FULL in kinds:
            stack.enter_context(_small_disks(run.clusters.values()))
        stack.callback(run.stop)
        run.start()
        for kind in kinds:
            for side in sides:
                row = run.carry_out(kind, side)
                violated = violated or bool(row.violations)
                print("\n".join(_lines(row)), flush=True)
    if violated:
        raise SystemExit(1)


def _chosen(name: str, known: Iterable[str]) -> list[str]:
    """Return the values of an environment variable, or all known values."""
    wanted = os.environ.get(name)
    return wanted.split(",") if wanted else list(known)


@contextmanager
def _small_disks(clusters: Iterable[KafkaCluster]) -> Iterator[None]:
    """Give a broker of each cluster a file system of its own, which only this process and its children see.

    Mount nothing if the process may not mount file systems.
    """
    if os.geteuid() or ctypes.CDLL(None).unshare(_CLONE_NEWNS):
        yield
        return
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    with ExitStack() as mounted:
        for cluster in clusters:
            folder = cluster.nodes[-1].folder
            folder.mkdir(parents=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", _DISK, "headrace", str(folder)], check=True)
            mounted.callback(subprocess.run, ["umount", str(folder)], check=True)
        yield


def _lines(row: Row) -> list[str]:
    """Return the row of a fault, and lines below it with its reasons, losses and violations."""
    found = row.findings
    times = (row.own_silence, row.silence, row.caught_up)
    counts = (found.written, found.lost, found.doubled, found.out_of_order, found.foreign, row.own_loss)
    cells = [f"{value:10.1f}" for value in times] + [f"{value:10,}" for value in counts]
    shown = [f"{reason} ({count})" for reason, count in row.reasons.most_common(_SHOWN)]
    hidden = len(row.reasons) - len(shown)
    return [
        f"  {row.kind:18}{row.side:13}{row.seconds:8.1f}" + "".join(cells),
        *([f"      the schedule halted the mirror for {row.halted:.1f} s"] if row.halted else []),
        *(f"      {one}" for one in shown),
        *([f"      and {hidden} other reasons"] if hidden else []),
        *(f"      recorded: {gap}" for gap in row.gaps),
        *(f"      VIOLATION: {one}" for one in row.violations),
    ]
