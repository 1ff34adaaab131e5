"""Creates readers of progress topics that cache other records in addition to the progress of lanes."""

from __future__ import annotations

from typing import TypeVar

from mirror.model.identifiers import ClusterRef
from mirror.replication.context import EngineContext
from mirror.replication.progress_log import ProgressLog

L = TypeVar("L", bound=ProgressLog)


def progress_log(kind: type[L], context: EngineContext, cluster: ClusterRef) -> L:
    """Return a new reader of a cluster's progress topic."""
    identity = context.identity
    return kind(context.cluster(cluster), identity.progress_topic, identity.replication_factor)
