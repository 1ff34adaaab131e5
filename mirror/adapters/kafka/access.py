"""How our client reaches the clusters of the settings."""

from __future__ import annotations

from typing import Any

from mirror.adapters.settings import KafkaCluster
from mirror.client.access import ClusterAccess, access_from


def plain(cluster: KafkaCluster) -> dict[str, Any]:
    """A cluster's settings as plain values with its secrets in the clear: for a pipe, never for a log."""
    document = cluster.model_dump()
    security = document["security"]
    for name in ("password", "key_password"):
        security[name] = security[name].get_secret_value()
    return document


def access_of(cluster: KafkaCluster) -> ClusterAccess:
    """Raises ConfigError when certificates or addresses cannot be used."""
    return access_from(plain(cluster))


def usable_access(cluster: KafkaCluster) -> ClusterAccess:
    """The same; raises NotAuthorized as well for a token that cannot be read, before a broker is asked."""
    access = access_of(cluster)
    if access.sasl is not None and access.sasl.token is not None:
        access.sasl.token()
    return access
