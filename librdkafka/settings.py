"""librdkafka's configuration of a cluster. The only module with librdkafka's keys."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from confluent_kafka import KafkaException, Producer

from librdkafka.client_log import client_logger
from mirror.adapters.settings import KafkaCluster
from mirror.adapters.system_clock import SystemClock
from mirror.errors import NotAuthorized
from mirror.tokens import expiry_of, token_from_file


def client_settings(cluster: KafkaCluster, client_id: str) -> dict[str, Any]:
    """Return the settings that all clients of a cluster share: addresses, security and safe defaults.

    Raises NotAuthorized if the token file is unreadable, or if librdkafka was built without the mechanism.
    """
    settings: dict[str, Any] = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "client.id": client_id,
        "security.protocol": cluster.security.protocol.lower(),
        "socket.keepalive.enable": True,
        "reconnect.backoff.max.ms": 2_000,
        "topic.metadata.propagation.max.ms": 5_000,
        "allow.auto.create.topics": False,
        "logger": client_logger(),
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
    if security.mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = _token_giver(security.token_file)
    elif security.mechanism == "GSSAPI":
        _require_kerberos()
        settings["sasl.kerberos.service.name"] = security.kerberos_service
    return settings


def _token_giver(path: str) -> Callable[[str], tuple[str, float]]:
    read, clock = token_from_file(path), SystemClock()
    read()  # otherwise a client without a token reports that only after ten seconds

    def give(_: str) -> tuple[str, float]:
        token = read()
        return token, expiry_of(token, clock.now_ms() / 1000)

    return give


@cache
def _require_kerberos() -> None:
    """Raise NotAuthorized if confluent-kafka was built without Kerberos, as the packages on PyPI are."""
    try:
        Producer({"security.protocol": "sasl_plaintext", "sasl.mechanism": "GSSAPI"})
    except KafkaException as error:
        raise NotAuthorized(
            "mechanism GSSAPI is not available: confluent-kafka was built without Kerberos",
            advice="for this command, build confluent-kafka from source with librdkafka and libsasl2; "
            "headrace serve, copy and verify require only the package gssapi",
        ) from error


def consumer_settings(cluster: KafkaCluster, client_id: str, group_id: str) -> dict[str, Any]:
    """Return settings of a consumer with assigned partitions that never commits."""
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
    """Return settings of a producer that loses no records and preserves their order."""
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
