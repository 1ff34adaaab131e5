"""What an operator can set about the REST interface."""

from __future__ import annotations

from pydantic import Field

from mirror.options import Settings


class ApiSettings(Settings):
    """Where REST listens."""

    host: str = "127.0.0.1"
    """Address to bind; others than loopback make the interface reachable from the network."""
    connector_names: list[str] = Field(default=["kafkaMirroringConnector", "headrace"])
    """What Brooklin's configuration calls its connectors that mirror Kafka; datastreams of another connector
    are refused."""
    advertised_address: str = ""
    """Where the other instances reach this one, `host:port`; empty: where it listens, by the name of this
    host if that is on every address."""
    fleet_deadline_seconds: float = Field(default=2.0, gt=0)
    """How long an answer of all instances waits for one of them."""
    port: int = Field(default=32311, ge=0, le=65535)
    """Brooklin's port by default; 0 picks a free one."""
