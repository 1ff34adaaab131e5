"""Canaries follow the definitions; their alerts follow their figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from mirror.errors import ConfigError, Unreachable
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.topics import TopicNaming, TopicSelection, canary_topic, is_legal_topic
from monitor.alerts.canaries import LOST_SECONDS, canary_alerts
from monitor.alerts.catalogue import CANARY_LOST, CANARY_UNAVAILABLE
from monitor.canary.canary_watch import CanaryPath, CanaryState, CanaryWatch
from monitor.canary.ledger import CanaryFigures

A, B = DatastreamName("a"), DatastreamName("b")


def path(name: str, template: str = "*") -> CanaryPath:
    return CanaryPath.of(name, ClusterRef("east"), ClusterRef("west"), TopicNaming(template))


@dataclass
class FakeProbe:
    """A probe that only notes its calls."""

    path: CanaryPath
    calls: list[str] = field(default_factory=list)
    problem: str = ""

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def figures(self) -> CanaryFigures:
        return CanaryFigures(produced=1)


class Rig:
    """A watch with fake probes."""

    def __init__(self) -> None:
        self.wanted: dict[DatastreamName, CanaryPath] | None = {}
        self.opened: list[FakeProbe] = []
        self.shown: Mapping[DatastreamName, CanaryFigures] = {}
        self.watch = CanaryWatch(self.paths, self.open, self.show)

    @property
    def states(self) -> Mapping[DatastreamName, CanaryState]:
        assert self.watch.states is not None
        return self.watch.states

    def paths(self) -> dict[DatastreamName, CanaryPath]:
        if self.wanted is None:
            raise Unreachable("no answer")
        return self.wanted

    def open(self, wanted: CanaryPath) -> FakeProbe:
        if wanted.topic == canary_topic("broken"):
            raise ConfigError("unknown cluster")
        self.opened.append(FakeProbe(wanted))
        return self.opened[-1]

    def show(self, figures: Mapping[DatastreamName, CanaryFigures]) -> None:
        self.shown = figures

    def look(self, *names: str, template: str = "*") -> None:
        self.wanted = {DatastreamName(name): path(name, template) for name in names}
        self.watch.run_once()


def test_probes_start_and_stop_with_the_option() -> None:
    rig = Rig()
    rig.look("a", "b")
    rig.look("b")
    assert [one.calls for one in rig.opened] == [["start", "stop"], ["start"]]
    assert rig.shown.keys() == {B}
    rig.watch.stop(0.0)
    assert rig.opened[1].calls == ["start", "stop"]


def test_another_destination_name_needs_another_probe() -> None:
    rig = Rig()
    rig.look("a")
    rig.look("a", template="copy.*")
    assert [one.calls for one in rig.opened] == [["start", "stop"], ["start"]]


def test_probes_continue_while_definitions_cannot_be_read() -> None:
    rig = Rig()
    rig.look("a")
    rig.wanted = None
    rig.watch.run_once()
    assert rig.opened[0].calls == ["start"]
    assert rig.states[A].figures.produced == 1


def test_canaries_are_unknown_until_the_definitions_were_read() -> None:
    rig = Rig()
    rig.wanted = None
    rig.watch.run_once()
    assert rig.watch.states is None
    rig.look()
    assert rig.watch.states == {}


def test_a_canary_that_cannot_start_affects_no_other() -> None:
    rig = Rig()
    rig.look("a", "broken")
    assert rig.states[A].problem == ""
    assert rig.states[DatastreamName("broken")].problem
    assert len(rig.opened) == 1


@pytest.mark.parametrize(
    ("figures", "problem", "kinds"),
    [
        (CanaryFigures(), "", []),
        (CanaryFigures(produce_availability=1.0, consume_availability=1.0), "", []),
        (CanaryFigures(lost=3, lost_seconds=0.0), "", [CANARY_LOST]),
        (CanaryFigures(lost=3, lost_seconds=LOST_SECONDS), "", []),
        (CanaryFigures(produce_availability=0.5), "", [CANARY_UNAVAILABLE]),
        (CanaryFigures(consume_availability=0.0), "", [CANARY_UNAVAILABLE]),
        (CanaryFigures(silent_seconds=60.0), "", []),
        (CanaryFigures(silent_seconds=400.0), "", [CANARY_UNAVAILABLE]),
        (CanaryFigures(), "not authorized", [CANARY_UNAVAILABLE]),
    ],
)
def test_alerts_follow_the_figures(figures: CanaryFigures, problem: str, kinds: list[object]) -> None:
    found = list(canary_alerts({A: CanaryState(path("a"), figures, problem)}, 1_000_000, []))
    assert [one.kind for one in found] == kinds
    assert all(one.datastream == "a" for one in found)


@pytest.mark.parametrize("name", ["a", "a b", "日本", "x" * 200, "…" * 200, "."])
def test_every_datastream_has_a_canary_topic_of_its_own(name: str) -> None:
    topic = canary_topic(name)
    assert is_legal_topic(topic)
    assert topic != canary_topic(f"{name}!")
    assert not TopicSelection(".*").matches(topic)
    own = TopicSelection("orders", "headrace.*", canary=topic)
    assert own.matches(topic)
    assert own.choose(["orders", topic, "b"]) == tuple(sorted(["orders", topic]))
    assert any(topic.startswith(one) for one in own.beginnings)
