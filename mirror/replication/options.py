"""Sizes and timeouts of a copy engine as plain values, so that workers need not import pydantic.

`settings.py` derives the settings for operators from this class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_KIB: Final = 2**10
_MIB: Final = 2**20
_POSITIVE: Final[Mapping[str, int]] = {"gt": 0}


@dataclass(frozen=True)
class CopyingOptions:
    """Memory, request sizes and timeouts of one worker process. The defaults suit most clusters. The metadata
    of a field has the bounds of its value, under pydantic's names."""

    buffer_bytes: int = field(default=16 * _MIB, metadata={"ge": _MIB})
    """Memory in bytes for partitions that are catching up, shared by all source clusters. Fetching pauses
    while this memory is full, but each cluster can always receive one response."""
    live_buffer_bytes: int = field(default=4 * _MIB, metadata={"ge": _MIB})
    """Memory in bytes for partitions that are up to date; never used for catching up."""
    fetch_bytes: int = field(default=5 * _MIB, metadata={"ge": 64 * _KIB})
    """Maximum size in bytes of a fetch response when catching up."""
    live_fetch_bytes: int = field(default=1 * _MIB, metadata={"ge": 64 * _KIB})
    """Maximum size in bytes of a fetch response when up to date."""
    partition_fetch_bytes: int = field(default=1 * _MIB, metadata={"ge": 16 * _KIB})
    """Maximum bytes of one partition in a fetch response; a larger batch is still returned whole."""
    largest_batch_bytes: int = field(default=100 * _MIB, metadata={"ge": _MIB})
    """Maximum size in bytes of a batch. A response with a larger batch is rejected before it is received. The
    default is the largest request that a broker accepts (`socket.request.max.bytes`)."""
    opened_batch_bytes: int = field(default=32 * _MIB, metadata={"ge": _MIB})
    """Maximum decompressed bytes of a batch that must be decoded; `on-rejection` applies to larger
    batches."""
    opened_batch_records: int = field(default=250_000, metadata={"ge": 1000})
    """Maximum number of records and headers in a batch that must be decoded; `on-rejection` applies to larger
    batches."""
    lane_buffer_bytes: int = field(default=2 * _MIB, metadata={"ge": 64 * _KIB})
    """Maximum buffered bytes of a partition. At this size, Headrace stops fetching the partition until part
    of the buffer is sent."""
    request_bytes: int = field(default=4 * _MIB, metadata={"ge": 64 * _KIB})
    """Maximum size in bytes of a produce request."""
    read_connections: int = field(default=64, metadata={"ge": 0, "le": 512})
    """Maximum number of additional connections to a distant broker for catching up. One connection carries at
    most one socket buffer per round trip, so a worker adds connections as long as the rate increases."""
    write_connections: int = field(default=96, metadata={"ge": 3, "le": 512})
    """Maximum number of connections for writing to a distant broker, with one connection per partition. If
    the TCP window limits the rate, a worker opens up to the same number of additional connections, to send
    several batches of a partition in parallel; fewer if `read_ahead_bytes` has no room for their batches. A
    nearby broker always gets three connections."""
    read_ahead_bytes: int = field(default=64 * _MIB, metadata={"ge": _MIB})
    """Memory in bytes for data that the additional connections to distant source brokers read ahead. A second
    buffer of this size holds batches that are sent in parallel to distant destination brokers. Nearby brokers
    use neither buffer."""
    fetch_wait_ms: int = field(default=500, metadata={"ge": 1})
    """Time that a broker may wait for records before it answers a fetch."""
    gather_ms: int = field(default=0, metadata={"ge": 0, "le": 1000})
    """Delay between two fetches of up-to-date partitions. A longer delay means fewer and larger requests, but
    higher latency."""
    merge_small_batches: bool = True
    """Merge small batches of a backlog, to reduce the load of the brokers."""
    deadline_first: bool = True
    """Give priority to the partitions whose uncopied records the source will delete soonest."""
    request_timeout_seconds: float = field(default=30.0, metadata=_POSITIVE)
    """Time after which a request without a response fails and is retried."""
    probe_first_seconds: float = field(default=1.0, metadata=_POSITIVE)
    """Delay before the first retry of a partition that has paused because of an error. The delay doubles with
    each retry."""
    probe_longest_seconds: float = field(default=60.0, metadata=_POSITIVE)
    """Maximum delay between two retries of a paused partition."""
    transaction_interval_seconds: float = field(default=1.0, metadata=_POSITIVE)
    """Commit interval of exactly-once datastreams. Consumers see records only after the commit."""
    transaction_timeout_seconds: float = field(default=60.0, metadata=_POSITIVE)
    """Time after which the destination aborts an open transaction."""
    hanging_transaction_seconds: float = field(default=60.0, metadata=_POSITIVE)
    """Time after which an open transaction at the source is reported as hanging."""
    metadata_age_seconds: float = field(default=60.0, metadata=_POSITIVE)
    """Maximum age of cached topic metadata and settings. Changes of partition leaders take effect
    immediately."""

    catch_up_seconds: float = field(default=21_600.0, metadata=_POSITIVE)
    """Grace period after the creation of a datastream, a restart or the end of a pause. Within this period,
    late records of a partition do not count against objectives while its backlog shrinks, until the partition
    has caught up."""

    @property
    def ahead_bytes(self) -> int:
        """Size in bytes of a read-ahead request. The memory has room for four requests per connection."""
        return self.read_ahead_bytes // (4 * max(self.read_connections, 1))
