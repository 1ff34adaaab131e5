"""Settings of the REST interface."""

from __future__ import annotations

from pydantic import Field

from api.access.listener_settings import AccessSettings, BrooklinListenerSettings, LimitSettings, TlsSettings
from api.access.origins import HOST, PORT, is_loopback
from api.metrics.partitions import MetricSettings
from mirror.errors import ConfigError
from mirror.instance.health import Health
from mirror.loggers import get_logger
from mirror.options import Settings

_log = get_logger(__name__)


class ApiSettings(Settings):
    """Listener of the REST interface."""

    host: str = HOST
    """Address to bind. An address other than loopback requires `api.tls`, and tokens or certificates for
    callers."""
    insecure: bool = False
    """Allow an address other than loopback without TLS or authentication. Health reports this as a
    problem."""
    connector_names: list[str] = Field(default=["kafkaMirroringConnector", "headrace"])
    """Connector names of Brooklin's configuration that mean Kafka mirroring. Datastreams with other
    connectors are rejected."""
    transport_provider_names: list[str] = Field(default=["kafkaTransportProvider"])
    """Names of transport providers of Brooklin's configuration that mean Kafka. Datastreams with other
    providers are rejected."""
    advertised_address: str = ""
    """`host:port` at which other instances reach this instance. Empty: the listen address; if that is the
    wildcard address, the host name of this machine."""
    fleet_deadline_seconds: float = Field(default=2.0, gt=0)
    """Maximum time to wait for each instance if a request needs responses from all instances."""
    port: int = Field(default=PORT, ge=0, le=65535)
    """Port to bind; 0 picks a free port. The default is Brooklin's."""
    tls: TlsSettings = TlsSettings()
    access: AccessSettings = AccessSettings()
    limits: LimitSettings = LimitSettings()
    metrics: MetricSettings = MetricSettings()
    brooklin: BrooklinListenerSettings = BrooklinListenerSettings()

    @property
    def requires_authentication(self) -> bool:
        """Return whether callers of the REST interface have to authenticate."""
        access = self.access
        return bool(access.token_file or access.oidc.issuer or access.certificates)

    @property
    def knows_callers(self) -> bool:
        """Return whether requests have a principal, which determines the rights of the caller."""
        return self.requires_authentication or bool(self.brooklin.port)

    @property
    def _missing(self) -> dict[str, str]:
        """Protections that the listener lacks, each with the settings that add it; empty for a local
        `host`."""
        if is_loopback(self.host):
            return {}
        found = {}
        if not self.tls.certificate_file:
            found["TLS"] = "api.tls.certificate_file, api.tls.key_file"
        if not self.requires_authentication:
            found["authentication"] = "api.access.token_file, api.access.oidc, or api.access.certificates"
        return found

    def check_exposure(self) -> None:
        """Raise ConfigError if other machines can reach the listener without TLS or authentication, unless
        `api.insecure` (or `api.brooklin.insecure`) permits it."""
        missing = self._missing
        if missing and not self.insecure:
            keys = " and ".join(f"{label} ({named})" for label, named in missing.items())
            raise ConfigError(
                f"api.host = {self.host!r} is reachable from other machines without {keys}",
                advice="set them (docs/security.md), bind 127.0.0.1, or set api.insecure = true to give full"
                " access to everyone who reaches this machine",
            )
        brooklin = self.brooklin
        if brooklin.port and not is_loopback(brooklin.host) and not brooklin.insecure:
            raise ConfigError(
                f"api.brooklin.host = {brooklin.host!r} is reachable from other machines without"
                f" authentication: all its callers would have the role {brooklin.role}",
                advice="bind 127.0.0.1, or set api.brooklin.insecure = true to allow it",
            )

    def exposure(self) -> str:
        """Return health's warning about listeners without authentication or TLS; empty if there are none."""
        found = []
        if missing := self._missing:
            found.append(f"INSECURE: {self.host} is bound without {' and '.join(missing)} (api.insecure)")
        if self.brooklin.port and not is_loopback(self.brooklin.host):
            found.append(
                f"INSECURE: all callers of {self.brooklin.host}:{self.brooklin.port} have the role"
                f" {self.brooklin.role} (api.brooklin.insecure)"
            )
        return "; ".join(found)

    def report_exposure(self, health: Health) -> None:
        """Report listeners without protection in the health of the instance and in the log."""
        if exposure := self.exposure():
            health.report("access", True, exposure)
            _log.warning("unprotected listener", reason=exposure)
