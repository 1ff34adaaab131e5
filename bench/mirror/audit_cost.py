"""CPU time of continuous audits as a share of the CPU time of copying, on real brokers.

A process with the data plane of a worker copies 50 partitions, alternately without and with an audit at the
end of the run, which has its own connections, as in an instance. The budget of audits of counts
(`mirror/jobs/audits/pace.py`) does not apply. `BENCH_CASES` chooses cases.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final, NamedTuple

from bench.mirror.rig.audited_copy import PARTITIONS, ROUND_SECONDS, ROUNDS, ROWS
from bench.mirror.rig.clusters import Pair, Topics, chosen, clusters
from bench.mirror.rig.regular_writer import RECORDS, VALUE_BYTES
from headrace.process.machine_code import worker_command
from mirror.model.datastreams.audit_mode import AuditMode
from stack.process.managed_process import ManagedProcess

_DEFAULT_INTERVAL: Final = 300.0
_ROWS_PARTITIONS: Final = 4


class _Case(NamedTuple):
    """Traffic during the measurement. `pause`: seconds between two batches of a partition."""

    pause: float
    mode: AuditMode


_CASES: Final = {
    "busy": _Case(0.1, AuditMode.COUNTS),
    "nearly-idle": _Case(5.0, AuditMode.COUNTS),
    "idle": _Case(1_000_000.0, AuditMode.COUNTS),
    "full": _Case(0.1, AuditMode.FULL),
}


def main() -> None:
    """Print one row for each case."""
    print(
        f"{PARTITIONS} partitions, batches of {RECORDS} records of {VALUE_BYTES} bytes;"
        f" {ROUNDS} runs of {ROUND_SECONDS:.0f} s without and with an audit\n"
    )
    print(
        f"{'case':12}{'mode':8}{'pause s':>8}{'off CPU s':>11}{'on CPU s':>10}{'ms an audit':>13}"
        f"{'share at 15 s':>15}{'at 300 s':>10}"
    )
    with clusters(quick_start=True) as pair:
        Topics(pair.target).create(ROWS, _ROWS_PARTITIONS)
        for name in chosen(*_CASES):
            print(_row(pair, name, _CASES[name]), flush=True)


def _row(pair: Pair, name: str, case: _Case) -> str:
    topic = f"bench-{name}"
    for cluster in (pair.source, pair.target):
        Topics(cluster).create(topic, PARTITIONS)
    writer = [sys.executable, "-m", "bench.mirror.rig.regular_writer", pair.source.address, topic]
    command = worker_command("bench.mirror.rig.audited_copy", pair.source.address, pair.target.address)
    with ManagedProcess(
        "writer", [*writer, str(PARTITIONS), str(case.pause)], log_file=pair.folder / "writer.log"
    ):
        done = subprocess.run(
            [*command, topic, case.mode.value], check=True, stdout=subprocess.PIPE, text=True
        )
    spent = json.loads(done.stdout)
    each, copying = spent["audit"] / ROUNDS, spent["off"] / ROUNDS / ROUND_SECONDS
    # An audit of counts does not depend on the number of records; one of all records grows with it.
    at_default = each if case.mode is AuditMode.COUNTS else each / ROUND_SECONDS * _DEFAULT_INTERVAL
    pause = f"{case.pause:8.1f}" if case.pause < _DEFAULT_INTERVAL else f"{'-':>8}"
    return (
        f"{name:12}{case.mode.value:8}{pause}{spent['off']:11.3f}{spent['on']:10.3f}{each * 1_000:13.1f}"
        f"{each / copying / ROUND_SECONDS:15.1%}{at_default / copying / _DEFAULT_INTERVAL:10.2%}"
    )
