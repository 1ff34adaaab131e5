"""A lane with its runtime state: the channels that read and write for it, and its waits."""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple, Protocol

from mirror.errors import DataLossDetected, Fenced
from mirror.lane.flow import Replica, TokenBucket, bytes_to_ask, spread_of
from mirror.lane.lane import Lane
from mirror.lane.lifecycle import InHand, Intent, LaneState
from mirror.lane.offset_map import OffsetMap
from mirror.lane.out_batch import OutBatch
from mirror.lane.progress import LaneProgress, Version
from mirror.model.datastreams.lanes import ANSWERED, LaneKey, LaneSpec
from mirror.model.datastreams.policy import OnLoss
from mirror.model.movement.position_watch import PositionWatch
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import ProducerStamp
from mirror.protocol.control.former_identity import FormerIdentity
from mirror.protocol.fetch import FetchPosition
from mirror.protocol.fetch_session import Place

_FORGETTING: Final = 16
"""Decay of the remembered batch size: each response without a larger batch reduces it by this fraction."""


class TransactionState:
    """State of an exactly-once lane's transactions.

    `started_at`: start of the open transaction in monotonic seconds, None between two. `progress_sequence`:
    sequence of the next record in the progress topic.
    """

    __slots__ = (
        "requested_at",
        "floor",
        "has_failed",
        "is_beginning",
        "is_ending",
        "may_be_open",
        "progress_sequence",
        "started_at",
        "target_next",
    )

    def __init__(self, floor: int) -> None:
        self.floor = floor
        """Offset below which the destination had no open transaction when the lane took its id. A batch
        stored below it proves that the log lost records since, perhaps an abort marker."""
        self.requested_at = 0.0
        """Time at which the current transaction was requested; the coordinator started it no earlier."""
        self.started_at: float | None = None
        self.may_be_open = False
        """Whether the transaction was requested and may not have ended."""
        self.is_beginning = False
        self.is_ending = False
        self.has_failed = False
        """Whether it can only be aborted; its records are copied again."""
        self.progress_sequence = 0
        self.target_next: int | None = None
        """The lane's `target_next` before the first batch of the current transaction."""


class DisputedIdentity(NamedTuple):
    """Former identity of an exactly-once lane, which another owner may have taken since.

    `stored`: version of the progress that the lane last loaded or committed. `refusal`: error of the
    destination for that identity.
    """

    former: FormerIdentity
    stored: Version | None
    refusal: str = ""
    seconds: float = 0.0
    """Seconds for which the rejected transaction was open."""

    def lost(self) -> Fenced:
        """Return the error for a lane taken by another owner."""
        return Fenced(
            self.refusal or "another owner has taken its producer id",
            advice="run only one service, or one copy per state",
        )


class Reader(Protocol):
    """A channel that fetches partitions from one broker."""

    def include(self, lane: LiveLane) -> None:
        """Include the lane in the next fetch, from its position."""
        ...

    def exclude(self, lane: LiveLane) -> None:
        """Exclude the lane from fetches for now."""
        ...

    def detach(self, lane: LiveLane) -> None:
        """Forget the lane."""
        ...

    def is_silent(self, now: float) -> bool:
        """Return whether the broker has not responded for some seconds."""
        ...

    def is_current(self, now: float) -> bool:
        """Return whether the broker responds within some seconds and does not throttle fetches."""
        ...

    def unanswered_since(self) -> float:
        """Return the due time of the oldest outstanding request, in monotonic seconds; infinity if none."""
        ...


class Writer(Protocol):
    """A channel that produces to one broker with id `broker`."""

    broker: int

    def wake(self, lane: LiveLane) -> None:
        """Queue the lane, which has batches to send."""
        ...

    def unanswered_since(self) -> float:
        """Return the due time of the oldest outstanding request, in monotonic seconds; infinity if none."""
        ...

    def detach(self, lane: LiveLane) -> None:
        """Forget the lane, which has no batch in flight."""
        ...


