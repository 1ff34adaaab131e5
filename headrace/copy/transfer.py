"""Copies from or to a connector, such as files, without worker processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Final

from headrace.clusters.adhoc import reach
from headrace.console.terminal import print_json, print_table
from headrace.copy.report import slowed
from headrace.copy.run import CopyProgress, CopySetup
from mirror.adapters.kafka.access import plain
from mirror.adapters.system_clock import SystemClock
from mirror.client.access import access_from
from mirror.errors import InvalidRequest
from mirror.jobs.copy_job import CopyJob
from mirror.jobs.transfer_job import Transfer, TransferJob, TransferLane
from mirror.lane.rules import RoutingRules
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.policy import CopyPath, Isolation, OnRejection
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.repeats import common_text
from mirror.replication.connector import RecordSink, RecordSource, is_connector, open_sink, open_source
from mirror.replication.connectors.kafka import KafkaSink, KafkaSource
from mirror.replication.context import EngineContext
from mirror.replication.transforms import load_transforms
from mirror.wording import counted, with_place

_TICK_SECONDS: Final = 0.2
_PATIENCE_SECONDS: Final = 30.0
_MOST_ROWS: Final = 40


class TransferRun:
    """A copy from or to a connector.

    `stop` may be called from a signal handler. `keeps_state`: keep the progress that is stored in a cluster,
    so that a later copy can resume.
    """

    def __init__(self, setup: CopySetup, job: CopyJob, *, workers: int, keeps_state: bool) -> None:
        self._job = job
        self._keeps_state = keeps_state
        self._clusters = tuple(setup.clusters)
        self._throttled: dict[str, float] = {}
        _refuse_rival_workers(job, workers)
        clusters = {name: plain(cluster) for name, cluster in setup.clusters.items()}
        self._bench = EngineContext(
            lambda reference: access_from(clusters[reference]), setup.options, setup.identity, SystemClock()
        )
        with ExitStack() as undo:
            undo.callback(self._bench.close)
            self._source = self._open_source(job.source)
            self._sink = self._open_sink(job.destination)
            undo.pop_all()
        self._transfer = Transfer(self._bench.loop, self._source, self._sink, _transfer_job(job))

    def _open_source(self, reference: ClusterRef) -> RecordSource:
        if is_connector(reference):
            return open_source(reference)
        committed = self._job.policy.isolation is Isolation.READ_COMMITTED
        return KafkaSource(self._bench.cluster(reference), committed=committed)

    def _open_sink(self, reference: ClusterRef) -> RecordSink:
        if not is_connector(reference):
            return KafkaSink(self._bench, reference, GroupName(self._job.state))
        sink, guarantee = open_sink(reference), self._job.policy.guarantee
        if guarantee not in sink.guarantees:
            sink.close()
            given = " or ".join(sorted(sink.guarantees))
            raise InvalidRequest(f"{reference} does not support {guarantee}", advice=f"choose {given}")
        if self._keeps_state:
            sink.close()
            raise InvalidRequest(
                f"--state is not supported for {reference}, which stores its own progress",
                advice="omit --state; a copy to the same destination resumes automatically",
            )
        return sink

    def run(self, show: Callable[[CopyProgress, float], None]) -> dict[str, Any]:
        """Copy to the end offsets, or until `stop` is called, and return the report.

        Raises the errors of `Transfer.prepare` and `reach`.
        """
        started = time.monotonic()
        try:
            reach(self._bench, *self._clusters)
            self._bench.run(self._transfer.prepare())
            self._follow(show)
            document = _document(self._job, self._transfer.lanes, self._throttled, time.monotonic() - started)
            if document["complete"] and not self._keeps_state and isinstance(self._sink, KafkaSink):
                self._bench.run(self._sink.forget([lane.target for lane in self._transfer.lanes]))
            return document
        finally:
            self._source.close()
            self._sink.close()
            self._bench.close()

    def stop(self) -> None:
        """Signal the transfer to commit the written records and end. Idempotent."""
        self._transfer.stop()

    def _follow(self, show: Callable[[CopyProgress, float], None]) -> None:
        """Run the transfer and show its progress.

        With `until_end`, stops if all remaining partitions stay paused.
        """
        running = self._bench.loop.spawn(self._transfer.run())
        stuck_since: float | None = None
        while not running.is_done:
            self._bench.loop.run_once(_TICK_SECONDS)
            for name, seconds in self._bench.take_throttled().items():
                self._throttled[name] = self._throttled.get(name, 0.0) + seconds
            now, progress = time.monotonic(), _progress(self._transfer.lanes, self._throttled)
            show(progress, now)
            is_stuck = self._job.until_end and 0 < progress.remaining <= len(progress.paused)
            stuck_since = (stuck_since or now) if is_stuck else None
            if stuck_since is not None and now - stuck_since > _PATIENCE_SECONDS:
                self.stop()
        running.result()


def _refuse_rival_workers(job: CopyJob, workers: int) -> None:
    """Raise InvalidRequest for options that are supported only for copies between two clusters."""
    policy = job.policy
    refused: Mapping[str, bool] = {
        "--path passthrough": policy.path is CopyPath.PASSTHROUGH,
        f"--on-rejection {policy.on_rejection}": policy.on_rejection is not OnRejection.PAUSE,
        "--bytes-per-second": policy.bytes_per_second > 0,
        "a time as --start": job.start_ms is not None,
        f"--start {job.start}": job.start is StartPosition.EARLIEST_LOCAL,
        "--start-position": bool(job.positions.offsets),
        f"--workers {workers}": workers > 1,
    }
    for option, is_asked in refused.items():
        if is_asked:
            raise InvalidRequest(f"{option} is only supported between two clusters", advice="omit the option")


def _transfer_job(job: CopyJob) -> TransferJob:
    names = job.policy.transforms
    return TransferJob(
        job.selection,
        job.naming,
        job.start,
        job.until_end,
        job.needs_checkpoint,
        job.policy.on_loss,
        RoutingRules(transforms=load_transforms(names), transform_names=names),
        job.own,
    )


def _progress(lanes: list[TransferLane], throttled: Mapping[str, float]) -> CopyProgress:
    paused = {str(lane.place): lane.reason for lane in lanes if lane.reason and not lane.is_over}
    reasons: dict[str, tuple[str, str]] = {}
    for lane in lanes:
        if lane.reason:
            place = str(lane.place)
            reasons.setdefault(common_text(lane.reason, place), (place, lane.reason))
    return CopyProgress(
        sum(lane.counts.records for lane in lanes),
        sum(lane.counts.bytes for lane in lanes),
        sum(max(lane.seen_end - lane.read_to, 0) for lane in lanes if lane.read_to >= 0),
        sum(not lane.is_over for lane in lanes),
        paused,
        reasons,
        throttled=dict(throttled),
    )


def _document(
    job: CopyJob, lanes: list[TransferLane], throttled: Mapping[str, float], seconds: float
) -> dict[str, Any]:
    """Return the report of a copy from or to a connector, with the same keys as between clusters."""
    return {
        "state": job.state,
        "source": job.source,
        "destination": job.destination,
        "guarantee": job.policy.guarantee,
        "isolation": job.policy.isolation,
        "complete": all(lane.is_complete for lane in lanes),
        "seconds": round(seconds, 3),
        "records": sum(lane.settled.records for lane in lanes),
        "bytes": sum(lane.settled.bytes for lane in lanes),
        "throttled_seconds": {name: round(seconds, 3) for name, seconds in sorted(throttled.items())},
        "failures": [with_place(lane.place, lane.reason) for lane in lanes if lane.is_over and lane.reason],
        "partitions": [
            {
                "topic": lane.place.topic,
                "partition": lane.place.partition,
                "start_offset": lane.start,
                "next_offset": lane.committed,
                "end_offset": lane.end,
                **lane.settled._asdict(),
                "gaps": lane.gaps,
                "reason": lane.reason,
            }
            for lane in lanes
        ],
        "finished_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def print_transfer(document: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the report of a copy with a connector as JSON, or a summary as a table."""
    if as_json:
        print_json(document)
        return
    rows = [
        {
            "partition": f"{lane['topic']}-{lane['partition']}",
            "offsets": f"{lane['start_offset']} … {lane['next_offset']}",
            "records": lane["records"],
            "state": lane["reason"] or "committed",
        }
        for lane in document["partitions"]
    ]
    title = (
        f"{counted(document['records'], 'record', form=',')}, {document['bytes'] / 1e6:,.1f} "
        f"MB in {document['seconds']:.1f} s"
        f"{slowed(document)}"
        f"{'' if document['complete'] else ', incomplete'}"
    )
    shown = [row for row in rows if row["state"] != "committed"] or rows
    print_table(title, ["partition", "offsets", "records", "state"], shown[:_MOST_ROWS])
