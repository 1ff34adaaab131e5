"""Carries a schedule out on an engine between fake clusters, and compares every record afterwards."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Final

from mirror.model.datastreams.policy import Guarantee
from mirror.ports import LanePaused
from tests.fakes.broker.cluster import FakeCluster
from tests.fakes.broker.contents import committed
from tests.fakes.broker.mirrored import MirroredFakes
from tests.simulation.schedule import Event, Plan, What

_TOPIC: Final = "t"
_TIGHT: Final = {
    "buffer_bytes": 300_000,
    "live_buffer_bytes": 300_000,
    "fetch_bytes": 1_000,
    "live_fetch_bytes": 600,
    "partition_fetch_bytes": 300,
    "lane_buffer_bytes": 500,
    "request_bytes": 400,
}
"""Batches are some hundred bytes large."""
_CODECS: Final = (0, 0, 1, 3, 4)
_OF_BROKERS: Final = frozenset(
    {What.BROKER_DOWN, What.BROKER_FROZEN, What.FORGET_SESSIONS, What.CONNECTIONS_BREAK}
)


class Simulation:
    """One run of a plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._random = Random(plan.seed)
        options = {"request_timeout_seconds": 10.0, **(_TIGHT if plan.is_tight else {})}
        self.fakes = MirroredFakes(plan.brokers, transaction_level=plan.transaction_level, options=options)
        self._numbers = [count() for _ in range(plan.partitions)]
        self._clusters = (self.fakes.source, self.fakes.target)
        for cluster in self._clusters:
            cluster.pace = self._pace if plan.pace else None
        self.fakes.make_topic(_TOPIC, plan.partitions, replication=plan.brokers)

    def carry_out(self) -> None:
        """Every event at its time, then peace until everything is copied. Raises AssertionError with the seed
        and its schedule."""
        fakes = self.fakes
        try:
            fakes.start(_TOPIC, self.plan.partitions, policy=self.plan.policy)
            began = fakes.clock.monotonic()
            for event in self.plan.events:
                fakes.run(max(began + event.at - fakes.clock.monotonic(), 0.0))
                self._happen(event)
            while not self._is_peaceful():
                fakes.run(1.0)
            for cluster in self._clusters:
                cluster.faults.clear()
            fakes.run_until(self._is_done, "everything is copied")
            fakes.run(1.0)
            self._check()
        except Exception as error:
            pauses = "\n".join(one.reason for one in fakes.events if isinstance(one, LanePaused))
            raise AssertionError(f"{error}\n{self.plan}\npauses:\n{pauses}") from error
        finally:
            fakes.close()

    def _pace(self) -> tuple[float, float]:
        return self._random.uniform(0, self.plan.pace), self._random.uniform(0, self.plan.pace)

    def _happen(self, event: Event) -> None:
        cluster = self.fakes.source if event.on_source else self.fakes.target
        number = event.choice % self.plan.partitions
        if event.what is What.WRITE:
            self._write(number, event.count)
        elif event.what is What.TRANSACTION:
            self._write_in_transaction(number, event)
        elif event.what is What.DELETE_RECORDS:
            self._delete(cluster, number)
        elif event.what in (What.CRASH, What.HANDOVER):
            self._replace_engine(hands_over=event.what is What.HANDOVER)
        elif event.what in _OF_BROKERS:
            self._disturb_broker(cluster, event)
        else:
            self._disturb(cluster, event, number)

    def _disturb_broker(self, cluster: FakeCluster, event: Event) -> None:
        brokers = sorted(cluster.brokers)
        broker = brokers[event.choice % len(brokers)]
        if event.what is What.FORGET_SESSIONS:
            cluster.brokers[broker].sessions.forget_all()
        elif event.what is What.CONNECTIONS_BREAK:
            cluster.server.drop_connections(broker)
        elif event.what is What.BROKER_DOWN:
            cluster.take_down(broker)
            cluster.later(event.seconds, lambda: cluster.bring_up(broker))
        else:
            cluster.freeze(broker)
            cluster.later(event.seconds, lambda: cluster.thaw(broker))

    def _disturb(self, cluster: FakeCluster, event: Event, number: int) -> None:
        living = cluster.live_brokers()
        if event.what is What.MOVE_LEADER:
            if living and cluster.partition(_TOPIC, number).leader >= 0:
                cluster.move_leader(_TOPIC, number, living[event.choice % len(living)])
        elif event.what is What.MOVE_COORDINATORS:
            for name in list(cluster.coordinator.known):
                cluster.move_coordinator(name, 1 + event.choice % len(cluster.brokers))
        elif event.what is What.REPLICAS_LAG:
            log = cluster.log(_TOPIC, number)
            log.is_replicated = False
            cluster.later(event.seconds, log.replicate)
        elif event.what is What.SLOW_MARKERS:
            cluster.coordinator.marker_seconds = event.seconds
        elif event.fault is not None:
            cluster.faults.plant(event.api, event.fault, times=event.count)

    def _write(self, number: int, size: int) -> None:
        first = next(self._numbers[number])
        for _ in range(size - 1):
            next(self._numbers[number])
        self.fakes.write(_TOPIC, first, size, number, codec=self._random.choice(_CODECS))

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
            log.delete_before(self._random.choice(bases))

    def _replace_engine(self, *, hands_over: bool) -> None:
        fakes = self.fakes
        if hands_over:
            fakes.events.extend(fakes.engine.close(5))
        else:
            fakes.crash()
        fakes.new_engine()
        fakes.start(_TOPIC, self.plan.partitions, policy=self.plan.policy)

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
            if lane.checkpoint < self.fakes.source.log(_TOPIC, number).end or lane.is_in_transaction:
                return False
            if self.fakes.target.log(_TOPIC, number).open:  # its marker is still to be written
                return False
        return True

    def _check(self) -> None:
        for number in range(self.plan.partitions):
            source = self.fakes.source.log(_TOPIC, number)
            here, there = committed(source), self.fakes.copied(_TOPIC, number)
            expected, found = [one.content for one in here], [one.content for one in there]
            if self.plan.policy.guarantee is Guarantee.AT_LEAST_ONCE:
                found = list(dict.fromkeys(found))
            if source.start:
                # What the source has deleted may be at the destination, in front of everything else.
                kept = found[len(found) - len(expected) :] if expected else []
                assert kept == expected, f"{_TOPIC}-{number} differs"
                assert len(set(found)) == len(found), f"{_TOPIC}-{number} holds a record twice"
            else:
                assert found == expected, f"{_TOPIC}-{number} differs"
            lane = self.fakes.lane(_TOPIC, number)
            assert lane.ledger.is_balanced, f"the ledger of {_TOPIC}-{number} does not add up"
            if self.plan.policy.guarantee is not Guarantee.AT_LEAST_ONCE and not source.start:
                for one, two in zip(here, there, strict=True):
                    assert lane.offset_map.forward(one.offset) == (two.offset, "exact")
