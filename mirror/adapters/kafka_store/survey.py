"""Inspects the store on Kafka for `headrace doctor`, without opening a session."""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

from mirror.adapters.kafka.access import usable_access
from mirror.adapters.kafka.loop_thread import LoopThread
from mirror.adapters.kafka_store.session import coordination_cluster
from mirror.adapters.kafka_store.topics import check_topics, missing_topics
from mirror.adapters.settings import CoordinationSettings, KafkaCluster
from mirror.client.event_loop import Loop
from mirror.client.log_reader import log_range


class SharedStoreFacts(NamedTuple):
    """State of the store's two topics. `replicas`: the lower of their replication factors.

    `missing`: topics that the first instance will create. If there are any, the other fields are 0.
    """

    missing: tuple[str, ...] = ()
    start: int = 0
    end: int = 0
    replicas: int = 0


def shared_store_facts(
    loop: LoopThread, cluster: KafkaCluster, settings: CoordinationSettings, seconds: float
) -> SharedStoreFacts:
    """Return the missing topics, log range and replication factor of the coordination store.

    Raises the errors of `check_topics`, and TimedOut.
    """
    access = usable_access(cluster)

    async def describe(loop: Loop) -> SharedStoreFacts:
        with closing(coordination_cluster(loop, cluster.bootstrap_servers, access, seconds)) as found:
            if missing := await missing_topics(found, settings.topic):
                return SharedStoreFacts(tuple(missing))
            topics = await check_topics(found, settings.topic)
            return SharedStoreFacts((), *await log_range(found, topics.log), topics.replicas)

    return loop.ask(
        f"cannot describe the coordination store at {cluster.bootstrap_servers}", seconds, describe
    )
