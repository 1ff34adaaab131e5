"""Handles failed Produce requests: retries, errors of the destination, and lost connections."""

from __future__ import annotations

from typing import Final

from mirror.client.log_writer import replication_ms
from mirror.errors import ONE_OWNER_ADVICE, DataLossDetected, DestinationMissing, Fenced, HeadraceError
from mirror.lane.lane import Lane
from mirror.lane.lifecycle import LaneState
from mirror.lane.out_batch import OutBatch, RejectedBatch
from mirror.model.datastreams.lanes import PauseCause
from mirror.protocol.codes import FENCED, MOVED, SEQUENCE_LOST, TRANSIENT, Code, error_of, name_of
from mirror.replication.context import EngineContext
from mirror.replication.handlers.rejections import REFUSED, Rejections
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.registry import LaneRegistry
from mirror.wording import counted

_FIRST_RETRY_SECONDS: Final = 0.01
_LONGEST_RETRY_SECONDS: Final = 0.5
_DAMAGED_TRIES: Final = 3
_ANSWER_SECONDS: Final = 3.0
"""Maximum seconds until a Produce request is sent, plus the round trip."""
_HOLD_SECONDS: Final = 5.0
"""Seconds to keep batches in memory after the connection to the destination was lost."""
_UNREPLICATED: Final = frozenset(
    {Code.REQUEST_TIMED_OUT, Code.NOT_ENOUGH_REPLICAS, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND}
)
"""Produce errors that a broker may return only after waiting for replicas."""


