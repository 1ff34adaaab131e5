"""Settings of Pinot."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, model_validator

from mirror.settings import Seconds, Settings
from pinot.tables import TABLES, Table


def _has_port(address: str) -> str:
    port = int(address.rpartition(":")[2])
    if not 0 < port < 65_536:
        raise ValueError(f"invalid port {port}: must be 1 to 65535")
    return address


Address = Annotated[str, Field(pattern=r"^[^\s:]+:[0-9]{1,5}$"), AfterValidator(_has_port)]


class PinotSettings(Settings):
    """Addresses of Pinot, and options of its tables."""

    controller: Address = "127.0.0.1:9000"
    """Controller, as `host:port`, to which tables are applied."""
    broker: Address = "127.0.0.1:9001"
    """Broker for queries, as `host:port`."""
    tls: bool = False
    """Use https for the controller and the broker."""
    username: str = ""
    """User name for the controller and the broker, if they require authentication."""
    password: SecretStr = SecretStr("")
    """Password of the user in `username`."""
    timeout_seconds: Seconds = 10.0
    """Timeout of one query, also set at the broker."""
    largest_answer_bytes: int = Field(default=67_108_864, ge=65_536)
    """Maximum size of a response after decompression; a larger response causes an error."""
    attempts: int = Field(default=3, ge=1)
    """Maximum number of attempts per query if the server does not respond or the result is incomplete."""
    stream_cluster: str = "destination"
    """Kafka cluster from which the tables ingest."""
    stream_bootstrap_servers: str = ""
    """Bootstrap servers at the addresses that Pinot uses, if these differ from `stream_cluster` (for example
    in containers)."""
    secrets_by_reference: bool = False
    """Store names of environment variables in the tables instead of the secrets of `stream_cluster`. Set the
    variables that the cluster requires on Pinot's controllers and servers: `HEADRACE_SASL_JAAS_CONFIG`,
    `HEADRACE_SSL_KEYSTORE_KEY`, `HEADRACE_SSL_KEY_PASSWORD`."""
    replication: int = Field(default=1, ge=1)
    """Number of Pinot servers that store each segment."""
    retention_days: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    """Retention in days by table name, for tables whose retention differs from the default."""
    upsert_options: dict[str, str | int | bool] = Field(default_factory=dict)
    """Additional keys for the `upsertConfig` of keyed tables. On Pinot 1.4 and newer, `{snapshot = "ENABLE",
    metadataTTL = 7200000}` keeps only the keys of the last two hours in memory; on 1.1 to 1.3 write
    `enableSnapshot = true` instead of `snapshot`."""
    segment_rows: int = Field(default=2_000_000, ge=1000)
    """Number of rows after which a consuming segment is committed."""
    segment_hours: int = Field(default=6, ge=1)
    """Hours after which a consuming segment is committed even if it has fewer rows than `segment_rows`."""

    @model_validator(mode="after")
    def _known_tables(self) -> PinotSettings:
        known = [table.name for table in TABLES]
        for name in self.retention_days:
            if name not in known:
                raise ValueError(f"unknown table {name} in retention_days; known: {', '.join(known)}")
        return self

    def days_kept(self, table: Table) -> int:
        """Return the retention of a table in days."""
        return self.retention_days.get(table.name, table.retention_days)
