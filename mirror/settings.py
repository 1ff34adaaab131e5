"""All settings of the mirroring service, composed of the classes of its packages."""

from __future__ import annotations

from pydantic import Field, model_validator

from mirror.adapters.settings import (
    CoordinationSettings,
    KafkaCluster,
    KafkaSecurity,
    ZooKeeperSecurity,
    ZooKeeperSettings,
)
from mirror.errors import InvalidRequest
from mirror.instance.settings import AuditSettings, DefinitionSettings, LeaderSettings, WorkerSettings
from mirror.model import bounds
from mirror.model.topics import checked_topic
from mirror.options import Seconds, Settings
from mirror.replication.settings import CopyingSettings

__all__ = [
    "CoordinationSettings",
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
    """Settings of the mirroring service."""

    instance_name: str = ""
    """Name of this instance. Empty means `<host>:<REST port>`. An instance that restarts with the same name
    gets its tasks back. Required if the system chooses the port (`api.port` is 0)."""
    instance_weight: float = Field(default=1.0, gt=0)
    """Weight of this instance: its share of the work relative to other instances."""
    state_directory: str = ""
    """Directory for files of this instance, readable only by the user of the process. Empty means
    `$XDG_STATE_HOME/headrace` or `~/.local/state/headrace`. The embedded store keeps the state of the service
    in it. If you set a directory, the instance also keeps a copy of the definitions of datastreams in it.
    After a restart, the copy shows which definitions the coordination store has lost."""
    destination_cluster: str = "destination"
    """Destination cluster of datastreams whose definitions do not name one, such as datastreams that
    Brooklin's clients create."""
    progress_topic: str = "headrace-progress"
    """Compacted topic at the destination for checkpoints."""
    metrics_cluster: str = "destination"
    """Cluster to which measurements and events are written."""
    metrics_topic: str = "headrace-mirror-metrics"
    """Topic for measurements of lanes."""
    events_topic: str = "headrace-placement-events"
    """Topic for placement events. A placement event is a change of the plan, with its reason."""
    kept_topics: list[str] = Field(default=[])
    """Topics to keep even if they seem unused. `*` matches any text, such as `archive-*`. The topics are
    never listed as unused and cannot be retired."""
    audit: AuditSettings = AuditSettings()
    definitions: DefinitionSettings = DefinitionSettings()
    worker: WorkerSettings = WorkerSettings()
    leader: LeaderSettings = LeaderSettings()
    copying: CopyingSettings = CopyingSettings()

    @model_validator(mode="after")
    def _names_are_possible(self) -> MirrorSettings:
        """Reject names that ZooKeeper or Kafka would reject later."""
        try:
            if self.instance_name:
                bounds.line("instance_name", self.instance_name)
            for key in ("progress_topic", "metrics_topic", "events_topic"):
                checked_topic(key, getattr(self, key))
            if self.audit.topic:
                checked_topic("audit.topic", self.audit.topic)
        except InvalidRequest as error:
            raise ValueError(str(error)) from error
        return self
