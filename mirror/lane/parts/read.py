"""Reads a lane's partition: position, ends of the source log, and fetch sizes."""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple

from mirror.lane.flow import Replica, TokenBucket
from mirror.lane.rules import RoutingRules
from mirror.model.movement.append_times import AppendTimes
from mirror.model.movement.excuses import ExcusedLane
from mirror.protocol.fetch_session import Place

_FORGETTING: Final = 16
"""Fraction by which a response without a larger batch reduces the remembered batch size."""
_DEVIATIONS: Final = 4
"""Factor of RFC 6298."""
_MOST_ROOM: Final = 16
"""Divisor: the extra room of a request is at most the batch size divided by this number."""


class FetchSize:
    """Size of a lane's requests in bytes. `most`: maximum size of a request, unless a batch is larger.
    `batch`: size of the largest recent or expected batch, 0 if unknown. `spread`: mean deviation of batch
    sizes, by the method of RFC 6298."""

    __slots__ = ("batch", "most", "spread")

    def __init__(self, most: int) -> None:
        self.most = most
        self.batch = self.spread = 0

    def note_batch(self, size: int) -> None:
        """Record the size of the largest batch of a response, or of a batch that did not fit."""
        self.spread += (abs(size - self.batch) - self.spread) // 4
        self.batch = max(size, self.batch - self.batch // _FORGETTING)

    def grow(self, most: int) -> None:
        """Double the size after an empty response, up to `most`."""
        tried = max(self.most, self.batch)
        self.batch = min(tried * 2, max(most, tried))

    def of_share(self, share: int) -> int:
        """Return the number of bytes to request: about `share`, in whole batches.

        `share`: bytes of a response that are intended for this lane. The size is at least one batch, and
        otherwise at most `most`. A broker truncates its response at the requested size; a truncated batch is
        useless and is sent again. The request therefore leaves room for a larger batch than the recent
        batches, depending on the variation. The broker fills unused room with a part of the next batch. The
        number of batches is rounded to the nearest integer. With a higher number, responses would be full
        before they contain every partition, although a produce request takes one batch per partition.
        """
        most, batch = self.most, self.batch
        allowed = min(share, most)
        if not batch:
            return allowed
        roomy = batch + min(_DEVIATIONS * self.spread, batch // _MOST_ROOM)
        count = max((allowed + roomy // 2) // roomy, 1)
        return roomy * (count - 1 if count > 1 and roomy * count > most else count)


class RequestTimes(NamedTuple):
    """Send times of fetch requests with responses, in monotonic seconds: of the last request, and of the last
    one that showed that the log had no further records."""

    requested_at: float
    quiet_at: float


class LaneRead:
    """Reading of one partition.

    `waiting`: source offset and timestamp of the first batch that was dropped, to be fetched again.
    `caught_up_ms`: wall time at which the lane had last read every readable record of the source. `excused`:
    records that do not count in the latency, until the lane has caught up. `rules`: routing of batches.

    `is_live`: the lane is up to date, and is fetched on channels that backlogs cannot delay. `waits`: the
    lane is excluded from fetches for a reason other than the source; `answered_at`: time (monotonic seconds)
    at which an end offset was last received during that wait. `first_request`: number of the channel's first
    request that included the current position. `replica`: broker to fetch from; None to let the leader
    choose. `empty_answers`: consecutive empty responses although records remain; `damaged_reads`: consecutive
    responses with corrupt batches.
    """

    __slots__ = (
        "answered_at",
        "buckets",
        "caught_up_ms",
        "damaged_reads",
        "empty_answers",
        "excused",
        "first_request",
        "high_watermark",
        "is_live",
        "log_start",
        "place",
        "position",
        "replica",
        "request_times",
        "rules",
        "size",
        "stable_offset",
        "times",
        "waiting",
        "waits",
    )

    def __init__(
        self, fetch_bytes: int, buckets: tuple[TokenBucket, ...], excused: ExcusedLane | None = None
    ) -> None:
        self.position = 0
        self.high_watermark = self.stable_offset = self.log_start = -1
        self.waiting = (-1, -1)
        self.times = AppendTimes()
        self.caught_up_ms = -1
        self.excused = excused
        self.rules = RoutingRules()
        self.place: Place | None = None
        self.replica: Replica | None = None
        self.is_live = self.waits = False
        self.answered_at, self.request_times = -inf, RequestTimes(0.0, -inf)
        self.first_request = 0
        self.size = FetchSize(fetch_bytes)
        self.buckets = buckets
        self.empty_answers = self.damaged_reads = 0

    @property
    def readable_end(self) -> int:
        """End of the readable records in the last response. With read_committed, this is the last stable
        offset."""
        return self.stable_offset if self.rules.read_committed else self.high_watermark

    @property
    def is_blocked(self) -> bool:
        """Return whether an open transaction hides the next record."""
        at_open_transaction = self.stable_offset < self.high_watermark and self.position >= self.stable_offset
        return self.rules.read_committed and at_open_transaction

    def limit(self, fetch_bytes: int, buckets: tuple[TokenBucket, ...]) -> None:
        """Set new quotas, and the maximum fetch size that suits them."""
        self.size.most, self.buckets = fetch_bytes, buckets

    def note_request(self, requested_at: float, last_request: tuple[int, float]) -> None:
        """Record the time of a fetch request that included the lane. `last_request`: number and time of the
        channel's last request with a response. If that request included the lane's current position, the log
        had no further records at that time."""
        was_included = self.first_request <= last_request[0]
        quiet_at = last_request[1] if was_included else self.request_times.quiet_at
        self.request_times = RequestTimes(requested_at, quiet_at)

    def note_request_ahead(self, requested_at: float) -> None:
        """Record the send time of a request for records that were read ahead."""
        before = self.request_times
        self.request_times = RequestTimes(max(before.requested_at, requested_at), before.quiet_at)
