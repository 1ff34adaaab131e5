"""What an operator can set about the copying itself."""

from __future__ import annotations

from dataclasses import fields

from pydantic import Field, model_validator

from mirror.options import Seconds, Settings
from mirror.replication.options import CopyingOptions

_DEFAULTS = CopyingOptions()


class CopyingSettings(Settings):
    """Memory, request sizes and patience of one worker process. The defaults suit most clusters."""

    buffer_bytes: int = Field(default=_DEFAULTS.buffer_bytes, ge=2**20)
    """Bytes held for partitions that catch up; no more is read while they are taken. Source clusters share
    them, and each can always receive one response."""
    live_buffer_bytes: int = Field(default=_DEFAULTS.live_buffer_bytes, ge=2**20)
    """Bytes held for partitions that are up to date; catching up never takes them."""
    fetch_bytes: int = Field(default=_DEFAULTS.fetch_bytes, ge=64 * 1024)
    """Most bytes of one response when catching up."""
    live_fetch_bytes: int = Field(default=_DEFAULTS.live_fetch_bytes, ge=64 * 1024)
    """Most bytes of one response when up to date."""
    partition_fetch_bytes: int = Field(default=_DEFAULTS.partition_fetch_bytes, ge=16 * 1024)
    """Most bytes of one partition in a response; larger batches come whole all the same."""
    largest_batch_bytes: int = Field(default=_DEFAULTS.largest_batch_bytes, ge=1024 * 1024)
    """Size of the largest batch that is read. A response with a larger one is refused before it is received.
    The default is the largest request that a broker takes (`socket.request.max.bytes`)."""
    opened_batch_bytes: int = Field(default=_DEFAULTS.opened_batch_bytes, ge=1024 * 1024)
    """A batch that has to be opened and holds more bytes than this is refused, as `on-rejection` says."""
    opened_batch_records: int = Field(default=_DEFAULTS.opened_batch_records, ge=1000)
    """A batch that has to be opened and holds more records (and headers) is refused, as `on-rejection`
    says."""
    lane_buffer_bytes: int = Field(default=_DEFAULTS.lane_buffer_bytes, ge=64 * 1024)
    """A partition that holds this number of bytes is not read until it has sent some."""
    request_bytes: int = Field(default=_DEFAULTS.request_bytes, ge=64 * 1024)
    """Most bytes of one produce request."""
    fetch_wait_ms: int = Field(default=_DEFAULTS.fetch_wait_ms, ge=1)
    """How long a broker may hold a fetch for which it has nothing."""
    gather_ms: int = Field(default=_DEFAULTS.gather_ms, ge=0, le=1000)
    """Wait between two fetches of up-to-date partitions: fewer and larger requests for more latency."""
    merge_small_batches: bool = _DEFAULTS.merge_small_batches
    """Merge small batches that have piled up; brokers pay for each batch."""
    deadline_first: bool = _DEFAULTS.deadline_first
    """Partitions whose source would delete records first catch up first; others give way where that helps."""
    request_timeout_seconds: Seconds = _DEFAULTS.request_timeout_seconds
    """A broker that has not answered for this time is given up and asked again."""
    probe_first_seconds: Seconds = _DEFAULTS.probe_first_seconds
    """A partition that paused itself tries again after this time, then after twice as long, and so on."""
    probe_longest_seconds: Seconds = _DEFAULTS.probe_longest_seconds
    """The longest wait between two tries."""
    transaction_interval_seconds: Seconds = _DEFAULTS.transaction_interval_seconds
    """How often exactly-once datastreams commit; consumers see records after it."""
    transaction_timeout_seconds: Seconds = _DEFAULTS.transaction_timeout_seconds
    """The destination aborts a transaction that its owner has left open for this time."""
    hanging_transaction_seconds: Seconds = _DEFAULTS.hanging_transaction_seconds
    """A transaction at the source that stays open for this time is reported as hanging."""
    metadata_age_seconds: Seconds = _DEFAULTS.metadata_age_seconds
    """Topics are looked at again after this time, moves of leaders at once."""

    catch_up_seconds: Seconds = _DEFAULTS.catch_up_seconds
    """For how long after a creation, a restart or the end of a pause records behind the backlog count against
    no objective, if the partition has not caught up and its backlog becomes less."""

    @model_validator(mode="after")
    def _consistent(self) -> CopyingSettings:
        if self.fetch_bytes > self.buffer_bytes or self.live_fetch_bytes > self.live_buffer_bytes:
            raise ValueError(
                "a response must fit into the buffers: fetch_bytes <= buffer_bytes, live_… likewise"
            )
        if self.probe_longest_seconds < self.probe_first_seconds:
            raise ValueError("probe_longest_seconds must not be below probe_first_seconds")
        if self.transaction_timeout_seconds < 2 * self.transaction_interval_seconds:
            raise ValueError(
                "transaction_timeout_seconds must be at least twice transaction_interval_seconds"
            )
        return self

    def options(self) -> CopyingOptions:
        """The same as plain values, for the engine."""
        return CopyingOptions(**{field.name: getattr(self, field.name) for field in fields(CopyingOptions)})
