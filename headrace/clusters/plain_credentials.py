"""Detects credentials that are sent over the network without TLS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from api.access.origins import is_loopback
from headrace.settings import HeadraceSettings
from mirror.model.clusters import server_addresses

_READABLE: Final = {"PLAIN": "the password", "OAUTHBEARER": "the token"}
"""SASL mechanisms that send a credential in plain text."""


def plain_credentials(settings: HeadraceSettings) -> Iterator[str]:
    """Yield a warning for each server on another machine that receives a credential in plain text."""
    for alias, cluster in settings.clusters.items():
        security, servers = cluster.security, cluster.bootstrap_servers
        sent = _READABLE.get(security.mechanism)
        if sent and not security.protocol.endswith("SSL") and _is_remote(servers):
            label = f"clusters.{alias}: {security.mechanism} sends {sent}"
            yield _warning(label, servers, "security.protocol to SASL_SSL")
    zookeeper, security_there = settings.zookeeper.servers, settings.zookeeper.security
    if security_there.mechanism == "digest" and not security_there.tls and _is_remote(zookeeper):
        yield _warning("zookeeper: digest sends the password", zookeeper, "zookeeper.security.tls")
    pinot = settings.pinot
    for server in (pinot.controller, pinot.broker) if pinot.username and not pinot.tls else ():
        if _is_remote(server):
            yield _warning("pinot: each request contains the password", server, "pinot.tls")


def _warning(label: str, servers: str, remedy: str) -> str:
    return f"PLAIN TEXT: {label}, but the connection to {servers} has no TLS; set {remedy}"


def _is_remote(servers: str) -> bool:
    return not all(is_loopback(host) for host, _ in server_addresses("servers", servers))
