"""Commands to the service, as immutable values."""

from __future__ import annotations

from dataclasses import dataclass

from mirror.coordination.stores.definitions import StoredDatastream
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.datastreams.pauses import Partitions
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.nodes import NodeChange
from mirror.model.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class CreateDatastream:
    """Command to create a datastream.

    `status`: INITIALIZING, which the leader changes to READY, or PAUSED or STOPPED for a datastream that must
    not run yet. `is_taken_over`: the datastream was imported and keeps its creation time. Other datastreams
    get the current time, so that they are never older than existing datastreams. `is_restored`: the
    coordination store had lost the datastream, which keeps its creation time, its pauses and its stop.
    `reason`, `requested_by`: stored with the event.

    The command is idempotent if the definition contains a `creation`.
    """

    datastream: Datastream
    status: DatastreamStatus = DatastreamStatus.INITIALIZING
    is_taken_over: bool = False
    is_restored: bool = False
    reason: str = ""
    requested_by: str = ""


@dataclass(frozen=True, slots=True)
class UpdateDatastream:
    """Command to replace a definition, within the limits of `mirror.model.datastreams.change`.

    `before`: version on which the change is based. `is_exact`: reject the change if the stored version
    differs. If False, a later pause, resume or stop is permitted and preserved. `entries`: further changes of
    the same transaction.
    """

    before: StoredDatastream
    after: Datastream
    is_exact: bool = False
    reason: str = ""
    requested_by: str = ""
    entries: tuple[NodeChange, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangeStatus:
    """Command to pause, resume, stop or delete a datastream.

    `action`: a key of `model.datastreams.datastream.TRANSITIONS`. `reason`, `requested_by`: stored with a
    pause or a stop, and with the event. `before`: expected version; None accepts any version. `until_ms`: end
    of a pause in epoch milliseconds; replaces the end of an existing pause.
    """

    name: DatastreamName
    action: str
    reason: str = ""
    requested_by: str = ""
    before: StoredDatastream | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Command to pause or resume all datastreams that share tasks, in one transaction.

    `action`: pause or resume. `reason`, `requested_by`, `until_ms`: as in `ChangeStatus`. `before`: expected
    versions of all members; None accepts any.
    """

    group: GroupName
    action: str
    reason: str = ""
    requested_by: str = ""
    before: tuple[StoredDatastream, ...] | None = None
    until_ms: int | None = None

    def of(self, name: DatastreamName) -> ChangeStatus:
        """Return the same command for one datastream of the group."""
        return ChangeStatus(name, self.action, self.reason, self.requested_by, None, self.until_ms)


@dataclass(frozen=True, slots=True)
class ChangePauses:
    """Command to pause or resume partitions. Paused partitions remain assigned to their tasks.

    `reason`, `requested_by`: stored with a pause, and with the event. `before`, `until_ms`: as in
    `ChangeStatus`.
    """

    name: DatastreamName
    partitions: Partitions
    pause: bool
    reason: str = ""
    requested_by: str = ""
    before: StoredDatastream | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class MovePartitions:
    """Command to move partitions of a datastream to an instance.

    `host`: name or host of the instance. `before`: expected version.
    """

    name: DatastreamName
    partitions: frozenset[TopicPartition]
    host: str
    requested_by: str
    before: StoredDatastream | None = None


@dataclass(frozen=True, slots=True)
class TriggerRebalance:
    """Command to plan the tasks of a datastream again.

    `full`: ignore the current placement.
    """

    name: DatastreamName
    full: bool
    requested_by: str
    reason: str
