"""Everything an operator can set about mirroring, composed of the rooms' own classes."""

from __future__ import annotations

from pydantic import Field, model_validator

from mirror.adapters.settings import KafkaCluster, KafkaSecurity, ZooKeeperSecurity, ZooKeeperSettings
from mirror.errors import InvalidRequest
from mirror.instance.settings import DefinitionSettings, LeaderSettings, WorkerSettings
from mirror.model import bounds
from mirror.model.topics import checked_topic
from mirror.options import Seconds, Settings
from mirror.replication.settings import CopyingSettings

__all__ = [
    "CopyingSettings",
    "DefinitionSettings",
    "KafkaCluster",
    "KafkaSecurity",
    "LeaderSettings",
    "MirrorSettings",
    "Seconds",
    "Settings",
    "WorkerSettings",
    "ZooKeeperSecurity",
    "ZooKeeperSettings",
]


class MirrorSettings(Settings):
    """Everything about mirroring."""

    instance_name: str = ""
    """Name of this instance; empty means `<host>:<port of REST>`. One that comes back under its name gets
    its tasks back. It is needed where the port is any free one (0)."""
    instance_weight: float = Field(default=1.0, gt=0)
    """This instance's share of the work, relative to the others'."""
    state_directory: str = ""
    """Folder in which this instance keeps the definitions of datastreams, readable to its user only, so that
    it knows after a restart which ones ZooKeeper has lost; empty: nothing is kept."""
    destination_cluster: str = "destination"
    """Where datastreams go that name no destination, as those that Brooklin's clients create."""
    progress_topic: str = "headrace-progress"
    """Compacted topic at the destination that holds checkpoints."""
    metrics_cluster: str = "destination"
    """Cluster that measurements and events are written to."""
    metrics_topic: str = "headrace-mirror-metrics"
    """Topic of the mirror's measurements."""
    events_topic: str = "headrace-placement-events"
    """Topic of what changed and why."""
    definitions: DefinitionSettings = DefinitionSettings()
    worker: WorkerSettings = WorkerSettings()
    leader: LeaderSettings = LeaderSettings()
    copying: CopyingSettings = CopyingSettings()

    @model_validator(mode="after")
    def _names_are_possible(self) -> MirrorSettings:
        """A name that ZooKeeper or Kafka refuses is wrong now, and not when it is used first."""
        try:
            if self.instance_name:
                bounds.line("instance_name", self.instance_name)
            for key in ("progress_topic", "metrics_topic", "events_topic"):
                checked_topic(key, getattr(self, key))
        except InvalidRequest as error:
            raise ValueError(str(error)) from error
        return self
