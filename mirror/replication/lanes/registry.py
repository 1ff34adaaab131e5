"""Registry of an engine's lanes."""

from __future__ import annotations

from mirror.lane.lane import Lane
from mirror.model.datastreams.lanes import LaneEvent, LaneKey
from mirror.model.identifiers import ClusterRef
from mirror.replication.channels.fetcher import Fetcher
from mirror.replication.channels.sender import Sender
from mirror.replication.context import EngineContext
from mirror.replication.lanes.delivery import LaneDelivery, UnsavedProgress
from mirror.replication.lanes.producer_identities import ProducerIdentities
from mirror.replication.lanes.source_ends import SourceEnds
from mirror.replication.reports.lane_failures import LaneFailures
from mirror.replication.reports.lane_log import LaneLog
from mirror.replication.reports.lane_reports import LaneReport


class LaneRegistry:
    """All lanes of one engine that have not stopped, with the fetchers and senders of their clusters."""

    def __init__(self, context: EngineContext) -> None:
        self.by_key: dict[LaneKey, Lane] = {}
        self.sources: dict[ClusterRef, Fetcher] = {}
        self.sinks: dict[ClusterRef, Sender] = {}
        self.to_start: dict[Lane, None] = {}
        self.stopping: dict[Lane, None] = {}
        """Drained lanes, which stop once their checkpoint is durable."""
        self.paced: dict[Lane, float] = {}
        """Lanes with their own checkpoint interval, each with its next due time (monotonic seconds)."""
        self.unsaved = UnsavedProgress(context.token)
        self.delivery = LaneDelivery(self.unsaved)
        self.ends = SourceEnds(self.delivery)
        self.identities = ProducerIdentities(self.delivery)
        self.failures = LaneFailures(context.loop.now)
        self.log = LaneLog(self.report, context.loop.now)
        self.events: list[LaneEvent] = []
        self.final: list[LaneReport] = []
        """Reports of stopped lanes, if reports are kept."""

    def add(self, lane: Lane, now: float) -> None:
        """Add a lane that will be started. `now`: current time in monotonic seconds."""
        lane.observed.started_at = now
        self.by_key[lane.key] = lane
        self.to_start[lane] = None
        if lane.spec.checkpoint_seconds:
            self.paced[lane] = now

    def remove(self, lane: Lane) -> None:
        """Remove a lane that has stopped from the registry."""
        self.stopping.pop(lane, None)
        self.paced.pop(lane, None)
        self.unsaved.take_change(lane)
        self.failures.forget(lane)
        self.by_key.pop(lane.key, None)
        self.log.stopped(lane.key)

    def source(self, lane: Lane) -> Fetcher:
        """Return the fetcher for the lane's source cluster."""
        return self.sources[lane.spec.source]

    def sink(self, lane: Lane) -> Sender:
        """Return the sender for the lane's destination cluster."""
        return self.sinks[lane.spec.destination]

    def report(self, event: LaneEvent) -> None:
        """Queue a lane event for the caller of the engine."""
        self.events.append(event)

    def take_events(self) -> list[LaneEvent]:
        """Return the lane events since the previous call."""
        events, self.events = self.events, []
        return events

    def take_final(self) -> list[LaneReport]:
        """Return the final reports of lanes stopped since the previous call."""
        final, self.final = self.final, []
        return final
