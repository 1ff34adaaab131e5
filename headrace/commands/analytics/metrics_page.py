"""Prometheus endpoint for long-running commands that have no REST interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


def serve_metrics(section: str, host: str, port: int, registry: CollectorRegistry) -> None:
    """Serve metrics in the background; do nothing if the port is 0.

    `section`: section of the settings with the port, for errors. Raises ConfigError if the port cannot be
    bound.
    """
    from prometheus_client import start_http_server

    from mirror.errors import ConfigError

    if not port:
        return
    try:
        start_http_server(port, host, registry)
    except OSError as error:
        raise ConfigError(
            f"cannot bind {host}:{port} ({section}.metrics_port): {error.strerror}",
            advice="set a different port for every process on this machine",
        ) from error
