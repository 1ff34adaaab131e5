"""What an operator can set about Pinot."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, SecretStr

from mirror.settings import Seconds, Settings
from pinot.tables import Table

Address = Annotated[str, Field(pattern=r"^[^\s:]+:\d{1,5}$")]


class PinotSettings(Settings):
    """Addresses of Pinot, and how its tables are created."""

    controller: Address = "127.0.0.1:9000"
    """`host:port` of a controller; tables are applied there."""
    broker: Address = "127.0.0.1:9001"
    """`host:port` of a broker; queries go there."""
    tls: bool = False
    """Speak https to both."""
    username: str = ""
    """User name for both, where they require one."""
    password: SecretStr = SecretStr("")
    """Of that user."""
    timeout_seconds: Seconds = 10.0
    """Longest wait for one query; the broker gives up at the same time."""
    largest_answer_bytes: int = Field(default=67_108_864, ge=65_536)
    """Largest answer of Pinot that is read, after decompression; a larger one is an error."""
    attempts: int = Field(default=3, ge=1)
    """Attempts at a query whose server does not answer or whose answer is incomplete."""
    stream_cluster: str = "destination"
    """The Kafka cluster whose topics the tables ingest."""
    stream_bootstrap_servers: str = ""
    """That cluster as Pinot reaches it, when this differs from here (containers); else empty."""
    secrets_by_reference: bool = False
    """Whether tables name the secrets of that cluster as environment variables of Pinot's controllers and
    servers in place of holding them: `HEADRACE_SASL_JAAS_CONFIG`, `HEADRACE_SSL_KEYSTORE_KEY`,
    `HEADRACE_SSL_KEY_PASSWORD`, as far as the cluster needs them."""
    replication: int = Field(default=1, ge=1)
    """Servers of Pinot that hold each segment."""
    retention_days: dict[str, int] = Field(default_factory=dict)
    """Retention by table name, where it differs from the default of the table."""
    upsert_options: dict[str, str | int | bool] = Field(default_factory=dict)
    """More keys for the `upsertConfig` of keyed tables. On Pinot 1.4 and newer
    `{snapshot = "ENABLE", metadataTTL = 7200000}` bounds the memory of their keys to two hours; on 1.1 to
    1.3 write `enableSnapshot = true` instead of `snapshot`."""
    segment_rows: int = Field(default=2_000_000, ge=1000)
    """Rows after which a consuming segment is committed."""
    segment_hours: int = Field(default=6, ge=1)
    """Hours after which it is committed with fewer rows."""

    def days_kept(self, table: Table) -> int:
        """Retention of a table."""
        return self.retention_days.get(table.name, table.retention_days)
