"""An engine that copies record by record through confluent-kafka. Satisfies `ports.CopyEngine`.

One consumer a task, one producer a destination cluster. A lane whose record is refused rewinds to
its safe offset, pauses itself, and tries again after a while; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from mirror.adapters.kafka_errors import translate
from mirror.adapters.record_lane import RecordLane
from mirror.adapters.record_task import RecordTask
from mirror.errors import HeadraceError
from mirror.model.identifiers import ClusterRef, GroupName, TaskName
from mirror.model.metrics import MirrorMetric
from mirror.model.topics import TopicPartition
from mirror.ports import (
    Clock,
    LaneEvent,
    LaneKey,
    LanePaused,
    LaneResumed,
    LaneSpec,
    LaneStarted,
    LaneStopped,
    ProgressStore,
)

_INFLIGHT_BYTES: Final = 32 * 2**20
_PAUSE_SECONDS: Final = 5.0


@dataclass(frozen=True)
class RecordClients:
    """How the engine gets its clients; it knows no settings itself."""

    task: Callable[[TaskName, ClusterRef], RecordTask]
    producer: Callable[[ClusterRef], Producer]
    progress: Callable[[ClusterRef], ProgressStore]


class RecordEngine:
    """Runs the lanes of one worker process."""

    def __init__(
        self, clients: RecordClients, clock: Clock, instance: str, checkpoint_interval_seconds: float
    ) -> None:
        self._clients = clients
        self._clock = clock
        self._instance = instance
        self._checkpoint_interval = checkpoint_interval_seconds
        self._lanes: dict[LaneKey, RecordLane] = {}
        self._tasks: dict[tuple[TaskName, ClusterRef], RecordTask] = {}
        self._by_partition: dict[tuple[TaskName, ClusterRef], dict[TopicPartition, RecordLane]] = {}
        self._producers: dict[ClusterRef, Producer] = {}
        self._progress: dict[ClusterRef, ProgressStore] = {}
        self._events: list[LaneEvent] = []
        self._next_checkpoint = clock.monotonic() + checkpoint_interval_seconds
        self._measured_ms = clock.now_ms()

    def start_lanes(self, specs: Sequence[LaneSpec]) -> None:
        """Read the checkpoints of each group once, then begin."""
        batches: dict[tuple[ClusterRef, GroupName], list[LaneSpec]] = {}
        for spec in specs:
            if spec.key not in self._lanes:
                batches.setdefault((spec.destination, spec.key.group), []).append(spec)
        for (destination, group), batch in batches.items():
            store = self._progress_of(destination)
            checkpoints = store.load(group, [spec.key.partition for spec in batch])
            for spec in batch:
                checkpoint = checkpoints.get(spec.key.partition)
                self._start(spec, checkpoint.next_offset if checkpoint else None)

    def stop_lanes(self, keys: Sequence[LaneKey]) -> None:
        """Stop reading; `step` reports each lane when it has drained."""
        for key in keys:
            lane = self._lanes.get(key)
            if lane is None:
                self._events.append(LaneStopped(key, None))
            elif not lane.is_stopping:
                lane.is_stopping = True
                self._detach(lane)

    def step(self, timeout_seconds: float) -> Sequence[LaneEvent]:
        """One round: read and send, take answers, finish what drains, checkpoint when it is time."""
        now = self._clock.monotonic()
        busy = [self._copy(home, task, now) for home, task in self._tasks.items()]
        for producer in self._producers.values():
            producer.poll(0 if any(busy) else timeout_seconds / len(self._producers))
        self._probe_paused(now)
        self._finish_stopping()
        if now >= self._next_checkpoint:
            self._checkpoint(self._lanes.values())
            self._next_checkpoint = now + self._checkpoint_interval
        events, self._events = self._events, []
        return events

    def metrics(self) -> Sequence[MirrorMetric]:
        """One record for each lane."""
        now_ms = self._clock.now_ms()
        interval_ms, self._measured_ms = now_ms - self._measured_ms, now_ms
        found = []
        for lane in self._lanes.values():
            end = self._tasks[_home(lane.spec)].end_offset(lane.spec.key.partition)
            found.append(lane.take_metric(now_ms, interval_ms, end, self._instance))
        return found

    def close(self, deadline_seconds: float) -> Sequence[LaneEvent]:
        """Drain and checkpoint up to the deadline."""
        until = self._clock.monotonic() + deadline_seconds
        events: list[LaneEvent] = []
        self.stop_lanes(tuple(self._lanes))
        while self._lanes and self._clock.monotonic() < until:
            events.extend(self.step(0.05))
        self._checkpoint(self._lanes.values())
        for task in self._tasks.values():
            task.close()
        self._tasks.clear()
        self._lanes.clear()
        self._producers.clear()
        return events

    def _start(self, spec: LaneSpec, next_offset: int | None) -> None:
        home = _home(spec)
        if home not in self._tasks:
            self._tasks[home] = self._clients.task(*home)
            self._by_partition[home] = {}
        if spec.destination not in self._producers:
            self._producers[spec.destination] = self._clients.producer(spec.destination)
        try:
            position = self._tasks[home].resolve(spec.key.partition, next_offset, spec.start)
        except HeadraceError as error:
            self._lanes[spec.key] = lane = RecordLane(spec, next_offset or 0)
            self._pause(lane, error)
            return
        self._lanes[spec.key] = lane = RecordLane(spec, position)
        self._attach(lane)
        self._events.append(LaneStarted(spec.key, position))

    def _attach(self, lane: RecordLane) -> None:
        home = _home(lane.spec)
        self._by_partition[home][lane.spec.key.partition] = lane
        self._tasks[home].assign(lane.spec.key.partition, lane.inflight.position)

    def _detach(self, lane: RecordLane) -> None:
        home = _home(lane.spec)
        if self._by_partition[home].pop(lane.spec.key.partition, None) is not None:
            self._tasks[home].unassign(lane.spec.key.partition)

    def _copy(self, home: tuple[TaskName, ClusterRef], task: RecordTask, now: float) -> bool:
        lanes = self._by_partition[home]
        if not task.waiting and sum(lane.inflight.size_bytes for lane in lanes.values()) < _INFLIGHT_BYTES:
            task.waiting.extend(task.read(now))
        busy = bool(task.waiting)
        while task.waiting:
            message = task.waiting.popleft()
            topic, number = message.topic(), message.partition()
            failure = message.error()
            lane = lanes.get(TopicPartition(topic or "", number if number is not None else -1))
            if failure is not None:
                if lane is not None:
                    self._pause(lane, translate(failure, f"reading {lane.spec.key.partition}"))
            elif lane is not None and not self._send(lane, message):
                task.waiting.appendleft(message)
                break
        return busy

    def _send(self, lane: RecordLane, message: Message) -> bool:
        """Hand one record to the producer; False when it has no room now."""
        spec = lane.spec
        producer = self._producers[spec.destination]
        if len(producer) >= 100_000:
            return False
        run = lane.register(message)

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is None:
                lane.acknowledge(run, self._clock.now_ms())
            elif not run.is_acknowledged:
                self._pause(lane, translate(error, f"writing {spec.destination_topic}"))

        try:
            producer.produce(
                spec.destination_topic,
                value=message.value(),
                key=message.key(),
                partition=spec.key.partition.partition,
                on_delivery=delivered,
                timestamp=message.timestamp()[1],
                headers=message.headers() or [],
            )
        except (BufferError, KafkaException) as error:
            problem = KafkaError(KafkaError._QUEUE_FULL) if isinstance(error, BufferError) else error
            self._pause(lane, translate(problem, f"writing {spec.destination_topic}"))
        return True

    def _pause(self, lane: RecordLane, error: HeadraceError) -> None:
        self._detach(lane)
        position = lane.inflight.rewind()
        lane.paused_until = self._clock.monotonic() + _PAUSE_SECONDS
        self._events.append(LanePaused(lane.spec.key, f"{error} (source offset {position})"))

    def _probe_paused(self, now: float) -> None:
        for lane in self._lanes.values():
            if lane.paused_until is None or now < lane.paused_until or lane.is_stopping:
                continue
            spec = lane.spec
            try:
                self._tasks[_home(spec)].resolve(spec.key.partition, lane.inflight.position, spec.start)
            except HeadraceError:
                lane.paused_until = now + _PAUSE_SECONDS
                continue
            lane.paused_until = None
            self._attach(lane)
            self._events.append(LaneResumed(spec.key))

    def _finish_stopping(self) -> None:
        done = [lane for lane in self._lanes.values() if lane.is_stopping and lane.is_drained]
        if not done:
            return
        self._checkpoint(done)
        for lane in done:
            del self._lanes[lane.spec.key]
            self._events.append(LaneStopped(lane.spec.key, lane.inflight.safe_offset))
            if not any(_home(other.spec) == _home(lane.spec) for other in self._lanes.values()):
                self._tasks.pop(_home(lane.spec)).close()
                del self._by_partition[_home(lane.spec)]

    def _checkpoint(self, lanes: Iterable[RecordLane]) -> None:
        now_ms = self._clock.now_ms()
        for destination in tuple(self._producers):
            mine = [lane for lane in lanes if lane.spec.destination == destination]
            checkpoints = [one for lane in mine if (one := lane.take_checkpoint(now_ms)) is not None]
            if checkpoints:
                self._progress_of(destination).save(checkpoints)

    def _progress_of(self, destination: ClusterRef) -> ProgressStore:
        if destination not in self._progress:
            self._progress[destination] = self._clients.progress(destination)
        return self._progress[destination]


def _home(spec: LaneSpec) -> tuple[TaskName, ClusterRef]:
    return spec.task, spec.source