class ProduceFailures:
    """Decides how to continue after Produce requests have failed."""

    def __init__(
        self, context: EngineContext, lanes: LaneRegistry, runner: LaneRunner, rejections: Rejections
    ) -> None:
        self._context = context
        self._lanes = lanes
        self._runner = runner
        self._delivery = lanes.delivery
        self._failures = lanes.failures
        self._transactions = runner.transactions
        self._rejections = rejections

    def end(self, lane: Lane, accepted: OutBatch) -> None:
        """Reset the lane's counts of produce errors after the destination has accepted a batch."""
        queue = lane.queue
        queue.send_tries = 0
        if queue.damaged_sends and accepted.next_offset >= queue.damaged_up_to:
            queue.damaged_sends = 0

    def unwritable(self, lane: Lane) -> None:
        """Handle the loss of the connection of a lane that has no batch in flight."""
        self._hold_less(lane)
        if lane.queue.bytes_in_hand and not lane.queue.in_flight:
            self._runner.later(lane, _HOLD_SECONDS, self._give_up_memory)

    def _give_up_memory(self, lane: Lane) -> None:
        """Free the memory of the lane's batches. The lane later checks whether the destination has them."""
        if not lane.is_writable and lane.queue.bytes_in_hand and not lane.queue.in_flight:
            self._runner.restart(lane, "the destination is unreachable")

    def resolve(self, lane: Lane, trouble: RejectedBatch) -> None:
        """Handle the lane's first produce error, after every batch in flight has a response."""
        code = trouble.code
        if code in TRANSIENT:
            self._delivery.requeue(lane)
            self._try_again(lane, trouble)
        elif code in FENCED:
            refusal = error_of(code, f"cannot write {lane.key.partition} to {lane.spec.destination_topic}")
            self._transactions.fenced(lane, Fenced(refusal.message, advice=ONE_OWNER_ADVICE))
        elif code in SEQUENCE_LOST:
            trouble.outgoing.maybe_stored = True
            self._runner.restart(lane, str(error_of(code, "the destination lost the producer state")))
        elif code == Code.CORRUPT_MESSAGE and lane.queue.damaged_sends < _DAMAGED_TRIES:
            lane.queue.damaged_sends += 1
            lane.queue.damaged_up_to = max(lane.queue.damaged_up_to, trouble.outgoing.next_offset)
            self._runner.restart(lane, "a batch arrived corrupted at the destination")
        elif code in REFUSED:
            self._rejections.refused(lane, trouble)
        else:
            doing = f"cannot write {lane.key.partition} to {lane.spec.destination_topic}"
            right, cluster = f"Write on topic {lane.target.topic}", self._lanes.sink(lane).cluster
            self._runner.pause(lane, cluster.error(code, doing, right, trouble.message))

    def _try_again(self, lane: Lane, trouble: RejectedBatch) -> None:
        sink, code = self._lanes.sink(lane), trouble.code
        self._failures.note(
            lane,
            PauseCause.DESTINATION_AWAY,
            f"cannot write to {lane.target} at {sink.cluster.name}: {name_of(code)}",
            replication_ms(sink.cluster.timeout_seconds) / 1000 + _ANSWER_SECONDS,
            since=trouble.outgoing.sent_at,
        )
        if code in MOVED:
            if not sink.follow_leader(lane):
                sink.relocate([lane])
            return
        if code in _UNREPLICATED:
            self._send_alone(lane)
        lane.queue.send_tries += 1
        wait = min(_FIRST_RETRY_SECONDS * 2 ** min(lane.queue.send_tries, 10), _LONGEST_RETRY_SECONDS)
        sink.detach(lane)
        self._runner.later(lane, wait, self._attach)

    def _send_alone(self, lane: Lane) -> None:
        """Send the lane's batches one at a time, on the connection for slow partitions, until the destination
        accepts one. Release the memory of all batches that the destination cannot have stored."""
        lane.queue.is_slow = True
        self._hold_less(lane)

    def share_requests(self, lane: Lane) -> None:
        """Move a slow lane back to the shared connection, because the destination has accepted a batch."""
        lane.queue.is_slow = False
        sink = self._lanes.sink(lane)
        sink.detach(lane)
        sink.attach(lane)

    def _hold_less(self, lane: Lane) -> None:
        self._runner.give_way(lane)
        for item in lane.queue.unsent:
            if isinstance(item, OutBatch):
                item.detach(self._context.budget_of(lane.spec.source, live=lane.read.is_live))

    def _attach(self, lane: Lane) -> None:
        if lane.writer is None:
            self._lanes.sink(lane).attach(lane)

    def destination_lost(self, lane: Lane, *, is_gap: bool) -> None:
        """Pause or restart the lane because the destination has lost records.

        An open transaction must not be committed. If the destination lost the abort marker of an earlier
        transaction with the same producer id, the commit would include the records of that transaction.
        """
        error = lane.halting_loss if is_gap else None
        self._transactions.invalidate(lane)
        if error is not None:
            self._runner.pause(lane, error)
        elif lane.ownership.transaction is not None:
            self._runner.restart(lane, "the destination lost the end of its log")

    def target_relocated(self, lane: Lane) -> None:
        """Check with refreshed metadata that the destination topic was not recreated before producing."""
        if lane.state not in (LaneState.COPYING, LaneState.DRAINING, LaneState.RECOVERING):
            return
        problem = self.target_problem(lane)
        if problem is None:
            sink = self._lanes.sink(lane)
            sink.attach(lane)
            if lane.writer is None:
                sentence = f"{lane.target} at {sink.cluster.name} has no leader"
                self._failures.note(lane, PauseCause.DESTINATION_AWAY, sentence)
        else:
            self._runner.pause(lane, problem)

    def target_problem(self, lane: Lane) -> HeadraceError | None:
        """Return the error if refreshed metadata of the destination topic prevents writing, or None."""
        cluster = self._lanes.sink(lane).cluster
        name, number = lane.target
        topic = cluster.topics.get(name)
        if topic is None or topic.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            return DestinationMissing(
                f"topic {name} does not exist on {cluster.name}",
                advice="wait until the leader instance has created the topic, or run headrace copy",
            )
        if topic.error and topic.error not in TRANSIENT:
            return cluster.error(
                topic.error, f"cannot describe topic {name} on {cluster.name}", f"Write on topic {name}"
            )
        if not topic.error and number >= len(topic.leaders):
            return DestinationMissing(
                f"topic {name} on {cluster.name} has only {counted(len(topic.leaders), 'partition')}",
                advice="it needs as many as the source topic",
            )
        identity = cluster.topic_id(name)
        if lane.progress.target_id and identity and identity != lane.progress.target_id:
            return DataLossDetected(
                f"topic {name} on {cluster.name} was deleted and recreated: mirrored records are lost",
                advice="headrace datastream restart-from NAME earliest copies everything again; on_loss ="
                " continue continues at the checkpoint without the history",
            )
        return None
