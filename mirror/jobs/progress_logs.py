"""Creates readers of progress topics."""

from __future__ import annotations

from typing import TypeVar

from mirror.model.identifiers import ClusterRef
from mirror.replication.context import EngineContext
from mirror.replication.progress_log import ProgressLog

L = TypeVar("L", bound=ProgressLog)


def progress_log(kind: type[L], context: EngineContext, cluster: ClusterRef) -> L:
    """Create a reader of the progress topic of a cluster.

    `kind`: class of the reader, which determines the records to cache.
    """
    identity = context.identity
    return kind(context.cluster(cluster), identity.progress_topic, identity.replication_factor)
