"""What an operator can set about the REST interface."""

from __future__ import annotations

import structlog
from pydantic import Field

from api.access.settings import AccessSettings, BrooklinListenerSettings, LimitSettings, TlsSettings
from api.addresses import HOST, PORT, is_loopback
from mirror.errors import ConfigError
from mirror.instance.health import Health
from mirror.options import Settings

_log = structlog.get_logger(__name__)


class MetricSettings(Settings):
    """Series by partition on `/metrics`; everything else there is by datastream and task."""

    every_partition: bool = False
    """Whether every partition of this instance has series of its own: four for each."""
    top_partitions: int = Field(default=20, ge=0, le=10_000)
    """How many partitions of this instance have them otherwise: this number of those whose oldest record
    waits longest, and the same of those that carry most bytes."""


class ApiSettings(Settings):
    """Where REST listens."""

    host: str = HOST
    """Address to bind; others than loopback need `api.tls`, and tokens or certificates."""
    insecure: bool = False
    """Whether others than loopback are bound without TLS and without asking who calls; health shows it."""
    connector_names: list[str] = Field(default=["kafkaMirroringConnector", "headrace"])
    """What Brooklin's configuration calls its connectors that mirror Kafka; datastreams of another connector
    are refused."""
    transport_provider_names: list[str] = Field(default=["kafkaTransportProvider"])
    """What Brooklin's configuration calls its transport providers that write into Kafka; datastreams of
    another one are refused, those that name none are not."""
    advertised_address: str = ""
    """Where the other instances reach this one, `host:port`; empty: where it listens, by the name of this
    host if that is on every address."""
    fleet_deadline_seconds: float = Field(default=2.0, gt=0)
    """How long an answer of all instances waits for one of them."""
    port: int = Field(default=PORT, ge=0, le=65535)
    """Brooklin's port by default; 0 picks a free one."""
    tls: TlsSettings = TlsSettings()
    access: AccessSettings = AccessSettings()
    limits: LimitSettings = LimitSettings()
    metrics: MetricSettings = MetricSettings()
    brooklin: BrooklinListenerSettings = BrooklinListenerSettings()

    @property
    def asks_who_calls(self) -> bool:
        """Whether callers prove who they are."""
        access = self.access
        return bool(access.token_file or access.oidc.issuer or access.certificates)

    @property
    def knows_callers(self) -> bool:
        """Whether there are calls of principals: rights are theirs, and not those of owners."""
        return self.asks_who_calls or bool(self.brooklin.port)

    @property
    def _missing(self) -> dict[str, str]:
        """What who reaches `host` from elsewhere does without, with the settings that would bring it."""
        if is_loopback(self.host):
            return {}
        found = {}
        if not self.tls.certificate_file:
            found["TLS"] = "api.tls.certificate_file, api.tls.key_file"
        if not self.asks_who_calls:
            found["authentication"] = "api.access.token_file, api.access.oidc, or api.access.certificates"
        return found

    def check_exposure(self) -> None:
        """Raises ConfigError where anybody could call who reaches this machine, and nobody has said that this
        is meant."""
        missing = self._missing
        if missing and not self.insecure:
            keys = " and ".join(f"{what} ({named})" for what, named in missing.items())
            raise ConfigError(
                f"api.host = {self.host!r} can be reached from elsewhere without {keys}",
                advice="set them (docs/security.md), bind 127.0.0.1, or set api.insecure = true if all who"
                " reach this machine may do everything",
            )
        brooklin = self.brooklin
        if brooklin.port and not is_loopback(brooklin.host) and not brooklin.insecure:
            raise ConfigError(
                f"api.brooklin.host = {brooklin.host!r} can be reached from elsewhere, and asks nobody who"
                f" they are: all who reach it would have the role {brooklin.role}",
                advice="bind 127.0.0.1, or set api.brooklin.insecure = true if that is meant",
            )

    def exposure(self) -> str:
        """What health shows of listeners that others than loopback reach without proof; empty: none."""
        found = []
        if missing := self._missing:
            found.append(f"INSECURE: {self.host} is bound without {' and '.join(missing)} (api.insecure)")
        if self.brooklin.port and not is_loopback(self.brooklin.host):
            found.append(
                f"INSECURE: who reaches {self.brooklin.host}:{self.brooklin.port} has the role"
                f" {self.brooklin.role} (api.brooklin.insecure)"
            )
        return "; ".join(found)

    def report_exposure(self, health: Health) -> None:
        """Have health show it."""
        if exposure := self.exposure():
            health.report("access", True, exposure)
            _log.warning("listening without protection", reason=exposure)
