"""Test the matching of datastreams with topics that are created, expanded and deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mirror.coordination.partition_selection import TopicMatching, dotted_names
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicSelection
from tests.builders import SOURCE, a_datastream, partitions

ELSEWHERE = ClusterRef("elsewhere")


def test_what_is_wanted_is_unknown_as_long_as_one_source_is() -> None:
    members = [a_datastream("a", "t"), a_datastream("b", "u", source=ELSEWHERE)]
    assert TopicMatching().wanted(members, {SOURCE: {"t": 1}}) is None
    assert TopicMatching().wanted(members, {SOURCE: {"t": 1}, ELSEWHERE: {}}) == partitions("t-0")


def test_topics_that_come_grow_and_go_are_followed() -> None:
    matching, members = TopicMatching(), [a_datastream("a", "t.*"), a_datastream("b", "u", metadata={})]
    steps = [
        ({"t1": 1, "v": 3}, ["t1-0"]),
        ({"t1": 2, "v": 3}, ["t1-0", "t1-1"]),
        ({"t1": 2, "t2": 1, "u": 1}, ["t1-0", "t1-1", "t2-0", "u-0"]),
        ({"u": 1}, ["u-0"]),
        ({}, []),
    ]
    for topics, wanted in steps:
        assert matching.wanted(members, {SOURCE: topics}) == partitions(*wanted)


def test_what_a_change_of_topics_does_not_concern_stays_the_same_object() -> None:
    matching = TopicMatching()
    first, second = [a_datastream("a", topics="a.*")], [a_datastream("b", topics="b.*")]
    counts = {"a1": 1, "a2": 1, "b1": 1}
    before = matching.wanted(first, {SOURCE: counts})
    assert matching.wanted(second, {SOURCE: counts}) == partitions("b1-0")
    for change, wanted in [
        ({"b1": 2}, ["b1-0", "b1-1"]),
        ({"b1": 2, "b2": 1}, ["b1-0", "b1-1", "b2-0"]),
        ({"b2": 1}, ["b2-0"]),
    ]:
        topics = {SOURCE: {"a1": 1, "a2": 1, **change}}
        assert matching.wanted(second, topics) == partitions(*wanted)
        assert matching.wanted(first, topics) is before


def test_an_expression_is_tried_once_on_a_topic() -> None:
    tried: list[str] = []

    class Counting(TopicSelection):
        def matches(self, topic: str) -> bool:
            tried.append(topic)
            return super().matches(topic)

        def choose(self, topics: Iterable[str], own: Collection[str] = ()) -> tuple[str, ...]:
            tried.extend(topics)
            return super().choose(topics, own)

        def __hash__(self) -> int:
            return hash(self.include)

    matching = TopicMatching()
    datastream = a_datastream("a")
    object.__setattr__(datastream, "selection", Counting(".*"))
    topics = {"t": 2, "u": 1}
    first = matching.wanted([datastream], {SOURCE: topics})
    assert matching.wanted([datastream], {SOURCE: topics}) is first
    matching.wanted([datastream], {SOURCE: {**topics, "v": 1}})
    assert sorted(tried) == ["t", "u", "v"]


def test_a_dot_that_stands_for_another_character_names_no_topic() -> None:
    assert dotted_names({"a.b", "c.d"}, {"a-b", "c.de"}) == {"a.b"}
