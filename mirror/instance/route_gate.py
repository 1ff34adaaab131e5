"""Refuses a datastream that must not be copied before it is created."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from mirror.coordination.routes import Verdict, circular, foreseen, in_words
from mirror.errors import InvalidRequest
from mirror.instance.route_watch import RouteWatch, Topics, Written, clusters_of, copied_of, written_by
from mirror.instance.surroundings import Surroundings
from mirror.model.datastream import Datastream
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.plan import Plan
from mirror.model.policy import SHARED_DESTINATION
from mirror.ports import Clock

_PATIENCE_SECONDS: Final = 5.0
"""How long a creation waits for clusters that are slow; what they would have said is found out later."""


class RouteGate:
    """Refuses datastreams at their creation. Thread-safe; asks only clusters that the new one concerns."""

    def __init__(
        self, watch: RouteWatch, surroundings: Surroundings, plan: Callable[[], Plan], clock: Clock
    ) -> None:
        self._watch = watch
        self._surroundings = surroundings
        self._plan = plan
        self._clock = clock
        self._lock = threading.Lock()

    def check(self, new: Datastream, others: Sequence[Datastream]) -> None:
        """Raises InvalidRequest when it would copy in a circle, onto itself or where another one writes, or
        keep another one from what it copies. What cannot be known now, the leader finds out."""
        with self._lock:
            verdicts = self._verdicts(new, others)
        _check_new(new, verdicts.foreseen)
        for other in others:
            _check_other(new, other.name, verdicts)

    def _verdicts(self, new: Datastream, others: Sequence[Datastream]) -> _Verdicts:
        watch, written = self._watch, written_by(self._plan())
        watch.learn([new.source, new.destination])
        watch.recall(clusters_of(others))
        before, after = watch.routes(others), watch.routes([*others, new])
        around, end = circular(after), after[-1].destination
        near = [one for one in before if one.destination == end or one.datastream.name in around]
        topics = self._topics([new.source, *(one.datastream.source for one in near)])
        chosen = self._selected(new, topics, written)
        names = [new.naming.destination(topic) for topic in chosen]
        selected: dict[DatastreamName, Collection[str]] = {new.name: chosen}
        for route in near:
            one = route.datastream
            found = self._selected if one.name in around else partial(_writing, names)
            selected[one.name] = found(one, topics, written)
        return _Verdicts(
            watch.judge(before, selected, written),
            watch.judge(after, selected, written),
            watch.judge(after, foreseen(after, selected), written),
        )

    def _selected(self, one: Datastream, topics: Topics, written: Written) -> Collection[str]:
        known = one.source in topics
        return self._surroundings.matching.selected(one, topics) if known else copied_of(one, written)

    def _topics(self, clusters: Iterable[ClusterRef]) -> Topics:
        """Those of clusters that answer in time."""
        topics: dict[ClusterRef, Mapping[str, int]] = {}
        deadline = self._clock.monotonic() + _PATIENCE_SECONDS
        for cluster in dict.fromkeys(clusters):
            if self._clock.monotonic() < deadline:
                topics |= self._surroundings.topics([cluster])
        return topics


def _writing(names: Iterable[str], one: Datastream, topics: Topics, written: Written) -> Collection[str]:
    """Source topics of a datastream that it copies to one of these names."""
    there = topics.get(one.source, written.get(one.group, ()))
    wanted = (one.naming.source(name) for name in names)
    return one.selection.choose(topic for topic in wanted if topic is not None and topic in there)


@dataclass(frozen=True)
class _Verdicts:
    """Without the new datastream, with it, and with it once its copies are there."""

    before: Verdict
    after: Verdict
    foreseen: Verdict


def _check_new(new: Datastream, verdict: Verdict) -> None:
    refused = verdict.refused.get(new.name)
    if refused is not None:
        raise InvalidRequest(
            f"datastream {new.name} cannot be created: {refused}",
            advice="choose other clusters or a destination name such as copy.*",
        )
    reasons = verdict.left_out.get(new.name)
    if reasons:
        raise InvalidRequest(
            f"datastream {new.name} cannot be created: {in_words(reasons)}",
            advice="leave these topics out by its expressions, give their copies other names, or share their"
            f" destination on purpose with {SHARED_DESTINATION} = true in the metadata of all that write it",
        )


def _check_other(new: Datastream, other: DatastreamName, verdicts: _Verdicts) -> None:
    before, after = verdicts.before.left_out.get(other, {}), verdicts.after.left_out.get(other, {})
    lost = {topic: reason for topic, reason in after.items() if topic not in before}
    if lost:
        raise InvalidRequest(
            f"datastream {new.name} cannot be created: with it datastream {other} would lose what it copies: "
            f"{in_words(lost)}",
            advice="give its copies other names, or leave the topics out by its expressions",
        )
