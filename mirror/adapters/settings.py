"""How to reach the Kafka clusters and ZooKeeper."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, model_validator

from mirror.options import Seconds, Settings


class KafkaSecurity(Settings):
    """How to reach a Kafka cluster that is not open to all."""

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """Of the listener behind `bootstrap_servers`."""
    ca_file: str = ""
    """Certificate authorities (PEM) that sign the brokers' certificates; empty: the system's."""
    certificate_file: str = ""
    """Our own certificate (PEM) for mutual TLS."""
    key_file: str = ""
    """Key of `certificate_file` (PEM)."""
    key_password: SecretStr = SecretStr("")
    """Password of `key_file`."""
    mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"] = ""
    """SASL mechanism; GSSAPI (Kerberos) needs the package gssapi."""
    username: str = ""
    """For PLAIN and SCRAM."""
    password: SecretStr = SecretStr("")
    """For PLAIN and SCRAM."""
    password_file: str = ""
    """File with `password`, instead of it; read at the start, without the line end."""
    token_file: str = ""
    """For OAUTHBEARER: a file with a bearer token, read again for every authentication."""
    kerberos_service: str = "kafka"
    """For GSSAPI: the brokers' service name."""

    @model_validator(mode="before")
    @classmethod
    def _read_password(cls, given: Any) -> Any:
        """Replace `password_file` by the password in it."""
        path = given.get("password_file") if isinstance(given, dict) else None
        if not path or not isinstance(path, str):
            return given
        if given.get("password"):
            raise ValueError("password and password_file exclude each other")
        try:
            password = Path(path).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ValueError(f"password_file {path} cannot be read: {reason}") from error
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
                    "mechanism is needed with SASL_PLAINTEXT and SASL_SSL, and only there",
                    self.protocol.startswith("SASL") != bool(self.mechanism),
                ),
                (
                    "token_file is needed with OAUTHBEARER, and only there",
                    (self.mechanism == "OAUTHBEARER") != bool(self.token_file),
                ),
                (
                    "username and password are needed with PLAIN and SCRAM, and only there",
                    by_password != (has_name and has_password) or has_name != has_password,
                ),
                (
                    "certificate_file and key_file go together",
                    bool(self.certificate_file) != bool(self.key_file),
                ),
            )
            if is_so
        ]
        if wrong:
            raise ValueError("; ".join(wrong))
        return self


class KafkaCluster(Settings):
    """One Kafka cluster that datastreams name by its alias."""

    bootstrap_servers: str
    """`host:port[,host:port…]`"""
    security: KafkaSecurity = KafkaSecurity()
    rack: str = ""
    """Our rack, as the brokers name racks (`broker.rack`): records are then read from the replica that the
    leader names, where brokers have a `replica.selector.class`; from the leader while that one fails."""
    advertised: list[str] = Field(default=["*"])
    """Listeners that its brokers may name, `host:port` with `*` for any text; others are not reached. `!` in
    front excludes."""
    readers: list[str] = Field(default=["*"])
    """Principals that may have datastreams copy from it, with `*` for any text; where nobody is asked who
    they are, owners of datastreams."""
    writers: list[str] = Field(default=["*"])
    """Likewise, those that may have topics made there and copied into."""
    adopters: list[str] = Field(default=["*"])
    """Likewise, those that may have topics copied into that were there before, and let these grow. Where
    that is not everybody, a datastream must also say so (`destination.adopt` or `.grow_existing`)."""
    groups: list[str] = Field(default=["*"])
    """Consumer groups, with `*` for any text, that datastreams may commit their positions as here by their
    names; any other takes `group.id`, which takes an operator. Positions of these groups, in topics of a
    datastream, are readable by everybody who may read it; those of other groups by operators."""


class ZooKeeperSecurity(Settings):
    """How to reach a ZooKeeper that is not open to all."""

    tls: bool = False
    """Reach the servers through TLS, at their secure client port."""
    ca_file: str = ""
    """Certificate authorities (PEM) that sign the servers' certificates; empty: the system's."""
    certificate_file: str = ""
    """Our own certificate (PEM) for mutual TLS."""
    key_file: str = ""
    """Key of `certificate_file` (PEM)."""
    key_password: SecretStr = SecretStr("")
    """Password of `key_file`."""
    verify: bool = True
    """Check the servers' certificates and names. Without it anybody can pose as ZooKeeper."""
    mechanism: Literal["", "digest", "DIGEST-MD5"] = ""
    """How we say who we are: `digest` is ZooKeeper's own scheme, `DIGEST-MD5` is SASL."""
    username: str = ""
    """For both mechanisms."""
    password: SecretStr = SecretStr("")
    """For both mechanisms."""
    access: Literal["automatic", "creator", "open"] = "automatic"
    """Who may read and write the nodes we make: `creator` nobody but our identity, `open` everybody,
    `automatic` the creator where a mechanism is set."""

    @property
    def is_private(self) -> bool:
        """Whether nodes are made for our identity only."""
        return self.access == "creator" or (self.access == "automatic" and bool(self.mechanism))

    @model_validator(mode="after")
    def _consistent(self) -> ZooKeeperSecurity:
        if bool(self.mechanism) != bool(self.username and self.password.get_secret_value()):
            raise ValueError("mechanism, username and password go together")
        if bool(self.certificate_file) != bool(self.key_file):
            raise ValueError("certificate_file and key_file go together")
        if not self.tls and (self.ca_file or self.certificate_file or not self.verify):
            raise ValueError("ca_file, certificate_file and verify need tls")
        if self.access == "creator" and not (self.mechanism or self.certificate_file):
            raise ValueError("access = creator needs an identity: a mechanism or a certificate_file")
        return self


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
    security: ZooKeeperSecurity = ZooKeeperSecurity()

    @model_validator(mode="after")
    def _consistent(self) -> ZooKeeperSettings:
        if not self.root.startswith("/") or self.root.endswith("/"):
            raise ValueError("root must begin with a slash and not end with one")
        return self
