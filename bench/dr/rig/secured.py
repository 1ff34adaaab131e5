"""Clusters whose authorizer restricts producers but allows the mirror everything."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from stack.kafka import KafkaCluster, NodePorts
from stack.process.parallel import for_each
from stack.server import Jvm
from tests.acls import add_rules
from tests.kafka_data import admin_client

LISTENER: Final = "SASL_PLAINTEXT"
APPLICATION: Final = "app"
ROGUE: Final = "rogue"
"""Super user, to whom no denial applies."""
PASSWORD: Final = "right"
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_USERS: Final = " ".join(f'user_{name}="{PASSWORD}"' for name in (APPLICATION, ROGUE))
PROPERTIES: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:ANONYMOUS;User:{ROGUE}",
    "sasl.enabled.mechanisms": "PLAIN",
    f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": f"{_PLAIN} required {_USERS};",
    "log.retention.ms": -1,
}


@contextmanager
def secured_pair(folder: Path, names: Sequence[str]) -> Iterator[dict[str, KafkaCluster]]:
    """Run clusters of one broker; clients without authentication are super users."""
    jvm = Jvm(heap_mib=512, quick_start=True)
    made = {
        name: KafkaCluster(name, folder / name, [NodePorts.free([LISTENER])], jvm=jvm, properties=PROPERTIES)
        for name in names
    }
    for_each(made.values(), KafkaCluster.start)
    try:
        for cluster in made.values():
            allow_application(cluster)
        yield made
    finally:
        for_each(made.values(), KafkaCluster.kill)


def allow_application(cluster: KafkaCluster) -> None:
    """Allow the application's user to write to all topics, with a producer id."""
    user, exactly = f"User:{APPLICATION}", ResourcePatternType.LITERAL
    rules = [
        (ResourceType.TOPIC, "*", AclOperation.WRITE),
        (ResourceType.TRANSACTIONAL_ID, "*", AclOperation.WRITE),
        (ResourceType.BROKER, "kafka-cluster", AclOperation.IDEMPOTENT_WRITE),
    ]
    allowed = AclPermissionType.ALLOW
    add_rules(
        admin_client(cluster.address),
        [AclBinding(kind, name, exactly, user, "*", operation, allowed) for kind, name, operation in rules],
    )


def client_settings(cluster: KafkaCluster, user: str) -> dict[str, str | int | float | bool]:
    """Return the settings of a confluent-kafka client of that user."""
    return {
        "bootstrap.servers": cluster.address_of(LISTENER),
        "security.protocol": LISTENER,
        "sasl.mechanisms": "PLAIN",
        "sasl.username": user,
        "sasl.password": PASSWORD,
    }
