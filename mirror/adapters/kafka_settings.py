"""Our settings as librdkafka's. The one place that knows its keys."""

from __future__ import annotations

import logging
from typing import Any

from mirror.adapters.settings import KafkaCluster


def client_settings(cluster: KafkaCluster, client_id: str) -> dict[str, Any]:
    """What every client of a cluster needs: addresses, security, and no surprises."""
    settings: dict[str, Any] = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "client.id": client_id,
        "security.protocol": cluster.security.protocol.lower(),
        "socket.keepalive.enable": True,
        "reconnect.backoff.max.ms": 2_000,
        "topic.metadata.propagation.max.ms": 5_000,
        "allow.auto.create.topics": False,
        "logger": logging.getLogger("librdkafka"),
    }
    security = cluster.security
    optional = {
        "ssl.ca.location": security.ca_file,
        "ssl.certificate.location": security.certificate_file,
        "ssl.key.location": security.key_file,
        "ssl.key.password": security.key_password.get_secret_value(),
        "sasl.mechanism": security.mechanism,
        "sasl.username": security.username,
        "sasl.password": security.password.get_secret_value(),
    }
    settings.update({key: value for key, value in optional.items() if value})
    return settings


def consumer_settings(cluster: KafkaCluster, client_id: str, group_id: str) -> dict[str, Any]:
    """A consumer that is told what to read and never commits by itself."""
    return client_settings(cluster, client_id) | {
        "group.id": group_id,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": False,
        "check.crcs": True,
        "fetch.wait.max.ms": 100,
        "queued.max.messages.kbytes": 16_384,
        "fetch.message.max.bytes": 1_048_576,
    }


def producer_settings(cluster: KafkaCluster, client_id: str) -> dict[str, Any]:
    """A producer that loses nothing and keeps the order."""
    return client_settings(cluster, client_id) | {
        "acks": "all",
        "enable.idempotence": True,
        "linger.ms": 5,
        "batch.size": 524_288,
        "message.max.bytes": 10_485_760,
        "message.timeout.ms": 0,
        "compression.type": "lz4",
        "queue.buffering.max.messages": 200_000,
        "queue.buffering.max.kbytes": 65_536,
    }
