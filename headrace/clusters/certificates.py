"""Reads the expiry dates of the certificates in the settings."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.settings import HeadraceSettings
from mirror.errors import ConfigError
from mirror.tls import CertificateValidity, expiry_times


def certificates_of(settings: HeadraceSettings) -> Iterator[CertificateValidity]:
    """Read each certificate file in the settings, and yield its validity."""
    for name, file, is_authority in _files(settings):
        if not file:
            continue
        try:
            ends = expiry_times(file)
        except ConfigError as error:
            yield CertificateValidity(name, file, None, error.message)
        else:
            # One valid authority of a bundle is enough; of our own chain every certificate must be valid.
            yield CertificateValidity(name, file, max(ends) if is_authority else min(ends))


def _files(settings: HeadraceSettings) -> Iterator[tuple[str, str, bool]]:
    """Yield (setting, path, whether it contains CA certificates) for each certificate file."""
    for alias, cluster in settings.clusters.items():
        if cluster.security.protocol.endswith("SSL"):
            place = f"clusters.{alias}.security"
            yield f"{place}.certificate_file", cluster.security.certificate_file, False
            yield f"{place}.ca_file", cluster.security.ca_file, True
    zookeeper, rest = settings.zookeeper.security, settings.api.tls
    yield "zookeeper.security.certificate_file", zookeeper.certificate_file, False
    yield "zookeeper.security.ca_file", zookeeper.ca_file, True
    yield "api.tls.certificate_file", rest.certificate_file, False
    yield "api.tls.client_ca_file", rest.client_ca_file, True
