"""Checks of a new or changed definition against the stored definitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from mirror.control.admission import Admission, check_joining, check_staying
from mirror.control.commands import CreateDatastream, UpdateDatastream
from mirror.control.owner_quotas import OwnerQuota, check_partitions, check_quota, counted_with, quota_of
from mirror.coordination.routes.mates import other_consumer_group
from mirror.errors import IllegalTransition, InvalidRequest
from mirror.model.clusters import is_address
from mirror.model.datastreams.creation import reused
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus, Halt
from mirror.model.datastreams.metadata import CREATED_MS, GROUP_ID, TASK_PREFIX
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.load import impossible_limits
from mirror.ports import Clock
from mirror.wording import counted


def check_group(datastream: Datastream, others: Sequence[Datastream]) -> None:
    """Check that the members of a group have compatible clusters and task limits. Raises InvalidRequest.

    All members must have the same source, because lanes are identified by group and partition.
    """
    members = [member for member in others if member.group == datastream.group]
    for other in members:
        if _route(other) != _route(datastream):
            raise InvalidRequest(
                f"all datastreams of group {other.group} must copy {_route(other)}, like {other.name}",
                advice=f"use the same clusters and topic names, or another {TASK_PREFIX}",
            )
    if bounds := impossible_limits(member.limits for member in (datastream, *members)):
        least, most = bounds
        raise InvalidRequest(
            f"datastreams of group {datastream.group} share tasks, but together require at least {least}"
            f" and at most {counted(most, 'task')}",
            advice="the strictest limits of all of them apply; change min_tasks or max_tasks",
        )


def check_consumer_group(new: Datastream, others: Sequence[Datastream]) -> None:
    """Check the consumer group of a new group member. Raises InvalidRequest.

    The consumer group cannot be changed later.
    """
    for other in others:
        theirs = other_consumer_group(new, other) if other.group == new.group else ""
        if theirs:
            raise InvalidRequest(
                f"datastreams of group {new.group} share tasks, but {other.name} commits its positions to"
                f" {GROUP_ID} {theirs} instead of {new.metadata[GROUP_ID]}",
                advice=f"set {GROUP_ID} = {theirs}, or another {TASK_PREFIX}",
            )


def _route(datastream: Datastream) -> str:
    return f"from {datastream.source} to {datastream.destination} as {datastream.naming.template}"


_FIRST_STATUSES: Final = frozenset(
    {DatastreamStatus.INITIALIZING, DatastreamStatus.PAUSED, DatastreamStatus.STOPPED}
)


class RouteCheck(Protocol):
    """Checks a new datastream for loops and conflicts with existing ones, and identifies their clusters."""

    def same_as(
        self, cluster: ClusterRef, aliases: Collection[ClusterRef], identity: str = ""
    ) -> Collection[ClusterRef]:
        """Return the aliases that may refer to the same cluster. Omits aliases of clusters with another id.

        `identity`: future id of the cluster.
        """
        ...

    def selected(self, datastreams: Sequence[Datastream]) -> Sequence[Mapping[str, int]]:
        """Return a mapping of topic name to partition count for each datastream, with its selected topics.
        The mapping is empty if the source does not respond."""
        ...

    def check(self, new: Datastream, others: Sequence[Datastream], former: Datastream | None = None) -> None:
        """Raise InvalidRequest if the datastream must not be copied because of loops or conflicts.

        `former`: the definition before a change.
        """
        ...


@dataclass(frozen=True)
class DefinitionChecks:
    """Validation of new and changed definitions.

    `admission`: rules for a single definition. `routes`: rules for the combination of datastreams.
    """

    admission: Admission
    routes: RouteCheck
    clock: Clock

    def quota_owner(self, datastream: Datastream) -> str | None:
        """Return the owner whose quota applies to a datastream, or None if no quota applies."""
        quotas = self.admission.quotas
        has_quota = quotas and quota_of(quotas, datastream.owner) != OwnerQuota()
        return datastream.owner if has_quota else None

    def guarded(self, datastreams: Sequence[Datastream]) -> frozenset[str]:
        """Return the names of the counters (`Guard`) that reveal concurrent changes of related
        datastreams."""
        owners = {self.quota_owner(datastream) for datastream in datastreams} - {None}
        return frozenset(
            {f"group {datastream.group}" for datastream in datastreams}
            | {f"owner {owner}" for owner in owners}
        )

    def created(self, command: CreateDatastream, others: Sequence[Datastream], principal: str) -> Datastream:
        """Check a new datastream, and return the definition to store.

        `principal`: as in `Admission.check`.

        Raises InvalidRequest and KeyReused.
        """
        if command.status not in _FIRST_STATUSES:
            raise InvalidRequest(f"a datastream cannot be created with status {command.status}")
        datastream = replace(command.datastream, status=command.status)
        if not datastream.owner:
            raise InvalidRequest(
                f"datastream {datastream.name} has no owner", advice='set metadata {"owner": "your team"}'
            )
        self.admission.check(datastream, None, self.routes.same_as, principal)
        if (creation := datastream.creation) is not None:
            for other in others:
                if creation.has_key_of(other.creation):
                    raise reused(other.name)
        members = [member for member in others if member.group == datastream.group]
        check_group(datastream, members)
        check_consumer_group(datastream, members)
        is_new = not (command.is_taken_over or command.is_restored)
        if is_new:
            check_joining(datastream, members)
        if not command.is_taken_over:
            self._check_quotas(datastream, None, others)
        stamp, given = {CREATED_MS: str(self.clock.now_ms())}, datastream.metadata
        metadata = {**given, **stamp} if is_new else {**stamp, **given}
        datastream = replace(datastream, metadata=metadata, halt=self._halt(command))
        self.routes.check(datastream, others)
        return datastream

    def _halt(self, command: CreateDatastream) -> Halt | None:
        if command.is_restored or not command.status.is_halted:
            return command.datastream.halt if command.is_restored else None
        return Halt(f"created {command.status}", self.clock.now_ms())

    def check_change(
        self,
        command: UpdateDatastream,
        after: Mapping[DatastreamName, Datastream],
        there: Sequence[Datastream],
        principal: str,
    ) -> None:
        """Check one changed definition. Raises IllegalTransition, InvalidRequest, QuotaExceeded.

        `there`: all stored datastreams. `after`: definitions by name, after all changes of the same call.
        """
        before, new = command.before.datastream, command.after
        if before.status is DatastreamStatus.DELETING:
            raise IllegalTransition(f"datastream {before.name} is {before.status}; it cannot be changed")
        stored = [after.get(member.name, member) for member in there]
        others = [member for member in stored if member.name != new.name]
        if new.limits != before.limits:
            check_group(new, others)
        members = [member for member in there if member.group == new.group and member.name != new.name]
        check_staying(before, new, [(member, after.get(member.name, member)) for member in members])
        self.admission.check(new, before, self.routes.same_as, principal)
        self._check_quotas(new, before, others)
        if _way_of(new) != _way_of(before):
            self.routes.check(new, others, before)

    def check_clusters(
        self,
        datastream: Datastream,
        identities: Mapping[ClusterRef, str],
        there: Sequence[Datastream],
        principal: str,
    ) -> None:
        """Check that the principal may use clusters with the given ids. Raises InvalidRequest.

        Raises IllegalTransition if a datastream of another owner uses the same address.
        """
        addresses = {cluster: identity for cluster, identity in identities.items() if is_address(cluster)}

        def same_as(cluster: ClusterRef, aliases: Collection[ClusterRef]) -> Collection[ClusterRef]:
            return self.routes.same_as(cluster, aliases, addresses[cluster])

        self.admission.check_clusters(datastream, addresses, same_as, principal)
        for other in there:
            shared = addresses.keys() & {other.source, other.destination}
            if shared and other.owner != datastream.owner:
                raise IllegalTransition(
                    f"the cluster at {min(shared)} has changed, and datastream {other.name} of another owner"
                    " also uses this address",
                    advice="add the cluster under [clusters] and create both datastreams with its alias",
                )

    def _check_quotas(self, new: Datastream, former: Datastream | None, others: Sequence[Datastream]) -> None:
        """Check the quotas of the owner. Raises QuotaExceeded."""
        quotas = self.admission.quotas
        if not quotas:
            return
        check_quota(quotas, new, former, others)
        mine = counted_with(quotas, new, former, others)
        if mine:
            was = [former] if former is not None else []
            datastreams = [*mine, *was]
            found = list(zip(datastreams, self.routes.selected(datastreams), strict=True))
            check_partitions(quotas, found[0], found[-1] if was else None, found[1 : len(mine)])


def _way_of(datastream: Datastream) -> tuple[object, ...]:
    """Return the changeable parts of a definition that can cause loops or duplicate copies."""
    return datastream.selection, datastream.shares_destination
