"""State of reading the source partition of a lane: position, log end, and fetch sizes."""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple

from mirror.lane.flow import Replica, TokenBucket
from mirror.lane.rules import RoutingRules
from mirror.model.movement.append_times import AppendTimes
from mirror.model.movement.exemptions import CatchUpGrace
from mirror.protocol.fetch_session import Place

_FORGETTING: Final = 16
"""A response with smaller batches reduces the remembered batch size by 1/16."""
_DEVIATIONS: Final = 4
"""Factor of the deviation of batch sizes, as in RFC 6298."""
_MOST_ROOM: Final = 16
"""A Fetch request asks for at most 1/16 of a batch more than needed."""


class FetchSize:
    """Determines how many bytes to request for the lane in Fetch requests.

    `most`: maximum size, unless a batch is larger. `batch`: size of the largest recent or expected batch, 0
    if unknown. `spread`: mean deviation of batch sizes, as in RFC 6298.
    """

    __slots__ = ("batch", "most", "spread")

    def __init__(self, most: int) -> None:
        self.most = most
        self.batch = self.spread = 0

    def note_batch(self, size: int) -> None:
        """Update the expected batch size. `size`: of the largest batch in a response, or of a truncated
        batch."""
        self.spread += (abs(size - self.batch) - self.spread) // 4
        self.batch = max(size, self.batch - self.batch // _FORGETTING)

    def grow(self, most: int) -> None:
        """Double the fetch size after an empty response, up to `most`."""
        tried = max(self.most, self.batch)
        self.batch = min(tried * 2, max(most, tried))

    def of_share(self, share: int) -> int:
        """Return the number of bytes to request: whole batches of about `share` bytes in total.

        `share`: this lane's part of a response. The lane requests at least one batch, and at most `most`
        bytes otherwise. A broker truncates its response at the requested size, and a truncated batch must be
        sent again. The request therefore includes room for larger batches, according to the variation of
        sizes. The number of batches is rounded to the nearest integer: rounding up would fill responses
        before they contain every partition.
        """
        most, batch = self.most, self.batch
        allowed = min(share, most)
        if not batch:
            return allowed
        roomy = batch + min(_DEVIATIONS * self.spread, batch // _MOST_ROOM)
        count = max((allowed + roomy // 2) // roomy, 1)
        return roomy * (count - 1 if count > 1 and roomy * count > most else count)


class RequestTimes(NamedTuple):
    """Send times of answered Fetch requests (monotonic seconds). `requested_at`: of the last request.
    `quiet_at`: of the last request that reached the end of the log."""

    requested_at: float
    quiet_at: float


class LaneRead:
    """State of reading one source partition.

    `waiting`: source offset and timestamp of the first dropped batch, which will be fetched again.
    `caught_up_ms`: wall time at which the lane last reached the end of the source. `grace`: records that do
    not count in the latency until the lane has caught up. `rules`: how batches are processed. `is_live`: the
    lane is up to date, and uses channels without backlogs. `waits`: the lane is not fetched, for a reason
    other than the source; `answered_at`: time of the last received end offset during that wait (monotonic
    seconds). `first_request`: number of the channel's first request from the current position. `replica`:
    broker to fetch from; None to let the leader choose. `empty_answers`: consecutive empty responses although
    records remain; `damaged_reads`: consecutive responses with corrupt batches.
    """

    __slots__ = (
        "answered_at",
        "buckets",
        "caught_up_ms",
        "damaged_reads",
        "empty_answers",
        "first_request",
        "grace",
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
        self, fetch_bytes: int, buckets: tuple[TokenBucket, ...], grace: CatchUpGrace | None = None
    ) -> None:
        self.position = 0
        self.high_watermark = self.stable_offset = self.log_start = -1
        self.waiting = (-1, -1)
        self.times = AppendTimes()
        self.caught_up_ms = -1
        self.grace = grace
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
        """End offset of the readable records; with read_committed, the last stable offset."""
        return self.stable_offset if self.rules.read_committed else self.high_watermark

    @property
    def is_blocked(self) -> bool:
        """Return whether an open transaction hides the next record from the lane."""
        at_open_transaction = self.stable_offset < self.high_watermark and self.position >= self.stable_offset
        return self.rules.read_committed and at_open_transaction

    def limit(self, fetch_bytes: int, buckets: tuple[TokenBucket, ...]) -> None:
        """Set new quotas for the lane, and derive its maximum fetch size."""
        self.size.most, self.buckets = fetch_bytes, buckets

    def note_request(self, requested_at: float, last_request: tuple[int, float]) -> None:
        """Note the send time of a Fetch request that includes the lane.

        `last_request`: number and time of the channel's last answered request. If that request was made from
        the current position, the lane had reached the end of the log at that time.
        """
        was_included = self.first_request <= last_request[0]
        quiet_at = last_request[1] if was_included else self.request_times.quiet_at
        self.request_times = RequestTimes(requested_at, quiet_at)

    def note_request_ahead(self, requested_at: float) -> None:
        """Note the send time of a read-ahead request for the lane."""
        before = self.request_times
        self.request_times = RequestTimes(max(before.requested_at, requested_at), before.quiet_at)
