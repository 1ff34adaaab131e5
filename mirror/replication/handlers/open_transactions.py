"""Detects source transactions that stay open and block read_committed consumers.

Headrace reports a hanging transaction, but cannot end it. The first blocked record is read uncommitted once,
because read-committed responses do not contain its timestamp. If a transaction stays open for long, the lane
reports it with its producer as the reason for the wait, until records arrive again. Without the permission to
describe producers, the report contains only the offset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mirror.client.log_reader import fetch_once
from mirror.errors import HeadraceError
from mirror.lane.lane import Lane
from mirror.lane.lifecycle import LaneState
from mirror.loggers import get_logger
from mirror.model.datastreams.lanes import PauseCause
from mirror.model.identifiers import ClusterRef
from mirror.protocol.batches.batch import scan
from mirror.protocol.control.offsets import OpenTransaction, open_transactions
from mirror.replication.context import EngineContext
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.registry import LaneRegistry
from mirror.wording import duration_text

_log = get_logger(__name__)
_LOOK_SECONDS: Final = 1.0
_SHORT_SECONDS: Final = 5.0
"""Seconds that a transaction must be open before its first record is read."""
_AT_ONCE: Final = 20
"""Maximum number of first blocked records that are read from a source at the same time."""
_FIRST_BYTES: Final = 16 * 1024
"""Size limit in bytes for the fetch of a first blocked record. Brokers return a larger first batch anyway."""


class OpenTransactionWatch:
    """Tracks the lanes that an open transaction blocks."""

    def __init__(self, context: EngineContext, lanes: LaneRegistry, runner: LaneRunner) -> None:
        self._context = context
        self._lanes = lanes
        self._runner = runner
        self._lane_log = lanes.log
        self._loop = context.loop
        self._patience = context.settings.hanging_transaction_seconds
        self.lanes: dict[Lane, None] = {}
        """Lanes that an open transaction blocks."""
        self._next = 0.0
        self._asking: set[ClusterRef] = set()
        self._dating: set[ClusterRef] = set()

    def holds(self, lane: Lane) -> None:
        """Track a lane whose last stable offset is below its high watermark."""
        if lane not in self.lanes:
            lane.observed.since_stable = self._loop.now()
            self.lanes[lane] = None

    def flows(self, lane: Lane) -> None:
        """Stop tracking a lane that reads records again or has reached the end of the log."""
        self.lanes.pop(lane, None)
        if lane.observed.held_by:
            lane.observed.held_by = ""
            self._lane_log.copies(lane.key)

    def pump(self, now: float) -> None:
        """Report the lanes that an open transaction has blocked for too long."""
        if not self.lanes or now < self._next:
            return
        self._next = now + _LOOK_SECONDS
        for lane in [lane for lane in self.lanes if lane.state is not LaneState.COPYING]:
            self.lanes.pop(lane)
            lane.observed.held_by = ""
        late: dict[ClusterRef, list[Lane]] = {}
        for lane in self.lanes:
            if not lane.observed.held_by and now - lane.observed.since_stable >= self._patience:
                late.setdefault(lane.spec.source, []).append(lane)
        for source, lanes in late.items():
            if source not in self._asking:
                self._asking.add(source)
                self._loop.spawn(self._report(source, lanes))
        self._date(now)

    def _date(self, now: float) -> None:
        """Read the first blocked record of each lane to determine its age. Reads each offset only once."""
        undated: dict[ClusterRef, list[Lane]] = {}
        for lane in self.lanes:
            if (
                lane.observed.hidden[0] != lane.read.stable_offset
                and now - lane.observed.since_stable >= _SHORT_SECONDS
            ):
                undated.setdefault(lane.spec.source, []).append(lane)
        for source in undated.keys() - self._dating:
            self._dating.add(source)
            self._loop.spawn(self._date_all(source, undated[source][:_AT_ONCE]))

    async def _date_all(self, source: ClusterRef, lanes: Sequence[Lane]) -> None:
        for lane in lanes:
            await self._runner.run(lane, lane.generation, self._date_one(lane))
        self._dating.discard(source)

    async def _date_one(self, lane: Lane) -> None:
        cluster, place, offset = self._lanes.source(lane).cluster, lane.key.partition, lane.read.stable_offset
        try:
            part = await fetch_once(cluster, place, offset, committed=False, most_bytes=_FIRST_BYTES)
        except HeadraceError as error:  # retried in the next pass
            _log.debug("record timestamp unknown", partition=str(place), offset=offset, reason=str(error))
            return
        headers = (header for _, _, header in scan(part.records) if header is not None)
        lane.observed.hidden = (
            offset,
            next((header.first_timestamp for header in headers if header.last_offset >= offset), -1),
        )

    async def _report(self, source: ClusterRef, lanes: Sequence[Lane]) -> None:
        for lane in lanes:
            await self._runner.run(lane, lane.generation, self._report_one(lane))
        self._asking.discard(source)

    async def _report_one(self, lane: Lane) -> None:
        transactions = await self._transactions(lane)
        if lane in self.lanes:
            lane.observed.held_by = _sentence(
                lane, self._loop.now() - lane.observed.since_stable, transactions
            )
            self._lane_log.waits(lane.spec, lane.observed.held_by, PauseCause.OPEN_TRANSACTION)

    async def _transactions(self, lane: Lane) -> Sequence[OpenTransaction]:
        cluster, place = self._lanes.source(lane).cluster, lane.key.partition
        leader = cluster.leader(place)
        if leader is None:
            return ()
        try:
            return (await cluster.ask(open_transactions([place]), leader[0])).get(place, ())
        except HeadraceError as error:
            _log.debug("open transactions unknown", partition=str(place), reason=str(error))
            return ()


def _sentence(lane: Lane, seconds: float, transactions: Sequence[OpenTransaction]) -> str:
    text = (
        f"a source transaction has been open for {duration_text(seconds)} and blocks {lane.key.partition} at"
        f" offset {lane.read.stable_offset} of {lane.read.high_watermark}"
    )
    if transactions:
        oldest = transactions[0]
        text += f": producer {oldest.producer_id}, open since offset {oldest.first_offset}"
    return text + "; end it in the producer or with kafka-transactions.sh abort"
