"""Checks whether a switch-over of a pair would succeed. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from headrace.clusters.adhoc import reach
from headrace.console.resources import WaitCondition, worst_skews
from headrace.dr.datastreams import require_direction
from headrace.dr.groups import redelivery_note, share_hindrance
from headrace.dr.pair_session import PairSession
from mirror.client.cluster import Cluster
from mirror.errors import HeadraceError, NotAuthorized, Refused
from mirror.jobs.dr.coverage import differing_topics
from mirror.jobs.dr.fence import denials_at, refuse_own, require_own_rights
from mirror.jobs.dr.operation import PairState, Switchover
from mirror.jobs.groups.decision import FollowReason, group_hindrance
from mirror.jobs.groups.source import listed
from mirror.model.expressions import expression_of
from mirror.model.identifiers import ClusterRef
from mirror.protocol.control.acls import Permission, list_acls
from mirror.protocol.control.groups import SHARE, ListedGroup
from mirror.protocol.control.rights import AclOperation, cluster_rights
from mirror.protocol.control.topics import describe_settings
from mirror.wording import first_few

OK: Final = "ok"
WARN: Final = "warn"
FAIL: Final = "fail"
_COMPARED: Final = (
    "cleanup.policy",
    "max.message.bytes",
    "message.timestamp.type",
    "min.insync.replicas",
    "retention.ms",
    "retention.bytes",
)


class CheckItem(NamedTuple):
    """Result of one check before a switch-over. `grade`: ok, warn or fail."""

    item: str
    grade: str
    detail: str


def check_pair(session: PairSession) -> list[CheckItem]:
    """Run all checks of a cluster pair. Raises Unreachable if the coordination store does not respond."""
    return PairCheck(session).run()


class PairCheck:
    """Checks to make before a switch-over from the active to the other cluster."""

    def __init__(self, session: PairSession) -> None:
        self._session = session
        self._settings = session.settings
        self._state: PairState = session.state()
        origin, target = self._state.active, session.settings.other(self._state.active)
        self._known: dict[str, dict[str, int]] = {}
        definitions = {}
        self._problem: HeadraceError | None = None
        try:
            definitions = session.acts.datastreams.definitions(self._state.datastreams.values())
        except HeadraceError as error:
            self._problem = error
        self._plan = Switchover(
            identity="", origin=origin, target=target, begun_ms=0, definitions=definitions
        )

    def run(self) -> list[CheckItem]:
        """Run all checks and return their results. A check that raises an error counts as failed."""
        checks: dict[str, Callable[[], Iterator[CheckItem]]] = {
            "operation": self._operation,
            "datastreams": self._datastreams,
            "clocks": self._clocks,
            "clusters": self._clusters,
            "topics": self._topics,
            "topic settings": self._topic_settings,
            "fence": self._fence,
            "rights": self._rights,
            "groups": self._groups,
        }
        found: list[CheckItem] = []
        for name, check in checks.items():
            try:
                items = list(check())
            except HeadraceError as error:
                items = [CheckItem(name, FAIL, str(error))]
            found += items or [CheckItem(name, OK, "")]
            if name == "clusters" and items:
                break  # each of the other checks would wait for the cluster
        return found

    def _cluster(self, name: str) -> Cluster:
        return self._session.bench.cluster(ClusterRef(name))

    def _operation(self) -> Iterator[CheckItem]:
        present = self._state.operation
        if present is not None:
            yield CheckItem(
                "operation", FAIL, f"unfinished {present.kind} to {present.target} ({present.step})"
            )
        if self._state.fork is not None:
            yield CheckItem("operation", FAIL, f"failed over to {self._state.active}: run a failback")

    def _datastreams(self) -> Iterator[CheckItem]:
        if self._problem is not None:
            yield CheckItem("datastreams", FAIL, str(self._problem))
        for definition in self._plan.definitions.values():
            require_direction(definition, self._plan.origin, self._plan.target)
        for name in self._state.datastreams.values():
            self._session.acts.datastreams.require(name, WaitCondition.RUNNING)
            self._session.acts.datastreams.require_lag_below(name, self._settings.rpo_seconds)

    def _clusters(self) -> Iterator[CheckItem]:
        for name in (self._plan.origin, self._plan.target):
            try:
                reach(self._session.bench, ClusterRef(name))
            except HeadraceError as error:
                yield CheckItem("clusters", FAIL, f"{name}: {error}")

    def _topics(self) -> Iterator[CheckItem]:
        here, there = (self._counts(name) for name in (self._plan.origin, self._plan.target))
        if not here:
            yield CheckItem("topics", FAIL, f"no topic of the datastreams exists on {self._plan.origin}")
        for sentence in differing_topics(self._plan.origin, here, self._plan.target, there):
            yield CheckItem("topics", FAIL, sentence)
        if extra := sorted(there.keys() - here.keys()):
            named = first_few(extra)
            yield CheckItem("topics", WARN, f"only on {self._plan.target}: {named}")

    def _counts(self, cluster: str) -> dict[str, int]:
        """Map each topic of the pair on a cluster to its partition count. Cached after the first call."""
        if cluster not in self._known:
            self._known[cluster] = self._session.bench.run(
                self._session.acts.topics(self._plan.definitions, cluster)
            )
        return self._known[cluster]

    def _topic_settings(self) -> Iterator[CheckItem]:
        names = sorted(self._counts(self._plan.origin))
        here, there = (
            self._session.bench.run(self._cluster(name).ask(describe_settings(names)))
            for name in (self._plan.origin, self._plan.target)
        )
        for topic in names:
            left, right = here.get(topic, {}), there.get(topic, {})
            different = [
                f"{key} {left[key].value} and {right[key].value}"
                for key in _COMPARED
                if key in left and key in right and left[key].value != right[key].value
            ]
            if different:
                yield CheckItem("topic settings", WARN, f"{topic}: {'; '.join(different)}")

    def _fence(self) -> Iterator[CheckItem]:
        principals, run = self._settings.principals, self._session.bench.run
        if not principals:
            yield CheckItem(
                "fence", WARN, "no principals: stop the producers yourself before the switch-over"
            )
            return
        origin, target = self._cluster(self._plan.origin), self._cluster(self._plan.target)
        refuse_own(principals, {origin.principal, target.principal})
        for cluster in (origin, target):
            run(denials_at(cluster))
            if not run(_may_alter(cluster)):
                yield CheckItem("fence", FAIL, f"{cluster.principal} has no right to Alter {cluster.name}")
        grants = [acl for acl in run(origin.ask(list_acls())).acls if acl.permission == Permission.ALLOW]
        topics = sorted(self._counts(self._plan.origin))
        bare = [topic for topic in topics if not any(acl.covers(topic) for acl in grants)]
        if bare:
            yield CheckItem(
                "fence",
                WARN,
                f"no ACL allows anything on {first_few(bare)}: if the brokers set"
                " allow.everyone.if.no.acl.found, a denial excludes everyone",
            )

    def _rights(self) -> Iterator[CheckItem]:
        for name in (self._plan.origin, self._plan.target):
            topics = sorted(self._counts(name))
            self._session.bench.run(require_own_rights(self._cluster(name), topics))
        yield from ()

    def _groups(self) -> Iterator[CheckItem]:
        if not self._settings.groups:
            return
        expression = expression_of("groups", self._settings.groups)
        here, there = (
            self._session.bench.run(listed(self._cluster(name))).groups
            for name in (self._plan.origin, self._plan.target)
        )
        for name in sorted(here):
            if expression.matches(name):
                target = self._cluster(self._plan.target)
                found = group_items(target, name, here[name], there.get(name, ListedGroup()))
                yield from self._session.bench.run(found)

    def _clocks(self) -> Iterator[CheckItem]:
        instances = self._session.acts.datastreams.instances()
        yield from clock_items(instances, (self._plan.origin, self._plan.target))


def clock_items(instances: Iterable[Mapping[str, Any]], clusters: Iterable[str]) -> Iterator[CheckItem]:
    """Return warnings about clusters whose clocks differ from the clocks of the instances.

    Ages of records, and the loss in seconds, are then wrong. `instances`: response of `GET /v1/instances`.
    """
    skews = worst_skews(instances)
    for cluster in clusters:
        if cluster in skews and not skews[cluster].is_tolerable:
            yield CheckItem("clocks", WARN, f"{cluster}: {skews[cluster].sentence}")


async def group_items(
    target: Cluster, name: str, at_origin: ListedGroup, at_target: ListedGroup
) -> Sequence[CheckItem]:
    """Explain why a consumer group would not move to the target, and warn about a share group.

    A share group may receive records again. `here`, `there`: description of the group on both clusters.
    Raises NotAuthorized, Unreachable.
    """
    hindrance = group_hindrance(at_origin, at_target)
    if hindrance is FollowReason.OTHER_TYPE:
        return [CheckItem("groups", FAIL, f"group {name} has another type on {target.name}")]
    if hindrance is FollowReason.MEMBERS:
        return [CheckItem("groups", FAIL, f"group {name} has members on {target.name}")]
    if at_origin.kind != SHARE:
        return []
    detail = await share_hindrance(target, name, at_origin)
    return [CheckItem("groups", WARN, detail or redelivery_note(name))]


async def _may_alter(cluster: Cluster) -> bool:
    """Return whether Headrace may create ACLs on the cluster. True for brokers before Kafka 2.8, which do not
    report permissions."""
    try:
        rights = await cluster.ask(cluster_rights())
    except NotAuthorized:
        return False
    except Refused:  # the request is unknown
        return True
    return rights is None or AclOperation.ALTER in rights
