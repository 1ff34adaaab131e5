"""Prometheus' page of a command that runs for long and has no REST."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


def serve_metrics(section: str, host: str, port: int, registry: CollectorRegistry) -> None:
    """In the background, unless the port is 0. `section`: of the settings that name it. Raises ConfigError
    when the port cannot be had."""
    from prometheus_client import start_http_server

    from mirror.errors import ConfigError

    if not port:
        return
    try:
        start_http_server(port, host, registry)
    except OSError as error:
        raise ConfigError(
            f"{section}.metrics_port {port} of {host} cannot be had: {error.strerror}",
            advice="give every process on this machine a port of its own",
        ) from error
