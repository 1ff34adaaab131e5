"""Random small worlds of clusters, topics and datastreams, copied according to the rules for many rounds.

No record returns to a cluster where it was, no topic has two writers, and no name grows without bound.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.coordination.routes.routes import Route, RouteJudge, RouteVerdict
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName
from mirror.model.topics import TopicNaming, TopicSelection
from tests.builders import a_datastream
from tests.examples import examples

CLUSTERS = ["A", "B", "C", "D"]
NAMINGS = ["*", "*", "*", "a.*", "b.*", "*.x"]
EXPRESSIONS = [".*", "t", "u", "(t|u)", "a\\..*", ".*\\.x", "[^.]*", "b\\..*|t"]
TOPICS = ["t", "u", "a.t", "b.u", "t.x"]
RESERVED = frozenset({"progress"})

Written = dict[GroupName, set[str]]


@st.composite
def a_route(draw: st.DrawFn, number: int) -> Route:
    source, destination = draw(st.sampled_from(CLUSTERS)), draw(st.sampled_from(CLUSTERS))
    datastream = replace(
        a_datastream(
            f"d{number}",
            metadata={"system.creation.ms": str(draw(st.integers(0, 3)))},
            source=ClusterRef(source),
            destination=ClusterRef(f"{destination}-elsewhere"),
            naming=TopicNaming(draw(st.sampled_from(NAMINGS))),
        ),
        selection=TopicSelection(draw(st.sampled_from(EXPRESSIONS))),
    )
    return Route(datastream, source, destination)


@st.composite
def routes(draw: st.DrawFn) -> list[Route]:
    return [draw(a_route(number)) for number in range(draw(st.integers(1, 6)))]


native = st.dictionaries(st.sampled_from(CLUSTERS), st.frozensets(st.sampled_from(TOPICS), max_size=4))


class Copying:
    """Copies according to the verdicts of `RouteJudge`. A record is the list of its clusters and topics."""

    def __init__(self, routes: list[Route], native: dict[str, frozenset[str]]) -> None:
        self.routes = routes
        self.records: dict[tuple[str, str], set[tuple[tuple[str, str], ...]]] = defaultdict(set)
        self.writers: dict[tuple[str, str], set[GroupName]] = defaultdict(set)
        self.written: Written = {}
        for cluster, topics in native.items():
            for topic in topics:
                self.records[cluster, topic].add(((cluster, topic),))

    def verdict(self) -> RouteVerdict:
        return RouteJudge(self.routes, RESERVED).verdict(self.chosen(), self.written)

    def chosen(self) -> dict[DatastreamName, list[str]]:
        return {
            route.datastream.name: [
                topic
                for cluster, topic in self.records
                if cluster == route.source and route.datastream.selection.matches(topic)
            ]
            for route in self.routes
        }

    def round(self) -> bool:
        """Copy once; return whether any record reached a new place."""
        verdict, chosen, came = self.verdict(), self.chosen(), False
        self.written = {}
        self.writers.clear()
        for route in self.routes:
            one = route.datastream
            if one.name in verdict.refused:
                continue
            for topic in chosen[one.name]:
                if topic in verdict.left_out.get(one.name, {}):
                    continue
                place = route.destination, one.naming.destination(topic)
                self.written.setdefault(one.group, set()).add(topic)
                self.writers[place].add(one.group)
                copies = {(*record, place) for record in self.records[route.source, topic]}
                came |= not copies <= self.records[place]
                self.records[place] |= copies
        return came


@settings(max_examples=examples(400))
@given(routes(), native)
def test_no_record_returns_no_topic_has_two_writers_and_names_do_not_grow(
    routes: list[Route], native: dict[str, frozenset[str]]
) -> None:
    copying = Copying(routes, native)
    for _ in range(len(CLUSTERS) + 3):
        is_moving = copying.round()
        assert all(len(groups) == 1 for groups in copying.writers.values())
    assert not is_moving, "records move without end"
    for records in copying.records.values():
        for record in records:
            clusters = [cluster for cluster, _ in record]
            left = [one for number, one in enumerate(clusters) if number == 0 or clusters[number - 1] != one]
            assert len(left) == len(set(left)), f"{record} came back"
            assert all(clusters.count(one) <= 2 for one in clusters), f"{record} stayed"


@given(routes(), native, st.randoms(use_true_random=False))
def test_every_instance_finds_the_same(
    routes: list[Route], native: dict[str, frozenset[str]], shuffled: random.Random
) -> None:
    other = list(routes)
    shuffled.shuffle(other)
    assert Copying(routes, native).verdict() == Copying(other, native).verdict()


@given(routes(), native)
def test_what_one_datastream_does_is_as_it_was_before_a_younger_one_came(
    routes: list[Route], native: dict[str, frozenset[str]]
) -> None:
    """Renaming is an exception: a ring of renames is cut where a changed name would return to its origin."""
    youngest = max(routes, key=lambda route: route.age)
    older = [route for route in routes if route is not youngest]
    before, after = Copying(older, native).verdict(), Copying(routes, native).verdict()
    assert before.refused.items() <= after.refused.items()
    renaming = [one.datastream.naming for one in routes if not one.datastream.naming.is_identity]
    for route in older:
        name = DatastreamName(route.datastream.name)
        fewer = after.left_out.get(name, {}).keys() - before.left_out.get(name, {}).keys()
        assert all(any(naming.source(topic) is not None for naming in renaming) for topic in fewer)


def test_a_ring_that_changes_names_is_cut_where_a_changed_name_would_return() -> None:
    ways = [("A", "D", "a.*"), ("B", "A", "a.*"), ("D", "B", "*")]
    ring = [
        Route(
            a_datastream(
                f"d{number}",
                source=ClusterRef(source),
                destination=ClusterRef(destination),
                naming=TopicNaming(template),
            ),
            source,
            destination,
        )
        for number, (source, destination, template) in enumerate(ways)
    ]
    verdict = Copying(ring, {"A": frozenset({"a.t", "t"})}).verdict()
    assert list(verdict.left_out) == ["d0"]
    assert list(verdict.left_out[DatastreamName("d0")]) == ["a.t"]


def test_a_datastream_alone_is_never_in_its_own_way() -> None:
    route = Route(a_datastream(source=ClusterRef("A"), destination=ClusterRef("B")), "A", "B")
    assert RouteJudge([route], RESERVED).verdict({route.datastream.name: TOPICS}, {}) == RouteVerdict({}, {})
