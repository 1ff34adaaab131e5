"""Steps of a retirement: seal, wait, check again, delete; or restore.

Each phase is stored with compare-and-set before it is performed. Of two concurrent callers, one gets
VersionConflict. After a crash, the next call repeats the stored phase.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from mirror.client.administration.deletion import remove_topic
from mirror.client.cluster import Cluster
from mirror.control.commands import ChangeStatus
from mirror.control.handlers import Control
from mirror.coordination.stores.events import command_event
from mirror.coordination.topic_retirement import (
    Retirement,
    RetirementPhase,
    WriteDenial,
    objections,
    require_unused,
)
from mirror.coordination.topic_use import TopicEvidence, UnusedRules
from mirror.errors import IllegalTransition, NotAuthorized, NotFound, Unreachable
from mirror.jobs.retirement.store import RetirementStore, StoredRetirement
from mirror.jobs.retirement.topic_watch import TopicWatch
from mirror.model import bounds
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.metrics import PlacementEvent
from mirror.model.topics import TopicPartition, checked_topic
from mirror.protocol.codes import MISSING, MOVED, TRANSIENT, Code
from mirror.protocol.control.acls import EVERYONE, create_acls, delete_acls, deny_write, list_acls
from mirror.protocol.control.cluster import NO_TOPIC_ID
from mirror.protocol.control.offsets import LATEST
from mirror.protocol.control.topics import delete_records
from mirror.wording import first_few


async def current_id(cluster: Cluster, topic: str) -> str | None:
    """Return the topic id, an empty string for a cluster without topic ids, or None for a missing topic."""
    await cluster.refresh([topic])
    found = cluster.topics.get(topic)
    if found is None or found.error in MISSING:
        return None
    if found.error:
        raise cluster.error(found.error, f"cannot describe topic {topic}", f"Describe on topic {topic}")
    return "" if found.topic_id == NO_TOPIC_ID else found.topic_id.hex()


async def denial_of(cluster: Cluster, topic: str) -> WriteDenial:
    """Return whether an ACL denies all writes to a topic. Raises NotAuthorized.

    Returns `NO_AUTHORIZER` for a cluster without an authorizer.
    """
    found = await cluster.patiently(lambda: cluster.ask_controller(list_acls(topic)))
    if found.error == Code.SECURITY_DISABLED:
        return WriteDenial.NO_AUTHORIZER
    if found.error:
        doing = f"cannot read the ACLs of topic {topic}"
        raise cluster.error(found.error, doing, "Describe on the cluster", found.message)
    return WriteDenial.FOUND if deny_write(topic, EVERYONE) in found.acls else WriteDenial.WANTED


async def deny_writes(cluster: Cluster, topic: str) -> None:
    """Create an ACL that denies Write on a topic to all principals. Raises NotAuthorized."""
    denial = deny_write(topic, EVERYONE)
    (found,) = await cluster.patiently(lambda: cluster.ask_controller(create_acls([denial])))
    if found.error:
        doing = f"cannot deny writes to topic {topic}"
        raise cluster.error(found.error, doing, "Alter on the cluster", found.message)


async def allow_writes(cluster: Cluster, topic: str) -> None:
    """Delete the ACL of `deny_writes`, if it exists. Raises NotAuthorized."""
    denial = deny_write(topic, EVERYONE)
    (found,) = await cluster.patiently(lambda: cluster.ask_controller(delete_acls([denial])))
    if found.error not in (0, Code.SECURITY_DISABLED):
        doing = f"cannot delete the ACL that denies writes to topic {topic}"
        raise cluster.error(found.error, doing, "Alter on the cluster", found.message)


async def empty_partitions(cluster: Cluster, places: Sequence[TopicPartition]) -> bool:
    """Delete all records of the partitions. Raises Unreachable, NotAuthorized.

    Returns False if the topic is compacted and the brokers therefore reject the request.
    """
    ends = await cluster.offsets(dict.fromkeys(places, LATEST))
    for place in places:
        answer = ends[place]
        if answer.error:
            raise cluster.error(
                answer.error, f"cannot read the end offset of {place}", f"Describe on topic {place.topic}"
            )
        code = await cluster.patiently(lambda: _empty(cluster, place, answer.offset), topic=place.topic)  # noqa: B023
        if code == Code.POLICY_VIOLATION:
            return False
        if code:
            raise cluster.error(
                code, f"cannot delete the records of {place}", f"Delete on topic {place.topic}"
            )
    return True


async def _empty(cluster: Cluster, place: TopicPartition, before: int) -> int:
    leader = cluster.leader(place)
    if leader is None:
        raise Unreachable(f"{place} has no leader")
    code = await cluster.ask(delete_records(place, before), leader[0])
    if code in TRANSIENT or code in MOVED:
        raise Unreachable(f"cannot delete the records of {place}: broker returned {code}")
    return code


def require_same(topic: str, expected: str, found: str | None) -> None:
    """Check that the sealed topic was not deleted or recreated. Raises IllegalTransition."""
    if found != expected:
        change = "deleted" if found is None else "re-created"
        raise IllegalTransition(
            f"topic {topic} was {change} after it was sealed",
            advice="run headrace topics restore to end the retirement",
        )


PARTITIONS_AT_ONCE: Final = 20
"""Number of partitions whose records one call deletes at most. The call checks for readers first."""


class RetirementRequest(NamedTuple):
    """Request to start or continue the retirement of a topic.

    `wait_ms`: time between the seal and the deletion. `denies_writes`: whether to create an ACL if the
    cluster has an authorizer.
    """

    cluster: ClusterRef
    topic: str
    days: int
    wait_ms: int
    denies_writes: bool = True
    requested_by: str = ""
    reason: str = ""


class RetirementOutcome(NamedTuple):
    """Result of one step of a topic's retirement.

    `is_over`: the topic is deleted or restored, and the retirement is no longer stored. `evidence`: None if
    the step required no evidence.
    """

    retirement: Retirement
    is_over: bool = False
    evidence: TopicEvidence | None = None


@dataclass(frozen=True)
class TopicRetirements:
    """Starts, continues and ends retirements of topics. Every method requires rights on all datastreams.

    `announce`: callback that publishes events.
    """

    watch: TopicWatch
    store: RetirementStore
    rules: UnusedRules
    announce: Callable[[tuple[PlacementEvent, ...]], None]

    def unused(self, control: Control, cluster: ClusterRef, days: int) -> list[TopicEvidence]:
        """Return evidence of use for each topic of a cluster. Raises Unreachable, NotAuthorized,
        Forbidden."""
        control.check_right_to_all()
        return self.watch.evidence(cluster, control.list_again(), replace(self.rules, days=days))

    def all(self) -> list[Retirement]:
        """Return the retirements of topics in progress."""
        return self.store.all()

    def retire(self, control: Control, request: RetirementRequest, *, dry_run: bool) -> RetirementOutcome:
        """Perform the next step of a retirement.

        `dry_run`: only check whether the step is possible. Raises IllegalTransition with the reasons if the
        topic is in use; VersionConflict if the retirement was changed concurrently; NotFound, Forbidden,
        Unreachable, NotAuthorized.
        """
        _check(request)
        control.check_right_to_all("" if dry_run else f"retire topic {request.topic}", request.reason)
        stored = self.store.get(request.cluster, request.topic)
        if stored is None:
            return self._begin(control, request, dry_run=dry_run)
        phase = stored.retirement.phase
        if phase is RetirementPhase.RESTORING:
            raise IllegalTransition(
                f"topic {request.topic} is being restored", advice="run headrace topics restore again"
            )
        is_waiting = phase is RetirementPhase.SEALED and not stored.retirement.is_due(self._now_ms)
        if is_waiting or (dry_run and phase is RetirementPhase.SEALING):
            return RetirementOutcome(stored.retirement)
        if phase is RetirementPhase.SEALING:
            return RetirementOutcome(self._seal(control, stored).retirement)
        return self._delete(control, stored, dry_run=dry_run)

    def restore(
        self, control: Control, cluster: ClusterRef, topic: str, requested_by: str, reason: str
    ) -> RetirementOutcome:
        """End the retirement of a topic: allow writes again, and resume its datastreams.

        Deleted records remain deleted. Raises NotFound if there is no retirement, and the errors of `retire`.
        """
        checked_topic("the topic", topic)
        control.check_right_to_all(f"restore topic {topic}", reason)
        stored = self.store.get(cluster, topic)
        if stored is None:
            raise NotFound(f"topic {bounds.shown(topic)} of {bounds.shown(cluster)} is not being retired")
        stored = self.store.change(stored, stored.retirement.restoring())
        self._allow(stored.retirement)
        for name in stored.retirement.paused:
            with suppress(NotFound, IllegalTransition):  # deleted, or resumed meanwhile
                control.change_status(
                    ChangeStatus(name, "resume", reason or f"topic {topic} is restored", requested_by)
                )
        self.store.end(stored)
        self._tell(stored.retirement, "restored")
        return RetirementOutcome(stored.retirement, is_over=True)

    @property
    def _now_ms(self) -> int:
        return self.watch.clock.now_ms()

    def _evidence(self, control: Control, cluster: ClusterRef, topic: str, days: int) -> TopicEvidence | None:
        rules = replace(self.rules, days=days)
        return next(iter(self.watch.evidence(cluster, control.list_again(), rules, only=topic)), None)

    def _begin(self, control: Control, request: RetirementRequest, *, dry_run: bool) -> RetirementOutcome:
        cluster, topic = request.cluster, request.topic
        evidence = self._evidence(control, cluster, topic, request.days)
        if evidence is None:
            raise NotFound(f"cluster {cluster} has no topic {topic}, or its user may not describe it")
        require_unused(evidence)
        denial = WriteDenial.NOT_WANTED
        if request.denies_writes:
            denial = self._denial(cluster, topic)
        selectors = evidence.selectors
        retirement = Retirement(
            cluster,
            topic,
            evidence.observation.topic_id,
            evidence.observation.ends,
            evidence.observation.partitions,
            RetirementPhase.SEALING,
            denial,
            tuple(selector.datastream for selector in selectors),
            tuple(selector.datastream for selector in selectors if not selector.is_halted),
            tuple(sorted({selector.owner for selector in selectors} - {""})),
            request.days,
            request.wait_ms,
            self._now_ms,
            requested_by=control.caller.signed(request.requested_by),
            reason=request.reason,
        )
        if dry_run:
            return RetirementOutcome(retirement, evidence=evidence)
        stored = self._seal(control, self.store.begin(retirement), is_first=True)
        return RetirementOutcome(stored.retirement, evidence=evidence)

    def _denial(self, cluster: ClusterRef, topic: str) -> WriteDenial:
        try:
            return self.watch.ask(cluster, partial(denial_of, topic=topic))
        except NotAuthorized as error:
            raise NotAuthorized(
                error.message, advice=f"{error.advice}, or pass --no-acl to seal without an ACL"
            ) from error

    def _seal(
        self, control: Control, stored: StoredRetirement, *, is_first: bool = False
    ) -> StoredRetirement:
        retirement = stored.retirement
        self._require_same(retirement)
        denial = retirement.denial
        try:
            if denial is WriteDenial.WANTED:
                self.watch.ask(retirement.cluster, partial(deny_writes, topic=retirement.topic))
                denial = WriteDenial.MADE
        except NotAuthorized:
            if is_first:  # nothing was done
                self.store.end(stored)
            raise
        for name in retirement.paused:
            self._pause(control, name, retirement)
        stored = self.store.change(stored, retirement.sealed(denial, self._now_ms))
        self._tell(stored.retirement, "sealed")
        return stored

    def _pause(self, control: Control, name: DatastreamName, retirement: Retirement) -> None:
        reason = f"topic {retirement.topic} of {retirement.cluster} is being retired"
        with suppress(NotFound):  # deleted meanwhile
            if not control.get(name).status.is_halted:
                control.change_status(ChangeStatus(name, "pause", reason, retirement.requested_by))

    def _delete(self, control: Control, stored: StoredRetirement, *, dry_run: bool) -> RetirementOutcome:
        """Delete the next records, or the topic if no records remain. Raises IllegalTransition if it is in
        use."""
        retirement = stored.retirement
        is_deleting = retirement.phase is RetirementPhase.DELETING
        found = self.watch.ask(retirement.cluster, partial(current_id, topic=retirement.topic))
        if is_deleting and found != retirement.topic_id and not dry_run:
            return self._finish(stored)  # deleted by a call that was interrupted
        require_same(retirement.topic, retirement.topic_id, found)
        evidence = self._evidence(control, retirement.cluster, retirement.topic, retirement.days)
        if evidence is None:
            raise NotFound(f"topic {retirement.topic} no longer exists", advice="run the command again")
        against = objections(retirement, evidence)
        if against:
            problem = f"topic {retirement.topic} is in use again: {', '.join(against)}"
            if not dry_run:
                self.store.note_problem(stored, problem)
            raise IllegalTransition(
                problem, advice="run `headrace topics restore`, or wait until the topic is unused"
            )
        if dry_run:
            return RetirementOutcome(retirement, evidence=evidence)
        # The evidence took time, in which the topic may have been restored.
        return self._delete_batch(self.store.change(stored, retirement.deleting()), evidence)

    def _delete_batch(self, stored: StoredRetirement, evidence: TopicEvidence) -> RetirementOutcome:
        retirement = stored.retirement
        if retirement.emptied < retirement.partitions:
            until = min(retirement.emptied + PARTITIONS_AT_ONCE, retirement.partitions)
            places = [TopicPartition(retirement.topic, each) for each in range(retirement.emptied, until)]
            if not self.watch.ask(retirement.cluster, partial(empty_partitions, places=places)):
                until = retirement.partitions  # Kafka deletes such records only with the topic
            stored = self.store.change(stored, replace(retirement, emptied=until, problem=""))
            return RetirementOutcome(stored.retirement, evidence=evidence)
        act = partial(remove_topic, topic=retirement.topic, topic_id=retirement.topic_id)
        self.watch.ask(retirement.cluster, act)
        return self._finish(stored)

    def _finish(self, stored: StoredRetirement) -> RetirementOutcome:
        self._allow(stored.retirement)
        self.store.end(stored)
        self._tell(stored.retirement, "deleted")
        return RetirementOutcome(stored.retirement, is_over=True)

    def _allow(self, retirement: Retirement) -> None:
        if retirement.denial in (WriteDenial.WANTED, WriteDenial.MADE):
            self.watch.ask(retirement.cluster, partial(allow_writes, topic=retirement.topic))

    def _require_same(self, retirement: Retirement) -> None:
        found = self.watch.ask(retirement.cluster, partial(current_id, topic=retirement.topic))
        require_same(retirement.topic, retirement.topic_id, found)

    def _tell(self, retirement: Retirement, what: str) -> None:
        owners = f"; owners: {first_few(list(retirement.owners))}" if retirement.owners else ""
        paused = f"; datastreams: {first_few(list(retirement.selected))}" if retirement.selected else ""
        sentence = f"topic {retirement.topic} of {retirement.cluster} is {what}{paused}{owners}"
        name = retirement.selected[0] if retirement.selected else DatastreamName("")
        self.announce((command_event(name, sentence, self._now_ms),))


def _check(request: RetirementRequest) -> None:
    """Raise InvalidRequest if the retirement request has invalid values."""
    checked_topic("the topic", request.topic)
    bounds.cause(request.reason, request.requested_by)
