"""The fast check of a new datastream gives the same result as a plain one, without an index or omissions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from mirror.coordination.routes import routes
from mirror.coordination.routes.index import SelectionIndex
from mirror.coordination.stores.cluster_ids import ClusterIds, KnownClusters
from mirror.errors import InvalidRequest, Unreachable
from mirror.instance.discovery import route_gate
from mirror.instance.discovery.questions import ClusterRequests
from mirror.instance.discovery.route_gate import RouteGate
from mirror.instance.discovery.route_map import RouteMap
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import ClusterRef
from mirror.model.plan import Plan
from mirror.model.topics import TopicNaming, TopicSelection
from tests.builders import a_datastream, a_plan, a_task
from tests.examples import examples
from tests.fakes.clock import ManualClock
from tests.fakes.instances import OWN_TOPICS
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.topic_admin import FakeTopicAdmin
from tests.patience import PATIENCE_SECONDS

CLUSTERS = ["A", "B", "C"]
SPELLED_ELSEWHERE = "-elsewhere"
PREFIXES = ["*", "*", "a.*", "b.*"]
UNCERTAIN = ["*", "a.*", "a.b.*", "*.x"]
EXPRESSIONS = [
    ".*",
    "t",
    "(t|u)",
    "^(?:t|a\\.u)$",
    "a\\..*",
    "b\\.a\\.t",
    "[^.]*",
    "b\\..*|t",
    ".*t",
    "a\\.?t",
    "t\\.x",
]
TOPICS = ["t", "u", "a.t", "b.u", "a.b.t", "t.x", "own-progress"]
_T = TypeVar("_T")


class EverySelection(Generic[_T]):
    """`SelectionIndex` without an index."""

    def __init__(self, selections: Iterable[tuple[TopicSelection, _T]]) -> None:
        self._selections = list(selections)

    def matching(self, topic: str) -> list[_T]:
        return [value for selection, value in self._selections if selection.matches(topic)]


def all_of_them(selection: TopicSelection, ways: object, names: Collection[str]) -> Collection[str]:
    """Return all names: `relatives` without omissions."""
    return names


@dataclass(frozen=True)
class Case:
    others: list[Datastream]
    new: Datastream
    topics: dict[str, frozenset[str]]
    silent: frozenset[str]
    plan: Plan


@st.composite
def a_definition(draw: st.DrawFn, number: int, templates: list[str]) -> Datastream:
    datastream = a_datastream(
        f"d{number}",
        metadata={"system.creation.ms": str(draw(st.integers(0, 3)))},
        source=ClusterRef(draw(st.sampled_from(CLUSTERS))),
        destination=ClusterRef(draw(st.sampled_from(CLUSTERS)) + SPELLED_ELSEWHERE),
        naming=TopicNaming(draw(st.sampled_from(templates))),
    )
    return replace(datastream, selection=TopicSelection(draw(st.sampled_from(EXPRESSIONS))))


def copies_onto_itself(one: Datastream) -> bool:
    return one.naming.is_identity and one.destination == one.source + SPELLED_ELSEWHERE


@st.composite
def cases(draw: st.DrawFn) -> Case:
    templates = draw(st.sampled_from([PREFIXES, PREFIXES, UNCERTAIN]))
    others = [draw(a_definition(number, templates)) for number in range(draw(st.integers(0, 6)))]
    topics = draw(
        st.fixed_dictionaries({one: st.frozensets(st.sampled_from(TOPICS), min_size=2) for one in CLUSTERS})
    )
    copied = [
        a_task(
            f"{one.name}-0",
            [f"{topic}-0" for topic in draw(st.frozensets(st.sampled_from(TOPICS), max_size=2))],
        )
        for one in others
    ]
    silent = draw(st.frozensets(st.sampled_from(CLUSTERS), max_size=1))
    new = draw(a_definition(9, templates).filter(lambda one: not copies_onto_itself(one)))
    return Case(others, new, topics, silent, a_plan(*copied))


def gate_for(case: Case) -> RouteGate:
    """Return a gate without earlier calls."""
    session, clock = FakeZooKeeper().session(), ManualClock()
    ids, clusters = ClusterIds(session), {}
    for name, topics in case.topics.items():
        cluster = FakeTopicAdmin(**dict.fromkeys(topics, 1))
        if name in case.silent:
            cluster.failure = Unreachable("it is away")
        for spelling in (ClusterRef(name), ClusterRef(name + SPELLED_ELSEWHERE)):
            clusters[spelling] = cluster
            ids.put(spelling, name)
    questions = ClusterRequests(lambda cluster: clusters[cluster], PATIENCE_SECONDS, run=lambda job: job())
    known = KnownClusters(session)
    return RouteGate(RouteMap(ids, OWN_TOPICS), known, questions, lambda: case.plan, clock)


def verdict_of(gate: RouteGate, new: Datastream, others: Sequence[Datastream]) -> str:
    """Return the verdict of the gate."""
    try:
        gate.check(new, others)
    except InvalidRequest as error:
        return error.message
    return "created"


def outcome(case: Case) -> str:
    """Return the verdict of a new gate."""
    return verdict_of(gate_for(case), case.new, case.others)


@settings(max_examples=examples(200))
@given(cases())
def test_the_quick_check_and_the_plain_one_say_the_same(case: Case) -> None:
    found = outcome(case)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(routes, "SelectionIndex", EverySelection)
        patched.setattr(route_gate, "relatives", all_of_them)
        plain = outcome(case)
    event(re.sub("d[0-9]", "d", plain)[:60])
    assert found == plain


@settings(max_examples=examples(50))
@given(cases(), st.data())
def test_a_gate_says_the_same_whatever_it_has_been_asked_before(case: Case, data: st.DataObject) -> None:
    """A gate updates its data from call to call; a new gate reads everything."""
    gate = gate_for(case)
    for _ in range(3):
        there = [one for one in case.others if data.draw(st.booleans(), f"is {one.name} there")]
        changed = data.draw(st.integers(0, max(len(there) - 1, 0)), "who is changed")
        for one in there[changed : changed + 1]:
            status = data.draw(st.sampled_from([DatastreamStatus.READY, DatastreamStatus.DELETING]))
            selection = TopicSelection(data.draw(st.sampled_from(EXPRESSIONS)))
            there[changed] = replace(one, status=status, selection=selection)
        assert verdict_of(gate, case.new, there) == verdict_of(gate_for(case), case.new, there)


@given(st.lists(st.sampled_from(EXPRESSIONS), max_size=8), st.sampled_from(TOPICS))
@example(["a.*|ab.*"], "abc")
def test_the_index_finds_what_matches_once_and_in_order(expressions: list[str], topic: str) -> None:
    selections = [(TopicSelection(one), number) for number, one in enumerate(expressions)]
    assert SelectionIndex(selections).matching(topic) == EverySelection(selections).matching(topic)
