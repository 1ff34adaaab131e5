"""Test which of several conflicting routes may copy a topic, and the reasons for rejecting the rest."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mirror.coordination.routes.routes import Route, RouteJudge, RouteVerdict, in_words
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName
from mirror.model.topics import TopicNaming
from tests.builders import a_datastream


def a_route(
    name: str,
    way: str,
    topics: str = ".*",
    template: str = "*",
    at: int = 0,
    metadata: Mapping[str, str] | None = None,
) -> Route:
    """Return a route from A to B for `a_route("one", "A>B")`, created at `at`."""
    source, destination = way.split(">")
    metadata = {"system.creation.ms": str(at), **(metadata or {})}
    datastream = a_datastream(
        name,
        topics,
        metadata=metadata,
        source=ClusterRef(source),
        destination=ClusterRef(f"{destination} elsewhere"),
        naming=TopicNaming(template),
    )
    return Route(datastream, source, destination)


def judged(*routes: Route, topics: str = "t", written: Mapping[str, str] | None = None) -> RouteVerdict:
    """Return the verdict on these routes if all `topics` exist in every cluster."""
    return RouteJudge(routes, {"progress"}).verdict(
        {
            one.datastream.name: [
                topic for topic in topics.split() if one.datastream.selection.matches(topic)
            ]
            for one in routes
        },
        {GroupName(group): names.split() for group, names in (written or {}).items()},
    )


def left_out(verdict: RouteVerdict) -> dict[str, list[str]]:
    return {str(name): sorted(reasons) for name, reasons in verdict.left_out.items()}


def reason(verdict: RouteVerdict, name: str, topic: str = "t") -> str:
    return verdict.left_out[DatastreamName(name)][topic]


def test_of_two_that_copy_each_other_the_later_gives_way() -> None:
    for first, second in (("there", "back"), ("back", "there")):
        ways = {"there": "A>B", "back": "B>A"}
        verdict = judged(a_route(first, ways[first], at=1), a_route(second, ways[second], at=2))
        assert left_out(verdict) == {second: ["t"]}
        assert f"datastream {first}" in reason(verdict, second)
    assert left_out(judged(a_route("a", "A>B"), a_route("b", "B>A"))) == {"b": ["t"]}


def test_a_ring_is_cut_where_it_was_closed() -> None:
    ring = [a_route("one", "A>B", at=1), a_route("two", "B>C", at=2), a_route("three", "C>A", at=3)]
    verdict = judged(*ring)
    assert left_out(verdict) == {"three": ["t"]}
    assert "records of A elsewhere" in reason(verdict, "three")


def test_topics_that_do_not_return_are_copied_both_ways() -> None:
    verdict = judged(a_route("there", "A>B", "t"), a_route("back", "B>A", "u"), topics="t u")
    assert verdict == RouteVerdict({}, {})


def test_prefixes_keep_both_ways_apart() -> None:
    there, back = a_route("there", "A>B", template="a.*"), a_route("back", "B>A", template="b.*")
    verdict = judged(there, back, topics="t a.t b.t")
    assert left_out(verdict) == {"there": ["b.t"], "back": ["a.t"]}


def test_a_copy_within_a_cluster_is_not_copied_there_again() -> None:
    verdict = judged(a_route("chain", "A>A", template="x.*"), topics="t x.t x.x.t")
    assert left_out(verdict) == {"chain": ["x.t", "x.x.t"]}


def test_one_cluster_under_two_spellings_is_no_destination_for_its_own_names() -> None:
    verdict = judged(a_route("self", "A>A"))
    assert "same cluster" in verdict.refused[DatastreamName("self")]


def test_of_two_that_write_one_topic_the_later_gives_way() -> None:
    verdict = judged(a_route("one", "A>C", "t|u", at=1), a_route("two", "B>C", "t|v", at=2), topics="t u v")
    assert left_out(verdict) == {"two": ["t"]}
    assert "datastream one" in reason(verdict, "two")


def test_names_that_meet_are_one_topic() -> None:
    verdict = judged(a_route("one", "A>C", template="a.*"), a_route("two", "B>C"), topics="t a.t")
    assert left_out(verdict) == {"two": ["a.t"]}


def test_who_writes_a_topic_already_keeps_it() -> None:
    routes = a_route("old", "A>C", at=1), a_route("new", "B>C", at=2)
    assert left_out(judged(*routes, written={"new": "t"})) == {"old": ["t"]}
    assert left_out(judged(*routes, written={"new": "t", "old": "t"})) == {"new": ["t"]}


def test_a_destination_is_shared_when_all_agree() -> None:
    def pair(first: str, second: str) -> RouteVerdict:
        shares: list[dict[str, str]] = [{"headrace.shared-destination": one} for one in (first, second)]
        return judged(a_route("one", "A>C", metadata=shares[0]), a_route("two", "B>C", metadata=shares[1]))

    assert pair("true", "true") == RouteVerdict({}, {})
    assert left_out(pair("true", "false")) == left_out(pair("false", "true")) == {"two": ["t"]}


def test_members_of_a_group_write_a_topic_together() -> None:
    group = {"system.taskPrefix": "both"}
    assert judged(
        a_route("one", "A>C", "t", metadata=group), a_route("two", "A>C", metadata=group)
    ) == RouteVerdict({}, {})


def test_a_member_that_copies_elsewhere_is_refused() -> None:
    group = {"system.taskPrefix": "both"}
    verdict = judged(a_route("one", "A>C", at=1, metadata=group), a_route("two", "B>C", at=2, metadata=group))
    assert verdict.refused.keys() == {"two"}
    assert re.search(r"\bone\b.*\bA\b.*\bC\b.*\*$", verdict.refused[DatastreamName("two")])


def test_nothing_is_written_into_headraces_own_topics() -> None:
    verdict = judged(a_route("one", "A>B", template="*gress"), topics="pro t")
    assert re.match(r"progress\b.*\bHeadrace\b", reason(verdict, "one", "pro"))


def test_a_few_topics_are_named() -> None:
    assert re.fullmatch(r"2 topics .*\(a: y; b: x\)", in_words({"b": "x", "a": "y"}))
    assert re.fullmatch(r"5 topics .*\(a: z; b: z; c: z\b.*\b2 .*\)", in_words(dict.fromkeys("abcde", "z")))
