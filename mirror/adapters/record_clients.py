"""Makes the clients of the record engine from settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer

from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.adapters.kafka_settings import consumer_settings, producer_settings
from mirror.adapters.progress_topic import ProgressTopic
from mirror.adapters.record_engine import RecordClients
from mirror.adapters.record_task import RecordTask
from mirror.adapters.settings import KafkaCluster
from mirror.lane.flow import TokenBucket
from mirror.model.identifiers import ClusterRef, TaskName
from mirror.ports import Clock, ProgressStore


@dataclass(frozen=True)
class RecordSettings:
    """`task_bytes_per_second_limit`: 0 means none."""

    client_id: str
    progress_topic: str
    replication_factor: int
    task_bytes_per_second_limit: int


def record_clients(
    resolve: Callable[[ClusterRef], KafkaCluster], settings: RecordSettings, clock: Clock
) -> RecordClients:
    """How the engine gets its clients."""

    def task(name: TaskName, source: ClusterRef) -> RecordTask:
        consumer = Consumer(consumer_settings(resolve(source), settings.client_id, f"headrace-{name}"))
        limit = settings.task_bytes_per_second_limit
        return RecordTask(consumer, TokenBucket(limit, clock.monotonic()) if limit else None)

    def producer(destination: ClusterRef) -> Producer:
        return Producer(producer_settings(resolve(destination), settings.client_id))

    def progress(destination: ClusterRef) -> ProgressStore:
        cluster = resolve(destination)
        store = ProgressTopic(
            cluster, settings.progress_topic, KafkaAdmin(cluster, settings.replication_factor)
        )
        store.ensure()
        return store

    return RecordClients(task, producer, progress)
