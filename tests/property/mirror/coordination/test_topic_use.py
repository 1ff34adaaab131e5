"""A topic in use is never proposed, in random histories of writes, readers, gaps and re-creations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.coordination.topic_use import (
    DAY_MS,
    LONGEST_GAP_MS,
    KeepReason,
    TopicEvidence,
    TopicHistory,
    TopicObservation,
    TopicReader,
    TopicSelector,
    UnusedRules,
    judged,
    selectors_of,
    updated_history,
)
from mirror.model.identifiers import ClusterRef, DatastreamName
from tests.builders import DESTINATION, SOURCE, a_datastream
from tests.examples import examples

HOUR_MS = 3_600_000
KEPT_MS = 7 * DAY_MS
"""Time for which Kafka keeps the offsets of a group without members."""
START_MS = 1_700_000_000_000

events = st.lists(
    st.tuples(
        st.integers(1, 20 * DAY_MS // HOUR_MS),
        st.sampled_from(["look", "look", "look", "look", "write", "read", "recreate"]),
    ),
    max_size=25,
)


def evidence(observation: TopicObservation, seen: TopicHistory | None, **more: Any) -> TopicEvidence:
    return TopicEvidence(ClusterRef("c"), "t", observation, seen, (), (), (), **more)


@settings(max_examples=examples(200))
@given(events, st.integers(1, 30))
def test_a_topic_used_within_the_limit_is_never_unused(history: list[tuple[int, str]], days: int) -> None:
    now_ms, written, made_ms, generation = START_MS, 0, START_MS, 0
    used_ms, read_until_ms = START_MS, 0
    seen: TopicHistory | None = None
    rules = UnusedRules(days)
    for hours, event in history:
        now_ms += hours * HOUR_MS
        if event == "write":
            written, used_ms = written + 1, now_ms
        elif event == "read":  # a group commits and leaves
            used_ms, read_until_ms = now_ms, now_ms + KEPT_MS
        elif event == "recreate":
            generation, written, made_ms, read_until_ms = generation + 1, 0, now_ms, 0
        readers = (TopicReader("g", has_members=False, has_offsets=True),) if now_ms < read_until_ms else ()
        observation = TopicObservation(str(generation), 1, f"ends-{written}", readers=readers)
        found = judged(evidence(observation, seen), rules, now_ms)
        if found.is_unused:
            assert now_ms - max(used_ms, made_ms) >= days * DAY_MS
        if event == "look":
            seen = updated_history(seen, observation, now_ms)


@settings(max_examples=examples(100))
@given(st.integers(0, 90), st.integers(1, 2 * LONGEST_GAP_MS // HOUR_MS))
def test_a_quiet_topic_is_unused_after_the_limit_if_it_is_watched(days: int, gap_hours: int) -> None:
    observation, now_ms = TopicObservation("id", 1, "ends"), START_MS
    seen: TopicHistory | None = None
    while now_ms < START_MS + days * DAY_MS:
        seen = updated_history(seen, observation, now_ms)
        now_ms += gap_hours * HOUR_MS
    seen = updated_history(seen, observation, now_ms)
    reasons = judged(evidence(observation, seen), UnusedRules(days), now_ms).reasons
    is_watched = gap_hours * HOUR_MS <= LONGEST_GAP_MS or days == 0
    assert (reasons == ()) == is_watched
    assert set(reasons) <= {KeepReason.NOT_WATCHED}


QUIET = TopicHistory("id", 0, 0, START_MS, 0, 0, "ends")
OBSERVATION = TopicObservation("id", 1, "ends", records=0, bytes=0)
TOO_WIDE = TopicSelector(DatastreamName("d"), "owner", is_only=False)
ONLY = TopicSelector(DatastreamName("d"), "owner", is_only=True)


def reasons(rules: UnusedRules | None = None, name: str = "t", **changes: Any) -> tuple[KeepReason, ...]:
    found = replace(evidence(OBSERVATION, QUIET), topic=name)
    observation = {key: changes.pop(key) for key in list(changes) if hasattr(OBSERVATION, key)}
    found = replace(found, observation=replace(OBSERVATION, **observation), **changes)
    return judged(found, rules or UnusedRules(), START_MS).reasons


def test_every_doubt_keeps_a_topic() -> None:
    assert reasons() == ()
    assert reasons(selectors=(ONLY,)) == ()
    assert reasons(selectors=(ONLY, TOO_WIDE)) == (KeepReason.SELECTED,)
    assert reasons(internal=True) == (KeepReason.INTERNAL,)
    for name in ("__consumer_offsets", "_schemas", "headrace-progress", "t.headrace-dead-letters"):
        assert reasons(name=name) == (KeepReason.INTERNAL,)
    assert reasons(UnusedRules(own=frozenset({"t"}))) == (KeepReason.INTERNAL,)
    assert reasons(UnusedRules(keep=("archive-*", "T", "?"))) == (KeepReason.ALLOW_LIST,)
    assert reasons(UnusedRules(keep=("archive-*", "T"))) == ()
    assert reasons(history=None) == (KeepReason.YOUNG, KeepReason.NOT_WATCHED, KeepReason.INFLOW)
    assert reasons(topic_id="other") == (KeepReason.YOUNG, KeepReason.NOT_WATCHED, KeepReason.INFLOW)
    assert reasons(ends="more") == (KeepReason.INFLOW,)
    assert KeepReason.UNKNOWN_OFFSETS in reasons(ends="")
    assert reasons(readers=(TopicReader("g", True, False),)) == (KeepReason.READERS,)
    assert reasons(unknown_groups=("share",)) == (KeepReason.UNKNOWN_READERS,)
    assert reasons(is_compacted=True) == (KeepReason.COMPACTED,)
    assert reasons(is_compacted=None) == (KeepReason.COMPACTED,)


def test_only_an_expression_that_is_the_name_matches_nothing_else() -> None:
    present = {SOURCE: ["t", "u"], DESTINATION: ["t"]}

    def only(topics: str, topic: str = "t", cluster: ClusterRef = SOURCE, **more: Any) -> list[bool]:
        found = selectors_of(topic, [a_datastream(topics=topics, **more)], {cluster}, present)
        return [one.is_only for one in found]

    assert only("t") == only("^t$") == [True]
    assert only("u") == []
    assert only(".*") == [False]
    assert only("t|u") == [False]
    assert only("t|x.*") == [False]
    assert only("t|t2") == [False]
    assert only("t", cluster=DESTINATION) == [True]
    assert only("u", cluster=DESTINATION) == []
    assert only("t", cluster=ClusterRef("other")) == []


def test_an_unknown_list_of_topics_does_not_make_an_expression_narrow() -> None:
    (found,) = selectors_of("t", [a_datastream(topics="t")], {SOURCE}, {SOURCE: None})
    assert not found.is_only
