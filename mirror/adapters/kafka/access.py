"""Access to the clusters in the settings, for Headrace's Kafka client."""

from __future__ import annotations

from typing import Any

from mirror.adapters.settings import KafkaCluster
from mirror.client.access import ClusterAccess, access_from


def plain(cluster: KafkaCluster) -> dict[str, Any]:
    """Return the settings of a cluster as a document with secrets in plain text. Send secrets only through a
    pipe, and never log them."""
    document = cluster.model_dump()
    security = document["security"]
    for name in ("password", "key_password"):
        security[name] = security[name].get_secret_value()
    return document


def access_of(cluster: KafkaCluster) -> ClusterAccess:
    """Return the connection parameters of a cluster. Raises ConfigError for unusable certificates or
    addresses."""
    return access_from(plain(cluster))


def usable_access(cluster: KafkaCluster) -> ClusterAccess:
    """Return the connection parameters of a cluster after a check of its token file.

    Raises ConfigError; NotAuthorized for an unreadable token file.
    """
    access = access_of(cluster)
    if access.sasl is not None and access.sasl.token is not None:
        access.sasl.token()
    return access
