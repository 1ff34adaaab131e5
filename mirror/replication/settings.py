"""Settings of copying."""

from __future__ import annotations

from dataclasses import fields

from pydantic import Field, model_validator

from mirror.options import Seconds, Settings
from mirror.replication.options import CopyingOptions

_DEFAULTS = CopyingOptions()


class CopyingSettings(Settings):
    """Memory, request sizes and timeouts of one worker process. The defaults suit most clusters."""

    buffer_bytes: int = Field(default=_DEFAULTS.buffer_bytes, ge=2**20)
    """Memory in bytes for partitions that are catching up, shared by all source clusters. Fetching pauses
    while this memory is full, but each cluster can always receive one response."""
    live_buffer_bytes: int = Field(default=_DEFAULTS.live_buffer_bytes, ge=2**20)
    """Memory in bytes for partitions that are up to date; never used for catching up."""
    fetch_bytes: int = Field(default=_DEFAULTS.fetch_bytes, ge=64 * 1024)
    """Maximum size in bytes of a fetch response when catching up."""
    live_fetch_bytes: int = Field(default=_DEFAULTS.live_fetch_bytes, ge=64 * 1024)
    """Maximum size in bytes of a fetch response when up to date."""
    partition_fetch_bytes: int = Field(default=_DEFAULTS.partition_fetch_bytes, ge=16 * 1024)
    """Maximum bytes of one partition in a fetch response; a larger batch is still returned whole."""
    largest_batch_bytes: int = Field(default=_DEFAULTS.largest_batch_bytes, ge=1024 * 1024)
    """Maximum size in bytes of a batch. A response with a larger batch is rejected before it is received. The
    default is the largest request that a broker accepts (`socket.request.max.bytes`)."""
    opened_batch_bytes: int = Field(default=_DEFAULTS.opened_batch_bytes, ge=1024 * 1024)
    """Maximum decompressed bytes of a batch that must be decoded; `on-rejection` applies to larger
    batches."""
    opened_batch_records: int = Field(default=_DEFAULTS.opened_batch_records, ge=1000)
    """Maximum number of records and headers in a batch that must be decoded; `on-rejection` applies to larger
    batches."""
    lane_buffer_bytes: int = Field(default=_DEFAULTS.lane_buffer_bytes, ge=64 * 1024)
    """Maximum buffered bytes of a partition. At this size, Headrace stops fetching the partition until part
    of the buffer is sent."""
    request_bytes: int = Field(default=_DEFAULTS.request_bytes, ge=64 * 1024)
    """Maximum size in bytes of a produce request."""
    read_connections: int = Field(default=_DEFAULTS.read_connections, ge=0, le=512)
    """Maximum number of additional connections to a distant broker for catching up. One connection carries at
    most one socket buffer per round trip, so a worker adds connections as long as the rate increases."""
    write_connections: int = Field(default=_DEFAULTS.write_connections, ge=3, le=512)
    """Maximum number of connections for writing to a distant broker, with one connection per partition. If
    the TCP window limits the rate, a worker opens up to the same number of additional connections, to send
    several batches of a partition in parallel. A nearby broker always gets three connections."""
    read_ahead_bytes: int = Field(default=_DEFAULTS.read_ahead_bytes, ge=2**20)
    """Memory in bytes for data that the additional connections to distant source brokers read ahead. A second
    buffer of this size holds batches that are sent in parallel to distant destination brokers. Nearby brokers
    use neither buffer."""
    fetch_wait_ms: int = Field(default=_DEFAULTS.fetch_wait_ms, ge=1)
    """Time that a broker may wait for records before it answers a fetch."""
    gather_ms: int = Field(default=_DEFAULTS.gather_ms, ge=0, le=1000)
    """Delay between two fetches of up-to-date partitions. A longer delay means fewer and larger requests, but
    higher latency."""
    merge_small_batches: bool = _DEFAULTS.merge_small_batches
    """Merge small batches of a backlog, to reduce the load of the brokers."""
    deadline_first: bool = _DEFAULTS.deadline_first
    """Give priority to the partitions whose uncopied records the source will delete soonest."""
    request_timeout_seconds: Seconds = _DEFAULTS.request_timeout_seconds
    """Time after which a request without a response fails and is retried."""
    probe_first_seconds: Seconds = _DEFAULTS.probe_first_seconds
    """Delay before the first retry of a partition that has paused because of an error. The delay doubles with
    each retry."""
    probe_longest_seconds: Seconds = _DEFAULTS.probe_longest_seconds
    """Maximum delay between two retries of a paused partition."""
    transaction_interval_seconds: Seconds = _DEFAULTS.transaction_interval_seconds
    """Commit interval of exactly-once datastreams. Consumers see records only after the commit."""
    transaction_timeout_seconds: Seconds = _DEFAULTS.transaction_timeout_seconds
    """Time after which the destination aborts an open transaction."""
    hanging_transaction_seconds: Seconds = _DEFAULTS.hanging_transaction_seconds
    """Time after which an open transaction at the source is reported as hanging."""
    metadata_age_seconds: Seconds = _DEFAULTS.metadata_age_seconds
    """Maximum age of cached topic metadata and settings. Changes of partition leaders take effect
    immediately."""

    catch_up_seconds: Seconds = _DEFAULTS.catch_up_seconds
    """Grace period after the creation of a datastream, a restart or the end of a pause. Within this period,
    late records of a partition do not count against objectives while its backlog shrinks, until the partition
    has caught up."""

    @model_validator(mode="after")
    def _consistent(self) -> CopyingSettings:
        if self.fetch_bytes > self.buffer_bytes or self.live_fetch_bytes > self.live_buffer_bytes:
            raise ValueError(
                "fetch_bytes must not exceed buffer_bytes, nor live_fetch_bytes live_buffer_bytes"
            )
        if self.probe_longest_seconds < self.probe_first_seconds:
            raise ValueError("probe_longest_seconds must not be below probe_first_seconds")
        if self.transaction_timeout_seconds < 2 * self.transaction_interval_seconds:
            raise ValueError(
                "transaction_timeout_seconds must be at least twice transaction_interval_seconds"
            )
        return self

    def options(self) -> CopyingOptions:
        """Return the settings as plain values for the engine."""
        return CopyingOptions(**{field.name: getattr(self, field.name) for field in fields(CopyingOptions)})
