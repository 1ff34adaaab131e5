"""Rejects new or changed datastreams that must not be copied."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from mirror.coordination.routes.relatives import relatives
from mirror.coordination.routes.routes import RouteVerdict, circular, in_words
from mirror.coordination.stores.cluster_ids import KnownClusters
from mirror.coordination.stores.plan_store import NO_PLAN
from mirror.errors import InvalidRequest
from mirror.instance.discovery.questions import ClusterRequests
from mirror.instance.discovery.route_map import RouteMap, Topics, Written, copied_of, counted, written_by
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.policy import SHARED_DESTINATION
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName
from mirror.model.plan import Plan
from mirror.ports import Clock

_K = TypeVar("_K")
Way = tuple[ClusterRef, ClusterRef]
"""Source and destination, as named in definitions."""
_ByName = Mapping[DatastreamName, Datastream]


@dataclass(frozen=True, eq=False)
class ExistingDatastreams:
    """Existing datastreams, indexed by name, route and group. Immutable.

    Datastreams that are being deleted are only in `known`.
    """

    known: _ByName = field(default_factory=dict)
    by_way: Mapping[Way, _ByName] = field(default_factory=dict)
    by_group: Mapping[GroupName, _ByName] = field(default_factory=dict)

    def with_these(self, datastreams: Sequence[Datastream]) -> ExistingDatastreams:
        """Return an index of datastreams, whose names must be unique. Unchanged entries are reused, so adding
        one datastream to thousands is cheap."""
        came = [datastream for datastream in datastreams if self.known.get(datastream.name) is not datastream]
        new = sum(datastream.name not in self.known for datastream in came)
        if not came and len(datastreams) == len(self.known):
            return self
        replaced = [self.known[datastream.name] for datastream in came if datastream.name in self.known]
        known = {**self.known, **{datastream.name: datastream for datastream in came}}
        if len(self.known) + new != len(datastreams):
            names = {datastream.name for datastream in datastreams}
            replaced += [self.known[name] for name in self.known.keys() - names]
            known = {name: datastream for name, datastream in known.items() if name in names}
        counting = counted(came)
        return ExistingDatastreams(
            known,
            _changed(
                self.by_way,
                replaced,
                counting,
                lambda datastream: (datastream.source, datastream.destination),
            ),
            _changed(self.by_group, replaced, counting, lambda datastream: datastream.group),
        )


def _changed(
    index: Mapping[_K, _ByName],
    replaced: Iterable[Datastream],
    came: Iterable[Datastream],
    key: Callable[[Datastream], _K],
) -> Mapping[_K, _ByName]:
    """Return a copy of an index with some datastreams replaced. Copies only changed entries."""
    touched: dict[_K, dict[DatastreamName, Datastream]] = {}

    def below(datastream: Datastream) -> dict[DatastreamName, Datastream]:
        if key(datastream) not in touched:
            touched[key(datastream)] = dict(index.get(key(datastream), {}))
        return touched[key(datastream)]

    for datastream in replaced:
        below(datastream).pop(datastream.name, None)
    for datastream in came:
        below(datastream)[datastream.name] = datastream
    return {name: members for name, members in {**index, **touched}.items() if members}


_FEW: Final = 16
"""Number of topics up to which each name is compared with the topic selection."""
_IDENTITY_SECONDS: Final = 600.0
"""Seconds for which a cluster id counts as current."""


class RouteGate:
    """Rejects new and changed datastreams that would loop or write the topics of others. Thread-safe. Reads
    only clusters that may affect the datastream, and does not block other creations."""

    def __init__(
        self,
        route_map: RouteMap,
        known: KnownClusters,
        questions: ClusterRequests,
        plan: Callable[[], Plan],
        clock: Clock,
    ) -> None:
        self._map = route_map
        self._known = known
        self._questions = questions
        self._plan = plan
        self._clock = clock
        self._lock = threading.Lock()
        self._identified_at: dict[ClusterRef, float] = {}
        self._last_plan: tuple[Plan, Written] = NO_PLAN.plan, {}
        self._neighbours = ExistingDatastreams()

    def check(self, new: Datastream, others: Sequence[Datastream], former: Datastream | None = None) -> None:
        """Check a new or changed datastream against existing datastreams.

        Raises InvalidRequest if the datastream would copy in a loop, copy topics onto themselves, write a
        topic of another datastream, or stop another datastream from copying. The leader detects other
        problems later. `former`: the definition before the change, whose problems are ignored.
        """
        facts = self._facts(new, others)
        verdicts = self._verdicts(new, facts, former)
        change = "created" if former is None else "changed this way"
        _check_new(new, verdicts, change)
        for other in verdicts.after.left_out:
            if other != new.name:
                _check_other(new, other, verdicts, change)

    def same_as(
        self, cluster: ClusterRef, aliases: Collection[ClusterRef], identity: str = ""
    ) -> Collection[ClusterRef]:
        """Return the aliases that may refer to the same cluster. Omits aliases of clusters with another id.

        The current ids are stored, so that a cluster cannot report a different id later. `identity`: an
        additional id of the cluster.
        """
        identities = self._questions.identities([cluster, *aliases])
        with self._lock:
            self._map.note(identities)
        self._known.bound.bind(cluster, identities.get(cluster, ""))
        return self._known.same_as(cluster, aliases, identity)

    def selected(self, datastreams: Sequence[Datastream]) -> list[Mapping[str, int]]:
        """Map the topics that each datastream selects to their partition counts. The mapping is empty if the
        source does not respond."""
        topics = self._questions.topics(dict.fromkeys(datastream.source for datastream in datastreams))
        found: list[Mapping[str, int]] = []
        for datastream in datastreams:
            counts = topics.get(datastream.source, {})
            found.append({topic: counts[topic] for topic in self._map.selected(datastream, counts)})
        return found

    def _identify(self, clusters: Sequence[ClusterRef]) -> Mapping[ClusterRef, str]:
        """Return the ids of clusters. Requests them, and uses stored ids of clusters that do not respond."""
        identities = self._questions.identities(
            [cluster for cluster in clusters if self._is_unsure_of(cluster)]
        )
        with self._lock:
            self._map.note(identities)
            self._identified_at |= dict.fromkeys(identities, self._clock.monotonic())
            self._map.recall(clusters)
            return self._map.identities(clusters)

    def _facts(self, new: Datastream, others: Sequence[Datastream]) -> _Facts:
        ends = [new.source, new.destination]
        self._identify(ends)
        with self._lock:
            there = self._neighbours = self._neighbours.with_these(others)
            self._map.recall({*ends, *(cluster for way in there.by_way for cluster in way)})
            (mine,) = self._map.routes([new])
            # One datastream per route represents it.
            ways = {
                way: self._map.routes([next(iter(members.values()))])[0]
                for way, members in there.by_way.items()
            }
            written = self._written()
        circles = circular([*ways.values(), mine])
        around = frozenset(way for way, route in ways.items() if route.datastream.name in circles)
        near = frozenset(way for way, route in ways.items() if route.destination == mine.destination) | around
        topics = self._questions.topics([new.source, *(source for source, _ in near)])
        return _Facts(there, near, around, topics, written)

    def _is_unsure_of(self, cluster: ClusterRef) -> bool:
        known_at = self._identified_at.get(cluster)
        return known_at is None or self._clock.monotonic() - known_at >= _IDENTITY_SECONDS

    def _written(self) -> Written:
        plan = self._plan()
        if plan is not self._last_plan[0]:
            self._last_plan = plan, written_by(plan)
        return self._last_plan[1]

    def _verdicts(self, new: Datastream, facts: _Facts, former: Datastream | None) -> _Verdicts:
        known, written = self._map, facts.written
        chosen = self._selected(new, facts.topics, written)
        names = [new.naming.destination(topic) for topic in chosen]
        selected: dict[DatastreamName, Collection[str]] = {}
        relevant = self._relevant(new, facts) if facts.around else {}
        for way in facts.around:
            for datastream in facts.there.by_way[way].values():
                selected[datastream.name] = self._selected(datastream, relevant, written)
        for way in facts.near - facts.around if names else ():
            for datastream in facts.there.by_way[way].values():
                if same := _writing(names, datastream, facts.topics, written):
                    selected[datastream.name] = same
        selected[new.name] = chosen
        selected_before = dict(selected)
        if former is not None:
            selected_before[former.name] = self._selected(former, facts.topics, written)
        groups = {new.group, *([former.group] if former is not None else [])}
        others = facts.concerned(groups, selected)
        with self._lock:
            before = known.judge(known.routes([*others, *([former] if former is not None else [])]))
            after = known.judge(known.routes([*others, new]))
        return _Verdicts(
            before.verdict(selected_before, written),
            after.verdict(selected, written),
            after.verdict(after.foreseen(selected), written),
            before.verdict(before.foreseen(selected_before), written) if former is not None else _NOTHING,
        )

    @staticmethod
    def _relevant(new: Datastream, facts: _Facts) -> Topics:
        """Return the topics that may affect the new datastream, now or once its own topics exist."""
        around = (datastream for way in facts.around for datastream in facts.there.by_way[way].values())
        ways = [
            (datastream.source, datastream.destination, datastream.naming) for datastream in (*around, new)
        ]
        names = frozenset[str]().union(*facts.topics.values(), *facts.written.values())
        found = relatives(new.selection, ways, names)
        return {
            cluster: {topic: counts[topic] for topic in found if topic in counts}
            for cluster, counts in facts.topics.items()
        }

    def _selected(self, datastream: Datastream, topics: Topics, written: Written) -> Collection[str]:
        known = topics.get(datastream.source)
        return copied_of(datastream, written) if known is None else self._map.selected(datastream, known)


def _writing(
    names: Collection[str], datastream: Datastream, topics: Topics, written: Written
) -> Collection[str]:
    """Return the source topics that a datastream copies to destination topics with these names."""
    there = topics.get(datastream.source, written.get(datastream.group, ()))
    wanted = [
        topic for name in names if (topic := datastream.naming.source(name)) is not None and topic in there
    ]
    if len(wanted) <= _FEW:
        return sorted(filter(datastream.selection.matches, wanted))
    return datastream.selection.choose(wanted)


@dataclass(frozen=True)
class _Facts:
    """Facts for the check of one datastream. `near`: routes that may affect it. `around`: those that can
    close a loop."""

    there: ExistingDatastreams
    near: frozenset[Way]
    around: frozenset[Way]
    topics: Topics
    written: Written

    def concerned(self, groups: Collection[GroupName], names: Collection[DatastreamName]) -> list[Datastream]:
        """Return all members of the given groups, and of the groups of the named datastreams.

        Groups are checked as a whole, because one member can cause the rejection of another. The change does
        not affect other groups.
        """
        theirs = {known.group for name in names if (known := self.there.known.get(name)) is not None}
        return [
            datastream
            for group in theirs.union(groups)
            for datastream in self.there.by_group.get(group, {}).values()
        ]


@dataclass(frozen=True)
class _Verdicts:
    """What datastreams must not copy, before and after a change of one definition. `before`, `after`: with
    the topics that exist now. `known`, `foreseen`: the same if all copied topics existed already."""

    before: RouteVerdict
    after: RouteVerdict
    foreseen: RouteVerdict
    known: RouteVerdict


_NOTHING: Final = RouteVerdict({}, {})


def _check_new(new: Datastream, verdicts: _Verdicts, change: str) -> None:
    verdict, known = verdicts.foreseen, verdicts.known
    refused = verdict.refused.get(new.name)
    if refused is not None and new.name not in known.refused:
        raise InvalidRequest(
            f"datastream {new.name} cannot be {change}: {refused}",
            advice="choose other clusters or a destination name such as copy.*",
        )
    known_reasons = known.left_out.get(new.name, {})
    reasons = {
        topic: why for topic, why in verdict.left_out.get(new.name, {}).items() if topic not in known_reasons
    }
    if reasons:
        raise InvalidRequest(
            f"datastream {new.name} cannot be {change}: {in_words(reasons)}",
            advice="exclude these topics in its expressions, rename their copies, or share the destination"
            f" with {SHARED_DESTINATION} = true in the metadata of all datastreams that write to it",
        )


def _check_other(new: Datastream, other: DatastreamName, verdicts: _Verdicts, change: str) -> None:
    before, after = verdicts.before.left_out.get(other, {}), verdicts.after.left_out.get(other, {})
    lost = {topic: reason for topic, reason in after.items() if topic not in before}
    if lost:
        raise InvalidRequest(
            f"datastream {new.name} cannot be {change}: datastream {other} would lose topics: "
            f"{in_words(lost)}",
            advice="rename its copies, or exclude the topics in its expressions",
        )
