"""A lane with its place in the machinery: who reads for it, who writes for it, what it waits for."""

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
"""Each response takes this part from the largest batch that a lane remembers, unless it has larger ones."""


class TransactionState:
    """The transactions of an exactly-once lane. `started_at`: monotonic seconds of the open one's
    beginning, None between two. `progress_sequence`: of the next record in the progress topic."""

    __slots__ = (
        "asked_at",
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
        """Up to there the destination had no open transaction when the lane took its id. A batch that is
        stored in front of it says that the log has lost something since, perhaps an abort."""
        self.asked_at = 0.0
        """When the newest one was asked for: for its coordinator it is not older than that."""
        self.started_at: float | None = None
        self.may_be_open = False
        """It was asked for, and is not known to have ended."""
        self.is_beginning = False
        self.is_ending = False
        self.has_failed = False
        """It cannot be committed; what it holds is copied again."""
        self.progress_sequence = 0
        self.target_next: int | None = None
        """The lane's, before the newest one's first batch."""


class Disputed(NamedTuple):
    """The identity that an exactly-once lane had: another owner may have taken it since. `stored`: the
    progress that the lane had loaded or committed last; `refusal`: what the destination has said of it."""

    former: FormerIdentity
    stored: Version | None
    refusal: str = ""
    seconds: float = 0.0
    """How long the transaction was open that was refused."""

    def lost(self) -> Fenced:
        """The error for a lane that another owner has."""
        return Fenced(
            self.refusal or "another owner has taken its producer id",
            advice="let only one copy of a state, or one service, run",
        )


class Reader(Protocol):
    """Reads partitions from one broker."""

    def include(self, lane: LiveLane) -> None:
        """Read on from the lane's position with the next request."""
        ...

    def exclude(self, lane: LiveLane) -> None:
        """Do not read for now."""
        ...

    def detach(self, lane: LiveLane) -> None:
        """Forget the lane."""
        ...

    def is_silent(self, now: float) -> bool:
        """Whether the broker has not answered for some seconds, or answers that late."""
        ...

    def is_current(self, now: float) -> bool:
        """Whether what the broker has said is what it would have said some seconds ago, at the latest: it
        answers in time, and no quota of its keeps it from being asked."""
        ...

    def unanswered_since(self) -> float:
        """When the broker's answer to the oldest question was due, in monotonic seconds; infinity where none
        is open."""
        ...


class Writer(Protocol):
    """Writes batches to one broker, whose id `broker` is."""

    broker: int

    def wake(self, lane: LiveLane) -> None:
        """The lane has something to send."""
        ...

    def unanswered_since(self) -> float:
        """When the broker's answer to the oldest question was due, in monotonic seconds; infinity where none
        is open."""
        ...

    def detach(self, lane: LiveLane) -> None:
        """Forget the lane; nothing of it is outstanding."""
        ...


_NOTHING_MEASURED: Final[tuple[int | None, int, int]] = None, 0, 0
_DRAINS: Final = frozenset({None, Intent.FINISH, Intent.STOP, Intent.PAUSE_WHEN_DRAINED})


class LiveLane(Lane):
    """`turn` is the generation of the lane; what was begun in an earlier one no longer counts. It, `state`,
    `intent` and `pause` are written by `LaneRunner` alone.

    `is_live`: up to date, so it is read through the channel that catching up cannot delay. `is_ready`:
    queued for sending. `is_slow`: the destination has not enough replicas of its partition, so its batches go
    alone. `is_writable`: there is a connection to write to; without one nothing is read.
    `waits`: something that is not the source keeps it from reading; `heard_at`: when the source has said
    meanwhile where it ends, in monotonic seconds. `is_loaded`: its stored progress has
    been read. `is_announced`: its start has been reported. `has_owned`: it has had a producer id here.
    `identity_asked_at`: when what its first batch needs was asked for, in monotonic seconds, or infinity.
    `damaged_reads`: responses in a row whose batches were damaged. `damaged_sends`: how often the destination
    has called a batch below the source offset `damaged_up_to` damaged, and taken none that reaches there
    since. `send_tries`: how often it has answered that it takes no batch now, and taken none since.
    `is_forgotten`: it was copied before, and its progress is gone. `is_broken`: a step has failed half-way,
    so what is known of it in memory does not count, and nothing of that may be stored.
    """

    __slots__ = (
        "batch_bytes",
        "batch_spread",
        "buckets",
        "damaged_reads",
        "damaged_sends",
        "damaged_up_to",
        "disputed",
        "empty_answers",
        "fetch_bytes",
        "found",
        "has_owned",
        "heard_at",
        "held_by",
        "hidden",
        "identity_asked_at",
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
        """Where the lane writes."""
        self.turn = 0
        self.intent: Intent | None = None
        self.reader: Reader | None = None
        self.writer: Writer | None = None
        self.place: Place | None = None
        self.replica: Replica | None = None
        """Which replica its source reads; None when the leader is to be asked."""
        self.empty_answers = 0
        """Answers in a row that brought no records though there are some."""
        self.is_live = self.is_ready = self.is_slow = False
        self.is_writable = self.is_loaded = self.is_announced = self.has_owned = False
        self.identity_asked_at = inf
        self.is_forgotten = self.is_broken = False
        self.found: LaneProgress | None = None
        """The stored progress that has been read and not been compared with the two clusters yet."""
        self.was_measured: tuple[bool, bool, bool] | None = None
        """Whether it had something to do, whether its lag was not known, and whether an answer was overdue,
        when that was said last."""
        self.overdue, self.measured = ANSWERED, _NOTHING_MEASURED
        """The answers that it waited for when it was measured last; and the age of what waited then, in ms,
        with the records and bytes that were copied since it was measured before."""
        self.watch = PositionWatch()
        self.needs_fence = False
        """Somebody, a former owner or ourselves, may have batches under way that we do not know of."""
        self.waits, self.heard_at = False, -inf
        self.fetch_bytes = fetch_bytes
        """Most bytes to ask for at a time, unless a batch is larger."""
        self.batch_bytes = 0
        """The largest batch that came lately, or that must be there; 0 when nothing is known."""
        self.batch_spread = 0
        """How much the sizes of batches differ, in bytes."""
        self.buckets = buckets
        self.damaged_reads = self.damaged_sends = self.damaged_up_to = self.send_tries = 0
        self.since_stable = 0.0
        self.held_by, self.hidden = "", (-1, -1)
        """What is known of a transaction at the source that hangs, empty when none does; and the offset and
        time stamp (epoch ms, -1: none) of the first record that one has hidden, as far as that was read."""
        self.stalled_by = ""
        """What it waits for that has not happened for some seconds; empty when it gets on."""
        self.size_cap: int | None = None
        """Batches larger than this were refused although the topic's settings allow them."""
        self.transaction: TransactionState | None = None
        self.disputed: Disputed | None = None
        """The identity that it had, until it has one again: somebody else may have taken it meanwhile."""
        self.started_at: float | None = None
        """When its engine took it, in monotonic seconds."""

    @property
    def is_identifying(self) -> bool:
        """Whether it waits for its identity, and for what else its first batch needs."""
        return self.identity_asked_at < inf

    @property
    def may_drain(self) -> bool:
        """Whether what is in hand is still to be sent."""
        return self.intent in _DRAINS

    @property
    def may_read(self) -> bool:
        """Whether it copies, and nothing else is about to happen to it."""
        return self.state is LaneState.COPYING and self.intent is None

    @property
    def in_hand(self) -> InHand:
        """What decides whether its intent can be carried out."""
        return InHand(
            self.in_flight > 0,
            self.is_drained,
            self.trouble is not None,
            self.is_in_transaction,
            self.is_fenced or self.is_broken or self.has_failed_transaction,
        )

    @property
    def halting_loss(self) -> DataLossDetected | None:
        """What to pause it with for what its destination has lost; None where it continues behind that."""
        if not self.target_loss or self.spec.policy.on_loss is not OnLoss.HALT:
            return None
        advice = (
            "copy everything again with headrace datastream restart-from, or set on_loss = continue to"
            " continue behind the gap"
        )
        return DataLossDetected(self.target_loss, advice=advice)

    def begin_target(self, sentence: str) -> None:
        """The destination is another log, where nothing lies that was mirrored before. A former owner may
        have written to it and not stored that. It knows no producer yet, so it takes any first sequence: a
        second batch could overtake a first one that it refuses."""
        self.is_established = False
        self.gaps.append(sentence)
        self.offset_map = OffsetMap()
        self.target_id, self.target_loss, self.owned_from = b"", "", None
        if self.target_next is not None:
            self.target_next = 0

    def accept_target_loss(self) -> None:
        """Continue behind what the destination has lost."""
        self.target_loss = ""
        self.dirty = True

    def load(self, progress: LaneProgress | None) -> None:
        """What is stored of the lane is this, or nothing."""
        self.is_loaded = True
        if progress is None:
            self.is_clean = True
            self.position = -1
        else:
            self.restore(progress)
            self.found = progress
            self.needs_fence = not progress.clean

    def disown(self) -> None:
        """Batches may be under way that we do not know of: send nothing more without fencing them."""
        self.lay_down()
        self.needs_fence = True

    def lay_down(self) -> ProducerStamp | None:
        """Write nothing more under the identity that it has, and return it. That of transactions is only
        taken again when it is known that no other owner has it; until then the lane has no transaction, and
        what it knows of an open one is not committed."""
        identity, self.identity = self.identity, None
        if identity is not None and identity.transactional and self.disputed is None:
            self.dispute(identity)
        self.is_loaded = self.is_loaded and not self.is_in_transaction
        self.transaction = None
        return identity

    def take_id(self, stamp: ProducerStamp) -> None:
        """This is the lane's id for transactions now, and those under the former one have ended. Until it is
        known to be up to date, the id is disputed: what follows may fail."""
        self.transaction = None
        self.dispute(stamp)

    def dispute(self, identity: ProducerStamp, refusal: str = "", seconds: float = 0.0) -> None:
        """Whether another owner has the lane's identity is to be looked at before it is taken again."""
        is_open = self.transaction is not None and self.transaction.may_be_open
        former = FormerIdentity((identity.producer_id, identity.epoch), is_open)
        self.disputed = Disputed(former, self.stored, refusal, seconds)

    @property
    def is_fenced(self) -> bool:
        """Whether another owner has taken the lane for good; what we know of it must not be stored."""
        return self.pause is not None and self.pause.lasting

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction of the lane is open."""
        return self.transaction is not None and self.transaction.started_at is not None

    @property
    def has_failed_transaction(self) -> bool:
        """Whether the open transaction can only be aborted."""
        return self.transaction is not None and self.transaction.has_failed

    @property
    def transactional_id(self) -> bytes | None:
        """The id of the transaction that its batches belong to, None outside of transactions."""
        return identity_name(self.key).encode() if self.identity and self.identity.transactional else None

    def limit(self, fetch_bytes: int, buckets: tuple[TokenBucket, ...]) -> None:
        """Other quotas from now on, and the takes that suit them."""
        self.fetch_bytes, self.buckets = fetch_bytes, buckets

    def note_batch(self, size: int) -> None:
        """The largest batch of a response, or one that it was too small for, has `size` bytes."""
        self.batch_spread = spread_of(self.batch_spread, self.batch_bytes, size)
        self.batch_bytes = max(size, self.batch_bytes - self.batch_bytes // _FORGETTING)

    def fetch_position(self, leader_epoch: int, share: int) -> FetchPosition:
        """What to ask the source for next; `share`: bytes of a response that are for this lane."""
        size = bytes_to_ask(share, self.fetch_bytes, self.batch_bytes, self.batch_spread)
        return FetchPosition(leader_epoch, self.position, self.source.leader_epoch, size)

    def hear_end(self, end: int, now_ms: int, now: float) -> None:
        """Note where the source ends for a lane that does not read now. `now`: monotonic seconds."""
        self.note_end(max(self.high_watermark, end), end, now_ms)
        self.heard_at = now

    @property
    def is_ambiguous(self) -> bool:
        """Whether the destination may hold batches that we do not know of."""
        return any(
            isinstance(item, OutBatch) and item.maybe_stored and not item.acknowledged
            for item in [*self.sent, *self.queue]
        )

    def recount(self) -> None:
        """Count again what is in hand, after a step that failed half-way."""
        batches = [item for item in [*self.sent, *self.queue] if isinstance(item, OutBatch)]
        self.in_flight = sum(item.outstanding for item in batches)
        self.bytes_in_hand = sum(len(item.batch) for item in batches)

    def free_all(self) -> None:
        """Forget all that is in hand: for a lane that fails in an unforeseen way, and is loaded again.
        Buffers that a request may still read from are let go when that is answered."""
        self._note_waiting()
        items, self.queue, self.sent = [*self.sent, *self.queue], [], []
        self.in_flight = self.bytes_in_hand = 0
        self.trouble = None
        for item in items:
            if isinstance(item, OutBatch):
                item.forget()


def identity_name(key: LaneKey) -> str:
    """The transactional id of a lane: its next owner fences the former one."""
    return f"headrace-{key.group}-{key.partition.topic}-{key.partition.partition}"
