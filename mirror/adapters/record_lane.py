"""The bookkeeping of one lane of the record path."""

from __future__ import annotations

from confluent_kafka import Message

from mirror.lane.inflight import Inflight, InflightRun
from mirror.model.metrics import LATENCY_BUCKETS, MirrorMetric, latency_bucket
from mirror.model.progress import Checkpoint
from mirror.ports import LaneSpec


class RecordLane:
    """What is true of one partition between its source and its destination."""

    def __init__(self, spec: LaneSpec, position: int) -> None:
        self.spec = spec
        self.inflight = Inflight(position)
        self.is_stopping = False
        self.paused_until: float | None = None
        self._durable_offset: int | None = None
        self._last_timestamp_ms = 0
        self._records = 0
        self._bytes = 0
        self._latency = [0] * LATENCY_BUCKETS

    @property
    def is_drained(self) -> bool:
        """Nothing is on its way."""
        return not len(self.inflight)

    def register(self, message: Message) -> InflightRun:
        """Note a record that is about to be sent."""
        offset = message.offset()
        assert offset is not None
        self.inflight.skip(offset)  # offsets that were compacted away or are control records
        timestamp_ms = message.timestamp()[1]
        return self.inflight.register(offset + 1, timestamp_ms, len(message))

    def acknowledge(self, run: InflightRun, now_ms: int) -> None:
        """The destination has stored a record."""
        if run.is_acknowledged:
            return
        self.inflight.acknowledge(run)
        self._records += 1
        self._bytes += run.size_bytes
        self._last_timestamp_ms = run.oldest_timestamp_ms
        self._latency[latency_bucket(now_ms - run.oldest_timestamp_ms)] += 1

    def take_checkpoint(self, now_ms: int) -> Checkpoint | None:
        """Progress that is not durable yet; None when there is none."""
        if self.inflight.safe_offset == self._durable_offset:
            return None
        self._durable_offset = self.inflight.safe_offset
        return Checkpoint(self.spec.key.group, self.spec.key.partition, self._durable_offset, now_ms)

    def take_metric(
        self, now_ms: int, interval_ms: int, end_offset: int | None, instance: str
    ) -> MirrorMetric:
        """Measurements since the last call."""
        behind = max(0, end_offset - self.inflight.safe_offset) if end_offset is not None else 0
        oldest = self.inflight.oldest_timestamp_ms or (self._last_timestamp_ms if behind else 0)
        metric = MirrorMetric(
            time_ms=now_ms,
            interval_ms=interval_ms,
            instance=instance,
            task=self.spec.task,
            datastream=self.spec.key.group,
            source_cluster=self.spec.source,
            topic=self.spec.key.partition.topic,
            kafka_partition=self.spec.key.partition.partition,
            records_copied=self._records,
            bytes_copied=self._bytes,
            batches=0,
            passthrough_batches=0,
            lag_records=behind,
            lag_ms=max(0, now_ms - oldest) if oldest else 0,
            latency_counts=tuple(self._latency),
        )
        self._records = self._bytes = 0
        self._latency = [0] * LATENCY_BUCKETS
        return metric
