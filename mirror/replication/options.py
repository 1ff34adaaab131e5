"""Sizes and timeouts of an engine as plain values, so that a worker process need not import pydantic.

`settings.py` defines the corresponding settings for operators.
"""

from __future__ import annotations

from dataclasses import dataclass

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class CopyingOptions:
    """Options of the engine; see `CopyingSettings` for their meaning."""

    buffer_bytes: int = 16 * _MIB
    live_buffer_bytes: int = 4 * _MIB
    fetch_bytes: int = 5 * _MIB
    live_fetch_bytes: int = 1 * _MIB
    partition_fetch_bytes: int = 1 * _MIB
    largest_batch_bytes: int = 100 * _MIB
    opened_batch_bytes: int = 32 * _MIB
    opened_batch_records: int = 250_000
    lane_buffer_bytes: int = 2 * _MIB
    request_bytes: int = 4 * _MIB
    read_connections: int = 64
    write_connections: int = 64
    read_ahead_bytes: int = 64 * _MIB
    fetch_wait_ms: int = 500
    gather_ms: int = 0
    merge_small_batches: bool = True
    deadline_first: bool = True
    request_timeout_seconds: float = 30.0
    probe_first_seconds: float = 1.0
    probe_longest_seconds: float = 60.0
    transaction_interval_seconds: float = 1.0
    transaction_timeout_seconds: float = 60.0
    hanging_transaction_seconds: float = 60.0
    metadata_age_seconds: float = 60.0
    catch_up_seconds: float = 21_600.0

    @property
    def ahead_bytes(self) -> int:
        """Size of a request for reading ahead: the memory has room for four of them per connection."""
        return self.read_ahead_bytes // (4 * max(self.read_connections, 1))