_NOTHING_MEASURED: Final[tuple[int | None, int, int]] = None, 0, 0
_DRAINS: Final = frozenset({None, Intent.FINISH, Intent.STOP, Intent.PAUSE_WHEN_DRAINED})


class LiveLane(Lane):
    """A lane with its connections and runtime state.

    `turn` is the generation of the lane; work begun in an earlier one is void. Only `LaneRunner` writes
    `turn`, `state`, `intent` and `pause`.

    `is_live`: up to date, so fetched in the tier that backlogs cannot delay. `is_ready`: queued for sending.
    `requested_at`: when the last answered fetch was sent, in monotonic seconds; `first_request`: number of the
    channel's request that first included the present position.
    `is_slow`: its destination partition is under-replicated, so its batches are sent alone. `is_writable`:
    connected to the destination; otherwise the lane is not fetched. `waits`: excluded from fetches for a
    reason other than the source; `answered_at`: time of the last end offset received meanwhile, in monotonic
    seconds. `is_loaded`: stored progress has been read. `is_announced`: the start has been reported.
    `has_owned`: has had a producer id in this engine. `identity_requested_at`: time at which the prerequisites of
    its first batch were requested, in monotonic seconds, or infinity. `damaged_reads`: consecutive responses
    with corrupt batches. `damaged_sends`: number of batches below source offset `damaged_up_to` rejected as
    corrupt since the destination accepted one that reaches it. `send_tries`: consecutive transient produce
    errors. `is_forgotten`: copied before, but its progress is lost. `is_broken`: a step failed halfway, so
    the state in memory is invalid and must not be stored.
    """

    __slots__ = (
        "requested_at",
        "batch_bytes",
        "batch_spread",
        "buckets",
        "damaged_reads",
        "damaged_sends",
        "damaged_up_to",
        "disputed",
        "empty_answers",
        "fetch_bytes",
        "first_request",
        "found",
        "has_owned",
        "answered_at",
        "held_by",
        "hidden",
        "identity_requested_at",
        "intent",
        "is_announced",
        "is_broken",
        "is_forgotten",
        "is_live",
        "is_loaded",
        "is_ready",
        "is_slow",
        "is_writable",
        "measured",
        "needs_fence",
        "overdue",
        "place",
        "reader",
        "replica",
        "send_tries",
        "since_stable",
        "size_cap",
        "stalled_by",
        "started_at",
        "target",
        "transaction",
        "turn",
        "waits",
        "was_measured",
        "watch",
        "writer",
    )

    def __init__(self, spec: LaneSpec, fetch_bytes: int, buckets: tuple[TokenBucket, ...]) -> None:
        super().__init__(spec)
        self.target = TopicPartition(spec.destination_topic, spec.key.partition.partition)
        """Destination partition."""
        self.turn = 0
        self.intent: Intent | None = None
        self.reader: Reader | None = None
        self.writer: Writer | None = None
        self.place: Place | None = None
        self.replica: Replica | None = None
        """Replica to fetch from; None to let the leader choose."""
        self.empty_answers = 0
        """Consecutive empty responses although records remain."""
        self.is_live = self.is_ready = self.is_slow = False
        self.is_writable = self.is_loaded = self.is_announced = self.has_owned = False
        self.identity_requested_at = inf
        self.is_forgotten = self.is_broken = False
        self.found: LaneProgress | None = None
        """Stored progress that has been read but not compared with the clusters yet."""
        self.was_measured: tuple[bool, bool, bool] | None = None
        """Last reported flags: had work, lag unknown, response overdue."""
        self.overdue, self.measured = ANSWERED, _NOTHING_MEASURED
        """Overdue responses at the last measurement; and the age of the backlog then in ms, with the records
        and bytes copied in that interval."""
        self.watch = PositionWatch()
        self.needs_fence = False
        """Whether unknown batches of a former owner or of this lane may be in flight."""
        self.waits, self.answered_at = False, -inf
        self.requested_at, self.first_request = 0.0, 0
        self.fetch_bytes = fetch_bytes
        """Maximum bytes to request at a time, unless a batch is larger."""
        self.batch_bytes = 0
        """Size of the largest recent or expected batch, 0 if unknown."""
        self.batch_spread = 0
        """Variation of batch sizes in bytes."""
        self.buckets = buckets
        self.damaged_reads = self.damaged_sends = self.damaged_up_to = self.send_tries = 0
        self.since_stable = 0.0
        self.held_by, self.hidden = "", (-1, -1)
        """Description of a hanging source transaction, empty without one; and the offset and timestamp (epoch
        ms, -1 if unknown) of the first record that it blocks."""
        self.stalled_by = ""
        """Reason for a wait of more than some seconds; empty while the lane makes progress."""
        self.size_cap: int | None = None
        """Batch size limit learned from rejections despite the topic's settings."""
        self.transaction: TransactionState | None = None
        self.disputed: DisputedIdentity | None = None
        """Former identity until the lane has one again; another owner may have taken it meanwhile."""
        self.started_at: float | None = None
        """Time at which the engine took the lane, in monotonic seconds."""

    @property
    def is_identifying(self) -> bool:
        """Return whether the lane waits for its identity and other prerequisites of its first batch."""
        return self.identity_requested_at < inf

    @property
    def may_drain(self) -> bool:
        """Return whether the lane still sends its queued batches."""
        return self.intent in _DRAINS

    @property
    def may_read(self) -> bool:
        """Return whether the lane is copying with no pending intent."""
        return self.state is LaneState.COPYING and self.intent is None

    @property
    def in_hand(self) -> InHand:
        """State of the held batches, which decides whether the intent can be carried out."""
        return InHand(
            self.in_flight > 0,
            self.is_drained,
            self.trouble is not None,
            self.is_in_transaction,
            self.is_fenced or self.is_broken or self.has_failed_transaction,
        )

    @property
    def halting_loss(self) -> DataLossDetected | None:
        """Error for records lost by the destination; None if the policy is to continue."""
        if not self.target_loss or self.spec.policy.on_loss is not OnLoss.HALT:
            return None
        advice = (
            "copy everything again with headrace datastream restart-from, or accept the gap with"
            " on_loss = continue"
        )
        return DataLossDetected(self.target_loss, advice=advice)

    def begin_target(self, sentence: str) -> None:
        """Start over in a new destination log that has no mirrored records.

        A former owner may have written to it without storing progress. The log knows no producer yet, so it
        accepts any first sequence: a second batch could overtake a rejected first one.
        """
        self.is_established = False
        self.gaps.append(sentence)
        self.offset_map = OffsetMap()
        self.target_id, self.target_loss, self.owned_from = b"", "", None
        if self.target_next is not None:
            self.target_next = 0

    def accept_target_loss(self) -> None:
        """Continue after the records that the destination lost."""
        self.target_loss = ""
        self.dirty = True

    def load(self, progress: LaneProgress | None) -> None:
        """Restore the lane from stored progress, or start without any."""
        self.is_loaded = True
        if progress is None:
            self.is_clean = True
            self.position = -1
        else:
            self.restore(progress)
            self.found = progress
            self.needs_fence = not progress.clean

    def disown(self) -> None:
        """Require fencing before the next batch, because unknown batches may be in flight."""
        self.lay_down()
        self.needs_fence = True

    def lay_down(self) -> ProducerStamp | None:
        """Stop writing under the current identity and return it.

        A transactional identity is taken again only once it is known that no other owner has it. Until then
        the lane has no transaction, and an open one is not committed.
        """
        identity, self.identity = self.identity, None
        if identity is not None and identity.transactional and self.disputed is None:
            self.dispute(identity)
        self.is_loaded = self.is_loaded and not self.is_in_transaction
        self.transaction = None
        return identity

    def take_id(self, stamp: ProducerStamp) -> None:
        """Take this transactional id; the transactions of the former one have ended.

        The id stays disputed until the lane is verified to be up to date, because the next steps may fail.
        """
        self.transaction = None
        self.dispute(stamp)

    def dispute(self, identity: ProducerStamp, refusal: str = "", seconds: float = 0.0) -> None:
        """Require a check for another owner before the identity is taken again."""
        is_open = self.transaction is not None and self.transaction.may_be_open
        former = FormerIdentity((identity.producer_id, identity.epoch), is_open)
        self.disputed = DisputedIdentity(former, self.stored, refusal, seconds)

    @property
    def is_fenced(self) -> bool:
        """Return whether another owner has taken the lane for good, so its state must not be stored."""
        return self.pause is not None and self.pause.lasting

    @property
    def is_in_transaction(self) -> bool:
        """Return whether a transaction of the lane is open."""
        return self.transaction is not None and self.transaction.started_at is not None

    @property
    def has_failed_transaction(self) -> bool:
        """Return whether the open transaction can only be aborted."""
        return self.transaction is not None and self.transaction.has_failed

    @property
    def transactional_id(self) -> bytes | None:
        """Transactional id of the lane's batches, None outside of transactions."""
        return identity_name(self.key).encode() if self.identity and self.identity.transactional else None

    def limit(self, fetch_bytes: int, buckets: tuple[TokenBucket, ...]) -> None:
        """Set new quotas and the matching fetch size."""
        self.fetch_bytes, self.buckets = fetch_bytes, buckets

    def note_batch(self, size: int) -> None:
        """Record the size of the largest batch of a response, or of a batch too large for it."""
        self.batch_spread = spread_of(self.batch_spread, self.batch_bytes, size)
        self.batch_bytes = max(size, self.batch_bytes - self.batch_bytes // _FORGETTING)

    def fetch_position(self, leader_epoch: int, share: int) -> FetchPosition:
        """Return the position and size of the next fetch. `share`: bytes of a response for this lane."""
        size = bytes_to_ask(share, self.fetch_bytes, self.batch_bytes, self.batch_spread)
        return FetchPosition(leader_epoch, self.position, self.source.leader_epoch, size)

    def note_request(self, requested_at: float, told: tuple[int, float]) -> None:
        """Record when the request was sent whose response concerns the lane, and number and time of the
        last answered one before it: unless it named another position, it brought no news."""
        self.requested_at = requested_at
        if self.first_request <= told[0]:
            self.times.quiet(told[1])

    def hear_end(self, end: int, now_ms: int, now: float, asked: float) -> None:
        """Record the end offset for a lane that is not fetching, requested at `asked` and received at `now`
        (monotonic seconds)."""
        self.note_end(max(self.high_watermark, end), end, now_ms)
        self.answered_at = now
        if not self.rules.read_committed:  # otherwise more records may have been appended
            self.times.record_end(end, asked, now, now_ms, self.checkpoint)

    @property
    def is_ambiguous(self) -> bool:
        """Return whether the destination may have batches that are not acknowledged."""
        return any(
            isinstance(item, OutBatch) and item.maybe_stored and not item.acknowledged
            for item in [*self.sent, *self.queue]
        )

    def recount(self) -> None:
        """Recompute the totals of held batches after a step that failed halfway."""
        batches = [item for item in [*self.sent, *self.queue] if isinstance(item, OutBatch)]
        self.in_flight = sum(item.outstanding for item in batches)
        self.bytes_in_hand = sum(len(item.batch) for item in batches)

    def free_all(self) -> None:
        """Drop all held batches, for a lane that failed unexpectedly and is loaded again.

        Buffers of requests in flight are released with their responses.
        """
        self._note_waiting()
        items, self.queue, self.sent = [*self.sent, *self.queue], [], []
        self.in_flight = self.bytes_in_hand = 0
        self.trouble = None
        for item in items:
            if isinstance(item, OutBatch):
                item.forget()


def identity_name(key: LaneKey) -> str:
    """Return the transactional id of a lane, with which the next owner fences the former one."""
    return f"headrace-{key.group}-{key.partition.topic}-{key.partition.partition}"
