"""How to reach the Kafka clusters and ZooKeeper."""

from __future__ import annotations

from typing import Literal

from pydantic import SecretStr, model_validator

from mirror.options import Seconds, Settings


class KafkaSecurity(Settings):
    """How to reach a Kafka cluster that is not open to all."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    ca_file: str = ""
    """Certificate authorities (PEM) that sign the brokers' certificates; empty: the system's."""
    certificate_file: str = ""
    """Our own certificate (PEM) for mutual TLS."""
    key_file: str = ""
    """Key of `certificate_file` (PEM)."""
    key_password: SecretStr = SecretStr("")
    """Password of `key_file`."""
    mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"] = ""
    """SASL mechanism."""
    username: str = ""
    """For PLAIN and SCRAM."""
    password: SecretStr = SecretStr("")
    """For PLAIN and SCRAM."""
    token_file: str = ""
    """For OAUTHBEARER: a file with a bearer token, read anew for every authentication."""
    kerberos_service: str = "kafka"
    """For GSSAPI: the brokers' service name."""

    @model_validator(mode="after")
    def _consistent(self) -> KafkaSecurity:
        if self.protocol.startswith("SASL") != bool(self.mechanism):
            raise ValueError("mechanism is needed with SASL_PLAINTEXT and SASL_SSL, and only there")
        if bool(self.certificate_file) != bool(self.key_file):
            raise ValueError("certificate_file and key_file go together")
        return self


class KafkaCluster(Settings):
    """One Kafka cluster that datastreams name by its alias."""

    bootstrap_servers: str
    """`host:port[,host:port…]`"""
    security: KafkaSecurity = KafkaSecurity()
    rack: str = ""
    """Our rack, as the brokers name racks: records are then read from the nearest replica."""


class ZooKeeperSettings(Settings):
    """Where instances meet."""

    servers: str = "127.0.0.1:2181"
    """`host:port[,host:port…]`"""
    root: str = "/headrace"
    """Everything lives under this znode; instances with the same root form one service."""
    session_timeout_seconds: Seconds = 6.0
    """An instance that is silent for this long is taken for dead."""
    connect_timeout_seconds: Seconds = 10.0
    """How long a start waits for ZooKeeper before it gives up."""

    @model_validator(mode="after")
    def _consistent(self) -> ZooKeeperSettings:
        if not self.root.startswith("/") or self.root.endswith("/"):
            raise ValueError("root must begin with a slash and not end with one")
        return self
