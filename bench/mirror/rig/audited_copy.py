"""Copies a topic between two clusters, and audits it in alternate periods: `… audited_copy SOURCE DESTINATION
TOPIC MODE`.

Prints a line of JSON: processor seconds of the copying without and with audits, and of the audits.
"""

from __future__ import annotations

import json
import sys
import time

from mirror.adapters.system_clock import SystemClock
from mirror.client.access import ClusterAccess, endpoints
from mirror.jobs.audits.auditor import Auditor
from mirror.jobs.audits.lanes import AuditedLanes, AuditOptions
from mirror.jobs.verify_job import VerifyJob
from mirror.model.datastreams.audit_mode import AuditMode
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.topics import TopicPartition, TopicSelection
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.engine import BatchEngine
from mirror.replication.options import CopyingOptions
from tests.engines import DESTINATION, SOURCE, specs

PARTITIONS = 50
ROWS = "bench-audit-windows"
ROUND_SECONDS = 15.0
ROUNDS = 3
_WINDOW_MS = int(2 * ROUND_SECONDS * 1_000)
"""Every second audit starts a new window, as with the default settings."""
_LATENESS_MS = 600_000
_MOST_SETTLING_SECONDS = 60.0


def main(source: str, destination: str, topic: str, mode: AuditMode) -> None:
    """Copy for a period without and a period with an audit, several times."""
    addresses = {SOURCE: source, DESTINATION: destination}
    engine = BatchEngine(_context(addresses))
    context = _context(addresses)  # of its own, as in an instance, where another process copies
    state, places = f"g-{topic}", tuple(TopicPartition(topic, number) for number in range(PARTITIONS))
    job = VerifyJob(SOURCE, DESTINATION, TopicSelection(topic), state=state, allows_expired=True)
    lanes = AuditedLanes(DatastreamName(topic), job, mode, places)
    auditor = Auditor(context, AuditOptions("bench", DESTINATION, ROWS, _WINDOW_MS, _LATENESS_MS, 10**12))
    engine.start_lanes(specs(topic, PARTITIONS))
    _settle(engine)
    _audit(context, auditor, lanes)  # opens connections
    spent = {"off": 0.0, "on": 0.0, "audit": 0.0}
    for _ in range(ROUNDS):
        for name in ("off", "on"):
            before = time.process_time()
            _copy(engine, ROUND_SECONDS)
            if name == "on":
                began = time.process_time()
                _audit(context, auditor, lanes)
                spent["audit"] += time.process_time() - began
            spent[name] += time.process_time() - before
    reports = auditor.reports[lanes.name].values()
    assert not any(one.faults or one.problem for one in reports), list(reports)
    copied = sum(one.checkpoint for one in engine.lanes.by_key.values())
    print(json.dumps({**spent, "records": copied}), flush=True)


def _context(addresses: dict[ClusterRef, str]) -> EngineContext:
    def access(reference: ClusterRef) -> ClusterAccess:
        return ClusterAccess(endpoints(addresses[reference]))

    return EngineContext(access, CopyingOptions(), EngineIdentity("bench"), SystemClock())


def _copy(engine: BatchEngine, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        engine.step(0.05)


def _settle(engine: BatchEngine) -> None:
    """Copy until every lane has stored progress."""
    until = time.monotonic() + _MOST_SETTLING_SECONDS
    while time.monotonic() < until:
        engine.step(0.05)
        lanes, dirty = [*engine.lanes.by_key.values()], engine.lanes.unsaved.dirty
        if len(lanes) == PARTITIONS and not dirty and all(one.checkpoint > 0 for one in lanes):
            return
    raise AssertionError("some lanes stored no progress")


def _audit(context: EngineContext, auditor: Auditor, lanes: AuditedLanes) -> None:
    while context.run(auditor.run_once(lanes)):
        pass


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], AuditMode(sys.argv[4]))
