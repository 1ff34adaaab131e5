"""Creates the internal topics of the service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from mirror.bulkheads import Bulkhead
from mirror.coordination.stores.cluster_ids import BoundClusters
from mirror.instance.background_calls import BackgroundCalls, CallPending
from mirror.instance.discovery.preparation import topics_at
from mirror.loggers import get_logger
from mirror.model.identifiers import ClusterRef
from mirror.model.reasons import reason_of
from mirror.model.topics import TopicDescription
from mirror.ports import TopicAdmin

_log = get_logger(__name__)


class OwnTopics:
    """Creates the internal topics that the service needs."""

    def __init__(
        self,
        admin_of: Callable[[ClusterRef], TopicAdmin],
        background_calls: BackgroundCalls,
        bound: BoundClusters,
    ) -> None:
        self._admin_of = admin_of
        self._background_calls = background_calls
        self._bound = bound
        self._missing: dict[str, tuple[ClusterRef, TopicDescription]] = {}

    def need(self, cluster: ClusterRef, topic: TopicDescription) -> None:
        """Register an internal topic of the service, to be created by `ensure`."""
        self._missing[topic.name] = (cluster, topic)

    def ensure(self) -> None:
        """Create the registered internal topics that are missing. The next call retries after a failure."""
        for name, (cluster, topic) in tuple(self._missing.items()):
            with (
                suppress(CallPending),
                Bulkhead(partial(_log_not_created, cluster, name), through=(CallPending,)),
            ):
                adjustments = self._background_calls.ask(
                    topics_at(cluster), name, partial(self._create, cluster, topic)
                )
                for sentence in adjustments:
                    _log.warning("topic setting rejected", cluster=cluster, difference=sentence)
                del self._missing[name]

    def _create(self, cluster: ClusterRef, topic: TopicDescription) -> Sequence[str]:
        admin = self._admin_of(cluster)
        self._bound.require(cluster, admin.cluster_id())
        return admin.create(topic)


def _log_not_created(cluster: ClusterRef, topic: str, error: Exception) -> None:
    _log.warning("cannot create topic", topic=topic, cluster=cluster, reason=reason_of(error))
