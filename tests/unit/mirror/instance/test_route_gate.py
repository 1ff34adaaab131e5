"""Test the route checks before a datastream is created, with the present knowledge of the clusters."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from mirror.coordination.stores.cluster_ids import ClusterIds, KnownClusters
from mirror.coordination.stores.plan_store import NO_PLAN, LatestPlan, PlanStore
from mirror.errors import InvalidRequest, Unreachable
from mirror.instance.discovery.questions import ClusterRequests
from mirror.instance.discovery.route_gate import RouteGate
from mirror.instance.discovery.route_map import RouteMap
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicNaming, TopicSelection
from tests.builders import a_datastream, a_plan, a_task
from tests.fakes.clock import ManualClock
from tests.fakes.instances import OWN_TOPICS, gate_of
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.topic_admin import FakeTopicAdmin
from tests.patience import PATIENCE_SECONDS


class GateRig:
    """A gate for the clusters A, B and C, and the datastreams that it has admitted."""

    def __init__(self) -> None:
        self.clusters = {ClusterRef(name): FakeTopicAdmin(t=1, u=1) for name in ("A", "B", "C")}
        self.session = FakeZooKeeper().session()
        self.clock = ManualClock(1)
        self.gate = gate_of(self.session, self.clusters, self.clock)
        self.there: list[Datastream] = []

    def passes(
        self,
        name: str,
        way: str,
        topics: str = ".*",
        naming: str = "*",
        metadata: Mapping[str, str] | None = None,
        exclude: str = "",
    ) -> None:
        stamp = {"system.creation.ms": str(len(self.there))}
        one = self.of(name, way, topics, naming, {**stamp, **(metadata or {})}, exclude)
        self.gate.check(one, self.there)
        self.there.append(one)

    @staticmethod
    def of(
        name: str, way: str, topics: str, naming: str, metadata: Mapping[str, str], exclude: str = ""
    ) -> Datastream:
        source, destination = way.split(">")
        return Datastream(
            a_datastream(name).name,
            ClusterRef(source),
            TopicSelection(topics, exclude),
            ClusterRef(destination),
            TopicNaming(naming),
            metadata={"owner": "tests", **metadata},
        )

    def refuses(self, words: str, name: str, way: str, topics: str = ".*", naming: str = "*") -> None:
        with pytest.raises(InvalidRequest, match=words) as caught:
            self.passes(name, way, topics, naming)
        assert caught.value.advice


@pytest.fixture
def border() -> GateRig:
    return GateRig()


def test_the_way_back_is_refused_and_names_who_leads_there(border: GateRig) -> None:
    border.passes("there", "A>B", "t")
    border.refuses("t: the topic may contain records of A, copied by datastream there", "back", "B>A")
    border.passes("other", "B>A", "u")


def test_a_ring_is_refused_where_it_closes(border: GateRig) -> None:
    border.passes("one", "A>B", "t")
    border.passes("two", "B>C", "t")
    border.refuses("t: the topic may contain records of A", "three", "C>A", "t")


def test_a_chain_within_a_cluster_is_foreseen(border: GateRig) -> None:
    border.refuses(r"2 topics are left out \(x\.t: .*x\.u", "chain", "A>A", naming="x.*")
    border.passes("chain", "A>A", naming="x.*", exclude=r"x\..*")


def test_prefixes_both_ways_are_foreseen(border: GateRig) -> None:
    border.passes("there", "A>B", "t", naming="a.*")
    border.refuses(r"a\.t: the topic may contain records of A", "back", "B>A", naming="b.*")
    border.passes("back", "B>A", naming="b.*", exclude=r"a\..*")


def test_one_cluster_under_two_names_is_refused_also_when_it_is_away_later(border: GateRig) -> None:
    border.clusters[ClusterRef("alias")] = border.clusters[ClusterRef("A")]
    border.refuses("same cluster", "self", "A>alias")
    border.clusters[ClusterRef("A")].failure = Unreachable("gone")
    fresh = gate_of(border.session, border.clusters, ManualClock())
    border.gate = fresh
    border.refuses("same cluster", "self", "A>alias")


def test_a_destination_topic_has_one_writer(border: GateRig) -> None:
    border.passes("one", "A>C", "t")
    border.refuses("t: datastream one already writes", "two", "B>C")
    border.passes("two", "B>C", "u")


def test_who_is_gone_or_has_changed_meanwhile_holds_nothing_up(border: GateRig) -> None:
    border.passes("one", "A>C", "t")
    border.passes("other", "A>C", "u")
    border.refuses("datastream one already writes", "two", "B>C", "t")
    first, other = border.there
    for there in (
        [other],
        [replace(first, selection=TopicSelection("v")), other],
        [replace(first, status=DatastreamStatus.DELETING), other],
    ):
        border.there = [*there]
        border.passes("two", "B>C", "t")
        border.there = [first, other]
        border.refuses("datastream one already writes", "two", "B>C", "t")


def test_writers_that_agree_share_a_destination(border: GateRig) -> None:
    shared = {"headrace.shared-destination": "true"}
    border.passes("one", "A>C", "t", metadata=shared)
    border.refuses("datastream one", "two", "B>C", "t")
    border.passes("two", "B>C", "t", metadata=shared)


def test_what_is_copied_already_is_not_taken_away(border: GateRig) -> None:
    """`b.t` is an original topic of A, and the new datastream would create topics with such names there."""
    border.clusters[ClusterRef("A")] = FakeTopicAdmin(**{"b.t": 1})
    border.passes("there", "A>B", naming="a.*")
    border.refuses(r"datastream there .*b\.t", "back", "B>A", "u|t", "b.*")


def test_a_cluster_that_cannot_be_asked_refuses_nothing(border: GateRig) -> None:
    for cluster in border.clusters.values():
        cluster.failure = Unreachable("gone")
    border.passes("there", "A>B")
    border.passes("back", "B>A")


def test_what_a_plan_says_counts_where_the_source_cannot_be_asked(border: GateRig) -> None:
    border.passes("one", "A>C", "t")
    border.clusters[ClusterRef("A")].failure = Unreachable("gone")
    PlanStore(border.session, "leader").publish(a_plan(a_task("one-0", ["t-0"])), NO_PLAN)
    border.clock.advance(60)
    border.refuses("one already writes", "two", "B>C", "t")


class FrozenAdmin(FakeTopicAdmin):
    """A cluster that does not respond before `thaw` is set; `waiting`: number of pending calls."""

    def __init__(self) -> None:
        super().__init__(t=1)
        self.is_asked, self.thaw = threading.Event(), threading.Event()
        self.waiting = 0

    def cluster_id(self) -> str:
        self.waiting += 1
        self.is_asked.set()
        self.thaw.wait()
        return super().cluster_id()


def test_a_creation_that_waits_for_a_frozen_cluster_holds_up_no_other(border: GateRig) -> None:
    frozen = border.clusters[ClusterRef("F")] = FrozenAdmin()
    questions = ClusterRequests(lambda cluster: border.clusters[cluster], PATIENCE_SECONDS)
    border.gate = gate_with(border, questions)
    waiting = threading.Thread(target=lambda: border.passes("slow", "F>B", "u"), daemon=True)
    waiting.start()
    frozen.is_asked.wait()
    border.passes("quick", "A>C", "t")
    assert [one.name for one in border.there] == ["quick"]
    frozen.thaw.set()
    waiting.join(PATIENCE_SECONDS)
    assert [one.name for one in border.there] == ["quick", "slow"]
    assert frozen.asked == 2


def test_a_cluster_that_does_not_answer_in_time_is_asked_one_question_and_refuses_nothing(
    border: GateRig,
) -> None:
    frozen = border.clusters[ClusterRef("F")] = FrozenAdmin()
    questions = ClusterRequests(lambda cluster: border.clusters[cluster], 0.01)
    border.gate = gate_with(border, questions)
    for number in range(10):
        border.passes(f"slow-{number}", "F>B", f"topic-{number}")
    assert frozen.waiting == 1
    frozen.thaw.set()


def _refused_among_all(new: Datastream, there: Sequence[Datastream], border: GateRig) -> bool:
    """Return whether the rule of the gate rejects it, evaluated with every datastream and every topic."""
    topics = {cluster: tuple(admin.topics) for cluster, admin in border.clusters.items()}
    route_map = RouteMap(ClusterIds(border.session), OWN_TOPICS)
    before, after = (route_map.judge(route_map.routes(one)) for one in (there, [*there, new]))
    selected = {one.name: one.selection.choose(topics[one.source]) for one in (*there, new)}
    foreseen = after.verdict(after.foreseen(selected), {})
    if new.name in foreseen.refused or foreseen.left_out.get(new.name):
        return True
    former, now = before.verdict(selected, {}).left_out, after.verdict(selected, {}).left_out
    return any(set(now.get(one.name, ())) - set(former.get(one.name, ())) for one in there)


@pytest.mark.parametrize("seed", range(30))
def test_who_is_far_from_a_new_one_changes_nothing_of_what_is_refused(seed: int) -> None:
    border, chance, outcomes = GateRig(), random.Random(seed), set[bool]()
    for admin in border.clusters.values():
        admin.topics |= FakeTopicAdmin(v=1, w=1).topics
    for number in range(25):
        ends = chance.choices("ABC", k=2)
        topics = "|".join(chance.sample(["t", "u", "v", "w", "x[.]t"], chance.randint(1, 2)))
        naming = chance.choice(["x.*"] if ends[0] == ends[1] else ["*", "x.*", "y.*"])
        group = chance.choice([{}, {}, {"system.taskPrefix": f"g{chance.randint(0, 2)}"}])
        candidate = GateRig.of(
            f"d{number}", ">".join(ends), topics, naming, {**group, "system.creation.ms": str(number)}
        )
        expected = _refused_among_all(candidate, border.there, border)
        outcomes.add(expected)
        if expected:
            with pytest.raises(InvalidRequest):
                border.gate.check(candidate, border.there)
        else:
            border.gate.check(candidate, border.there)
            border.there.append(candidate)
    assert outcomes == {True, False}


def test_a_cluster_is_the_same_as_those_that_call_themselves_so(border: GateRig) -> None:
    a, b, c = map(ClusterRef, "ABC")
    assert border.gate.same_as(a, [b, c]) == []
    border.clusters[b].identity = border.clusters[a].identity
    assert other_gate(border).same_as(a, [b, c]) == [b]
    assert other_gate(border).same_as(c, []) == []


def test_a_cluster_that_does_not_say_what_it_is_may_be_any(border: GateRig) -> None:
    a, b, c = map(ClusterRef, "ABC")
    border.clusters[a].failure = Unreachable("gone fishing")
    assert border.gate.same_as(a, [b, c]) == [b, c]
    assert border.gate.same_as(b, [a, c]) == [a]
    border.clusters[a].failure = None
    assert border.gate.same_as(a, [b, c]) == []
    border.clusters[a].failure = Unreachable("gone fishing")
    assert other_gate(border).same_as(a, [b, c]) == []  # its stored id still counts


def gate_with(border: GateRig, questions: ClusterRequests) -> RouteGate:
    route_map, plans = RouteMap(ClusterIds(border.session), OWN_TOPICS), PlanStore(border.session, "gate")
    known = KnownClusters(border.session)
    return RouteGate(route_map, known, questions, LatestPlan(plans), border.clock)


def other_gate(border: GateRig) -> RouteGate:
    return gate_of(border.session, border.clusters, border.clock)
