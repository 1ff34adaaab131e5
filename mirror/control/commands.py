"""What can be asked of the service, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass

from mirror.coordination.stores.definitions import StoredDatastream
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.datastreams.pauses import Partitions
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class CreateDatastream:
    """Register a definition. `status`: INITIALIZING, which the leader makes READY, or PAUSED or STOPPED
    for one that must not run yet. `is_taken_over`: it has run elsewhere and keeps the time of its creation;
    any other is stamped, so that nobody can be older than those who were here before. `is_restored`: it was
    here before ZooKeeper lost it, and also keeps its pauses and its halt. Where the definition has a
    `creation`, the same call may be sent again. `reason` and `requested_by`: for the event."""

    datastream: Datastream
    status: DatastreamStatus = DatastreamStatus.INITIALIZING
    is_taken_over: bool = False
    is_restored: bool = False
    reason: str = ""
    requested_by: str = ""


@dataclass(frozen=True, slots=True)
class UpdateDatastream:
    """Let a definition become another one, in what `mirror.model.datastreams.change` allows. `before`: what
    was read, which the change was made of. `is_exact`: nothing at all may have happened to it since; without
    that it may have been paused, resumed or stopped, which stays."""

    before: StoredDatastream
    after: Datastream
    is_exact: bool = False
    reason: str = ""
    requested_by: str = ""


@dataclass(frozen=True, slots=True)
class ChangeStatus:
    """Pause, resume, stop or delete a datastream. `action`: a key of `model.lifecycle.TRANSITIONS`. `reason`
    and `requested_by`: kept with a pause or a stop, and for the events. `before`: what was read; nothing at
    all may have happened to it since. None: whatever is there is changed. `until_ms`: when a pause ends by
    itself (epoch); of one that is paused already it changes the end."""

    name: DatastreamName
    action: str
    reason: str = ""
    requested_by: str = ""
    before: StoredDatastream | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Pause or resume all datastreams that share tasks, or none of them. `action`: pause or resume. `reason`,
    `requested_by`, `until_ms`: as of `ChangeStatus`. `before`: all of them as they were read; nothing at all
    may have happened to any of them since. None: whatever is there is changed."""

    group: GroupName
    action: str
    reason: str = ""
    requested_by: str = ""
    before: tuple[StoredDatastream, ...] | None = None
    until_ms: int | None = None

    def of(self, name: DatastreamName) -> ChangeStatus:
        """What is done with one of them."""
        return ChangeStatus(name, self.action, self.reason, self.requested_by, None, self.until_ms)


@dataclass(frozen=True, slots=True)
class ChangePauses:
    """Pause partitions of a datastream, or resume them (`pause` false). They stay where they are planned.
    `reason` and `requested_by`: kept with a pause, and for the events. `before` and `until_ms`: as of
    `ChangeStatus`."""

    name: DatastreamName
    partitions: Partitions
    pause: bool
    reason: str = ""
    requested_by: str = ""
    before: StoredDatastream | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class MovePartitions:
    """Bring partitions of a datastream to an instance, by its name or its host. `before`: what was read; it
    must be the newest there is."""

    name: DatastreamName
    partitions: frozenset[TopicPartition]
    host: str
    requested_by: str
    before: StoredDatastream | None = None


@dataclass(frozen=True, slots=True)
class TriggerRebalance:
    """Ask the leader to plan a datastream's tasks again; `full`: forget the present placement."""

    name: DatastreamName
    full: bool
    requested_by: str
    reason: str
