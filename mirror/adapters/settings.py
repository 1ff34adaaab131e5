"""Settings of the connections to Kafka clusters and ZooKeeper."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, SecretStr, model_validator

from mirror.errors import InvalidRequest
from mirror.model.topics import checked_topic
from mirror.options import Seconds, Settings


class TlsSettings(Settings):
    """Files for TLS connections."""

    ca_file: str = ""
    """PEM file with the certificate authorities that sign server certificates; if empty, the system's
    certificate authorities."""
    certificate_file: str = ""
    """PEM file of the client certificate, for mutual TLS."""
    key_file: str = ""
    """PEM file with the private key of the certificate in `certificate_file`."""
    key_password: SecretStr = SecretStr("")
    """Password of `key_file`."""


class KafkaSecurity(TlsSettings):
    """Security settings of a Kafka cluster."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """Security protocol of the listener in `bootstrap_servers`."""
    mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"] = ""
    """SASL mechanism; GSSAPI (Kerberos) requires the package gssapi."""
    username: str = ""
    """Username for PLAIN and SCRAM."""
    password: SecretStr = SecretStr("")
    """Password for PLAIN and SCRAM."""
    password_file: str = ""
    """File that contains the password, as an alternative to `password`. Headrace reads the file at startup
    and ignores a trailing line end."""
    token_file: str = ""
    """File that contains a bearer token (OAUTHBEARER). Headrace reads the file again for every
    authentication."""
    kerberos_service: str = "kafka"
    """Kerberos service name of the brokers (GSSAPI)."""

    @model_validator(mode="before")
    @classmethod
    def _read_password(cls, given: Any) -> Any:
        """Replace `password_file` by its contents."""
        path = given.get("password_file") if isinstance(given, dict) else None
        if not path or not isinstance(path, str):
            return given
        if given.get("password"):
            raise ValueError("password and password_file are mutually exclusive")
        try:
            password = Path(path).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ValueError(f"cannot read password_file {path}: {reason}") from error
        if not password:
            raise ValueError(f"password_file {path} is empty")
        return {**given, "password": password, "password_file": ""}

    @model_validator(mode="after")
    def _consistent(self) -> KafkaSecurity:
        has_name, has_password = bool(self.username), bool(self.password.get_secret_value())
        by_password = self.mechanism == "PLAIN" or self.mechanism.startswith("SCRAM")
        wrong = [
            sentence
            for sentence, is_so in (
                (
                    "mechanism is required with SASL_PLAINTEXT and SASL_SSL, and invalid otherwise",
                    self.protocol.startswith("SASL") != bool(self.mechanism),
                ),
                (
                    "token_file is required with OAUTHBEARER, and invalid otherwise",
                    (self.mechanism == "OAUTHBEARER") != bool(self.token_file),
                ),
                (
                    "username and password are required with PLAIN and SCRAM, and invalid otherwise",
                    by_password != (has_name and has_password) or has_name != has_password,
                ),
                (
                    "certificate_file and key_file require each other",
                    bool(self.certificate_file) != bool(self.key_file),
                ),
            )
            if is_so
        ]
        if wrong:
            raise ValueError("; ".join(wrong))
        return self


class KafkaCluster(Settings):
    """A Kafka cluster that datastreams reference by its alias."""

    bootstrap_servers: str
    """`host:port[,host:port…]`"""
    security: KafkaSecurity = KafkaSecurity()
    rack: str = ""
    """Rack of this instance, in the form of `broker.rack`. If the brokers have a `replica.selector.class`,
    Headrace fetches from the replica that the leader selects, or from the leader if this replica fails."""
    advertised: list[str] = Field(default=["*"])
    """Listeners that the brokers may advertise: `host:port`, where `*` matches any text. A leading `!`
    excludes a listener. Headrace does not connect to other listeners."""
    readers: list[str] = Field(default=["*"])
    """Principals allowed to read from this cluster (`*` matches any text). Without authentication,
    the list names owners of datastreams."""
    writers: list[str] = Field(default=["*"])
    """Principals allowed to create topics on this cluster and to copy into these topics. Syntax as in
    `readers`."""
    adopters: list[str] = Field(default=["*"])
    """Principals allowed to copy into existing topics and to add partitions to them. Syntax as in `readers`.
    Unless the list contains `*`, a datastream must also set `destination.adopt` or
    `destination.grow_existing`."""
    groups: list[str] = Field(default=["*"])
    """Consumer groups (`*` matches any text) under which datastreams may commit positions on this cluster.
    Only an operator can set another `group.id`. Readers of a datastream can read the positions of these
    groups in its topics; only operators can read those of other groups."""


class ZooKeeperSecurity(TlsSettings):
    """Security settings of ZooKeeper."""

    tls: bool = False
    """Connect with TLS to ZooKeeper's secure client port."""
    verify: bool = True
    """Verify certificates and host names of the servers. If disabled, any server can impersonate
    ZooKeeper."""
    mechanism: Literal["", "digest", "DIGEST-MD5"] = ""
    """Authentication mechanism: `digest` is ZooKeeper's own scheme, `DIGEST-MD5` a SASL mechanism."""
    username: str = ""
    """Username for both mechanisms."""
    password: SecretStr = SecretStr("")
    """Password for both mechanisms."""
    access: Literal["automatic", "creator", "open"] = "automatic"
    """Access to znodes that Headrace creates. `creator`: only for Headrace's own identity. `open`: for
    everyone. `automatic`: `creator` if a mechanism is set, otherwise `open`."""

    @property
    def is_private(self) -> bool:
        """True if only Headrace's own identity may access the znodes that Headrace creates."""
        return self.access == "creator" or (self.access == "automatic" and bool(self.mechanism))

    @model_validator(mode="after")
    def _consistent(self) -> ZooKeeperSecurity:
        if bool(self.mechanism) != bool(self.username and self.password.get_secret_value()):
            raise ValueError("mechanism, username and password require each other")
        if bool(self.certificate_file) != bool(self.key_file):
            raise ValueError("certificate_file and key_file require each other")
        if not self.tls and (self.ca_file or self.certificate_file or not self.verify):
            raise ValueError("ca_file, certificate_file and verify require tls")
        if self.access == "creator" and not (self.mechanism or self.certificate_file):
            raise ValueError("access = creator requires an identity: set mechanism or certificate_file")
        return self


