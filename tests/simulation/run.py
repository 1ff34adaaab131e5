"""Execution of a schedule on an engine between fake clusters, with a final comparison of every record."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from random import Random
from typing import Final

from mirror.jobs.verify_job import VerifyJob, audit_copy
from mirror.model.datastreams.lanes import LanePaused
from mirror.model.datastreams.policy import OnRejection
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicSelection
from mirror.replication.engine import BatchEngine
from tests.fakes.broker.batches import ABORT, marker
from tests.fakes.broker.cluster import FakeCluster
from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.mirrored import MirroredFakes
from tests.fakes.broker.virtual import Killed
from tests.simulation.judge import Judge
from tests.simulation.schedule import Event, EventKind, Plan
from tests.simulation.unreadable import OPENED_BYTES, UnreadableBatches

_REPORT_SECONDS: Final = 20.0
"""Time within which a lane reports that it no longer waits."""
_TOPIC: Final = "t"
_OF_BATCHES: Final = frozenset({EventKind.UNDECODABLE, EventKind.OVERSIZED, EventKind.COMPACTION})
_OF_ENGINE: Final = frozenset({EventKind.CRASH, EventKind.HANDOVER, EventKind.FREEZE})
_TIGHT: Final = {
    "buffer_bytes": 300_000,
    "live_buffer_bytes": 300_000,
    "fetch_bytes": 1_000,
    "live_fetch_bytes": 600,
    "partition_fetch_bytes": 300,
    "lane_buffer_bytes": 500,
    "request_bytes": 400,
}
"""Small limits for the engine; batches have a few hundred bytes."""
_FAR: Final = {
    "buffer_bytes": 300_000,
    "fetch_bytes": 1_000,
    "partition_fetch_bytes": 300,
    "read_connections": 6,
    "read_ahead_bytes": 9_600,
    "write_connections": 18,
    "lane_buffer_bytes": 2_000,
}
"""Limits with which small backlogs are read ahead, and written on several connections."""
_WINDOW_BYTES: Final = 200
_FAR_PACE: Final = 0.1
"""Longest transit time to and from a distant destination, so that a backlog takes a while."""
_ROUND_TRIP_SECONDS: Final = 0.05
_BACKLOG_BATCHES: Final = 150
_PRODUCE: Final = 0
_WRITER: Final = slice(43, 53)
"""Place of producer id and epoch in a batch."""
_NO_WRITER: Final = b"\xff" * 10
_AWAKE_SECONDS: Final = 0.5
"""Time that a frozen engine runs after it wakes, until its process notices the expired lease."""
_PATIENCE_SECONDS: Final = 400.0
_CODECS: Final = (0, 0, 1, 3, 4)
_OF_BROKERS: Final = frozenset(
    {EventKind.BROKER_DOWN, EventKind.BROKER_FROZEN, EventKind.FORGET_SESSIONS, EventKind.CONNECTIONS_BREAK}
)

AUDIT: Final = VerifyJob(
    ClusterRef("source"),
    ClusterRef("destination"),
    TopicSelection(_TOPIC),
    state=f"g-{_TOPIC}",
    allows_expired=True,
)
"""Comparison of the copy of a run."""


class Simulation:
    """One run of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._random = Random(plan.seed)
        options = {
            "request_timeout_seconds": 10.0,
            "opened_batch_bytes": OPENED_BYTES,
            **(_TIGHT if plan.is_tight else {}),
            **(_FAR if plan.is_far else {}),
        }
        self.fakes = MirroredFakes(
            plan.brokers,
            transaction_level=plan.transaction_level,
            racks=["far", "near", "near"][: plan.brokers] if plan.is_near else (),
            rack="near" if plan.is_near else "",
            options=options,
        )
        self.fakes.source.serves_from_followers = plan.is_near
        self._numbers = [count() for _ in range(plan.partitions)]
        self._clusters = (self.fakes.source, self.fakes.target)
        for cluster in self._clusters:
            cluster.pace = self._pace if plan.pace else None
        self.fakes.make_topic(_TOPIC, plan.partitions, replication=plan.brokers)
        guarantee = plan.policy.guarantee
        self._judges = [Judge(self.fakes, _TOPIC, number, guarantee) for number in range(plan.partitions)]
        pauses = plan.policy.on_rejection is OnRejection.PAUSE
        self._unreadable = [
            UnreadableBatches(self.fakes, _TOPIC, number, judge, pauses=pauses)
            for number, judge in enumerate(self._judges)
        ]
        if plan.is_far:
            network, pace = self.fakes.network, max(plan.pace, _FAR_PACE)
            network.round_trip, network.window_bytes = _ROUND_TRIP_SECONDS, _WINDOW_BYTES
            network.room = self._random.randrange(200, 2_000)
            self.fakes.target.pace = lambda: self._far_pace(pace)
            for number in range(plan.partitions):
                for _ in range(_BACKLOG_BATCHES):
                    self._write(number, 1 + self._random.randrange(4))
        self._endings: list[tuple[float, BatchEngine, bool]] = []
        """Times at which frozen engines wake or end."""

    def carry_out(self) -> None:
        """Run every event at its time, then wait without faults until everything is copied.

        Raises AssertionError with the seed and its schedule.
        """
        fakes = self.fakes
        try:
            fakes.start(_TOPIC, self.plan.partitions, policy=self.plan.policy)
            began = fakes.clock.monotonic()
            for event in self.plan.events:
                self._run(began + event.at - fakes.clock.monotonic())
                self._happen(event)
            while self._endings or not self._is_peaceful():
                self._run(1.0)
            fakes.selector.rounds_to_live = None
            for cluster in self._clusters:
                cluster.faults.clear()
            for number, unreadable in enumerate(self._unreadable):
                if self.plan.policy.on_rejection is OnRejection.PAUSE:
                    unreadable.mend()
                self._write(number, 1)
            until = fakes.clock.monotonic() + _PATIENCE_SECONDS
            while not self._is_done():
                assert fakes.clock.monotonic() < until, (
                    f"not everything was copied in time; {fakes.describe()}"
                )
                self._run(0.25)
            self._run(1.0)
            missing = [judge.check() for judge in self._judges]
            self._check_reports()
            self._check_audit(missing)
        except Exception as error:
            pauses = "\n".join(one.reason for one in fakes.events if isinstance(one, LanePaused))
            raise AssertionError(f"{error}\n{self.plan}\npauses:\n{pauses}") from error
        finally:
            fakes.close()

    def _check_audit(self, missing: Sequence[int]) -> None:
        """Audit the copy. `missing`: number of missing records of each partition."""
        context = self.fakes.context
        verdicts = context.run(audit_copy(context, AUDIT))
        for judge, verdict, lost in zip(self._judges, verdicts, missing, strict=True):
            judge.check_audit(verdict, lost)

    def _check_reports(self) -> None:
        """Check that the events do not show a copying lane as paused."""
        until = self.fakes.clock.monotonic() + _REPORT_SECONDS
        while paused := self._paused():
            assert self.fakes.clock.monotonic() < until, f"last reported as paused: {paused}"
            self._run(1.0)

    def _paused(self) -> list[str]:
        last = {event.key: event for event in self.fakes.events}
        return [f"{key.partition}: {one.reason}" for key, one in last.items() if isinstance(one, LanePaused)]

    def _run(self, seconds: float) -> None:
        """Advance time; restart engines that are killed meanwhile, and wake frozen ones."""
        fakes, until = self.fakes, self.fakes.clock.monotonic() + seconds
        while fakes.clock.monotonic() < until:
            due = min([until, *(moment for moment, _, _ in self._endings)])
            try:
                fakes.run(max(due - fakes.clock.monotonic(), 0.0))
            except Killed:
                fakes.crash()
                self._begin_engine()
            self._wake_and_end()
            if any(lane.is_fenced for lane in fakes.engine.lanes.by_key.values()):
                fakes.crash()  # fenced by an engine that woke: the service restarts the lanes elsewhere
                self._begin_engine()

    def _wake_and_end(self) -> None:
        fakes, now = self.fakes, self.fakes.clock.monotonic()
        due = [one for one in self._endings if one[0] <= now]
        self._endings = [one for one in self._endings if one[0] > now]
        for _, engine, is_awake in due:
            if is_awake:
                fakes.woken.remove(engine)
                fakes.kill(engine)
            else:
                fakes.woken.append(engine)
                self._endings.append((now + _AWAKE_SECONDS, engine, True))

    def _pace(self) -> tuple[float, float]:
        return self._random.uniform(0, self.plan.pace), self._random.uniform(0, self.plan.pace)

    def _far_pace(self, pace: float) -> tuple[float, float]:
        """Return the transit times of a request, and check that no other one can overtake it."""
        writers = [
            (topic.topic_id or topic.name, part.index, bytes(part.records or b"")[_WRITER])
            for request in self.fakes.target.server.under_way()
            if request.api == _PRODUCE
            for topic in request.message.topic_data
            for part in topic.partition_data
        ]
        ours = [writer for writer in writers if writer[2] not in (_NO_WRITER, b"")]
        assert len(set(ours)) == len(ours), "two whole requests of a partition are at the broker"
        return self._random.uniform(0, pace), self._random.uniform(0, pace)

    def _happen(self, event: Event) -> None:
        cluster = self.fakes.source if event.on_source else self.fakes.target
        number = event.choice % self.plan.partitions
        if event.what is EventKind.WRITE:
            self._write(number, event.count)
        elif event.what is EventKind.TRANSACTION:
            self._write_in_transaction(number, event)
        elif event.what is EventKind.DELETE_RECORDS:
            self._delete(cluster, number)
        elif event.what in _OF_BATCHES:
            self._add_batch(number, event)
        elif event.what in _OF_ENGINE:
            self._disturb_engine(event)
        elif event.what is EventKind.UNCLEAN_ELECTION:
            self._elect_uncleanly(cluster, event, number)
        elif event.what is EventKind.RECREATION:
            self._recreate(cluster)
        elif event.what in _OF_BROKERS:
            self._disturb_broker(cluster, event)
        else:
            self._disturb(cluster, event, number)

    def _disturb_broker(self, cluster: FakeCluster, event: Event) -> None:
        brokers = sorted(cluster.brokers)
        broker = brokers[event.choice % len(brokers)]
        if event.what is EventKind.FORGET_SESSIONS:
            cluster.brokers[broker].sessions.forget_all()
        elif event.what is EventKind.CONNECTIONS_BREAK:
            cluster.server.drop_connections(broker)
        elif event.what is EventKind.BROKER_DOWN:
            cluster.take_down(broker)
            cluster.later(event.seconds, lambda: cluster.bring_up(broker))
        else:
            cluster.freeze(broker)
            cluster.later(event.seconds, lambda: cluster.thaw(broker))

    def _disturb(self, cluster: FakeCluster, event: Event, number: int) -> None:
        living = cluster.live_brokers()
        if event.what is EventKind.MOVE_LEADER:
            if living and cluster.partition(_TOPIC, number).leader >= 0:
                cluster.move_leader(_TOPIC, number, living[event.choice % len(living)])
        elif event.what is EventKind.MOVE_COORDINATORS:
            for name in list(cluster.coordinator.known):
                cluster.move_coordinator(name, 1 + event.choice % len(cluster.brokers))
        elif event.what is EventKind.REPLICAS_LAG:
            log = cluster.log(_TOPIC, number)
            log.is_replicated = False
            cluster.later(event.seconds, log.replicate)
        elif event.what is EventKind.SLOW_MARKERS:
            cluster.coordinator.marker_seconds = event.seconds
        elif event.what is EventKind.PROGRESS:
            assert event.fault is not None
            cluster.faults.plant(event.api, event.fault, times=event.count, fits=_is_checkpoint)
        elif event.fault is not None:
            cluster.faults.plant(event.api, event.fault, times=event.count)

    def _write(self, number: int, size: int) -> None:
        first = next(self._numbers[number])
        for _ in range(size - 1):
            next(self._numbers[number])
        self.fakes.write(_TOPIC, first, size, number, codec=self._random.choice(_CODECS))

    def _add_batch(self, number: int, event: Event) -> None:
        unreadable, codec = self._unreadable[number], _CODECS[event.choice % len(_CODECS)]
        if event.what is EventKind.COMPACTION:
            unreadable.compact(self._random)
            return
        count = event.count + (event.what is EventKind.OVERSIZED)
        first = next(self._numbers[number])
        for _ in range(count - 1):
            next(self._numbers[number])
        if event.what is EventKind.UNDECODABLE:
            unreadable.add_undecodable(self.fakes.records(first, count), codec, event.seconds)
        else:
            unreadable.add_oversized(first, count, codec or 1, event.seconds)

    def _write_in_transaction(self, number: int, event: Event) -> None:
        first = next(self._numbers[number])
        for _ in range(event.count - 1):
            next(self._numbers[number])
        records = self.fakes.records(first, event.count)
        end = self.fakes.source.write_in_transaction(_TOPIC, records, number)
        commits = bool(event.choice % 3)
        if event.choice % 2:
            self.fakes.source.later(event.seconds, lambda: end(commit=commits))
        else:
            end(commit=commits)

    def _delete(self, cluster: FakeCluster, number: int) -> None:
        log = cluster.log(_TOPIC, number)
        bases = [batch.base for batch in log.batches]
        if bases:
            first = self._random.choice(bases)
            self._judges[number].source_loses()
            log.delete_before(first)

    def _elect_uncleanly(self, cluster: FakeCluster, event: Event, number: int) -> None:
        living, log = cluster.live_brokers(), cluster.log(_TOPIC, number)
        kept = [batch for batch in log.batches if batch.base >= log.start][: -1 - event.choice % 3]
        if not living or not kept:
            return
        end, judge = kept[-1].last + 1, self._judges[number]
        if cluster is self.fakes.source:
            judge.source_loses()
        else:
            judge.destination_loses(end)
        cluster.elect_uncleanly(_TOPIC, number, living[event.choice % len(living)], end)
        if cluster is self.fakes.target:
            judge.destination_loses(log.last_stable)  # records without their marker will be aborted
        if cluster is self.fakes.source:
            for producer in list(log.open):  # their markers are lost: an operator ends the transactions
                cluster.append(_TOPIC, marker(producer, 0, ABORT, cluster.clock.now_ms()), number)

    def _recreate(self, cluster: FakeCluster) -> None:
        for judge in self._judges:
            if cluster is self.fakes.source:
                judge.source_loses()
            else:
                judge.destination_loses(0)
        cluster.recreate_topic(_TOPIC)
        cluster.server.changed()

    def _disturb_engine(self, event: Event) -> None:
        fakes = self.fakes
        if event.what is EventKind.CRASH:
            fakes.selector.rounds_to_live = event.choice
            return
        try:
            if event.what is EventKind.HANDOVER:
                fakes.events.extend(fakes.engine.close(5))
            else:
                fakes.selector.rounds_to_live = None  # a frozen engine ends some time after it wakes
                self._endings.append((fakes.clock.monotonic() + event.seconds, fakes.engine, False))
        except Killed:
            fakes.crash()
        self._begin_engine()

    def _begin_engine(self) -> None:
        self.fakes.new_engine()
        self.fakes.start(_TOPIC, self.plan.partitions, policy=self.plan.policy)

    def _is_peaceful(self) -> bool:
        brokers = [broker for cluster in self._clusters for broker in cluster.brokers.values()]
        logs = [self.fakes.source.log(_TOPIC, number) for number in range(self.plan.partitions)]
        targets = [self.fakes.target.log(_TOPIC, number) for number in range(self.plan.partitions)]
        is_replicated = all(log.is_replicated for log in logs + targets)
        return (
            is_replicated and all(broker.is_well for broker in brokers) and not any(log.open for log in logs)
        )

    def _is_done(self) -> bool:
        for number in range(self.plan.partitions):
            lane = self.fakes.lane(_TOPIC, number)
            log, identity = self.fakes.source.log(_TOPIC, number), self.fakes.source.topics[_TOPIC].identity
            if not lane.is_loaded:  # its transaction was aborted: its checkpoint is not durable
                return False
            if (
                lane.checkpoint != log.end
                or lane.ownership.is_in_transaction
                or lane.progress.source.topic_id != identity.bytes
            ):
                return False
            if lane.progress.source.leader_epoch < log.batches[-1].epoch:
                return False
            if self.fakes.target.log(_TOPIC, number).open:  # the marker is not written yet
                return False
        return True


def _is_checkpoint(asked: HandledRequest) -> bool:
    return any(
        b"g-t/t/" in bytes(part.records)
        for topic in asked.message.topic_data
        for part in topic.partition_data
    )