class ZooKeeperSettings(Settings):
    """Connection to ZooKeeper, through which several instances coordinate. Without this section, a single
    instance keeps its state in `mirror.state_directory`."""

    servers: str = "127.0.0.1:2181"
    """`host:port[,host:port…]`"""
    root: str = "/headrace"
    """Root znode; instances with the same root form one service."""
    session_timeout_seconds: Seconds = 6.0
    """Time without contact after which an instance is considered dead."""
    connect_timeout_seconds: Seconds = 10.0
    """Time to wait for ZooKeeper at startup."""
    security: ZooKeeperSecurity = ZooKeeperSecurity()

    @model_validator(mode="after")
    def _consistent(self) -> ZooKeeperSettings:
        if not self.root.startswith("/") or self.root.endswith("/"):
            raise ValueError("root must start with a slash and not end with one")
        return self


SNAPSHOT_SUFFIX: Final = "-snapshots"
"""Suffix of the name of the snapshot topic."""


class CoordinationSettings(Settings):
    """Coordination of several instances through a Kafka cluster instead of ZooKeeper. Used if `cluster` is
    set."""

    cluster: str = ""
    """Alias of the Kafka cluster that stores the state of the service. Cannot be combined with
    `[zookeeper]`."""
    topic: str = "headrace-coordination"
    """Topic for changes of the state. Instances with the same topic form one service. A second topic with the
    suffix `-snapshots` contains snapshots. Headrace creates missing topics."""
    replication_factor: int = Field(default=-1, ge=-1)
    """Replication factor of the two topics when Headrace creates them. -1 means 3, or the number of brokers
    if there are fewer."""
    session_timeout_seconds: Seconds = Field(default=6.0, ge=1.0)
    """Time without contact after which an instance is considered dead. If the election of a new partition
    leader takes longer than 70 % of this time, all copying stops until it ends."""
    connect_timeout_seconds: Seconds = 30.0
    """Time to wait for the cluster at startup."""

    @model_validator(mode="after")
    def _consistent(self) -> CoordinationSettings:
        if self.replication_factor == 0:
            raise ValueError("replication_factor must be -1 or at least 1")
        try:
            for name in (self.topic, f"{self.topic}{SNAPSHOT_SUFFIX}"):
                checked_topic("topic", name)
        except InvalidRequest as error:
            raise ValueError(str(error)) from error
        return self
