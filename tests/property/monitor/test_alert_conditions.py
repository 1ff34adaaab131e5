"""Firing alerts over any history of findings of the monitor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from mirror.model.identifiers import DatastreamName
from monitor.alerts.alert import Alert
from monitor.alerts.catalogue import BLIND, HALTED, LATE, UNJUDGED, AlertPatience, ClockReading
from monitor.alerts.conditions import Conditions
from monitor.evaluation import Evaluation
from monitor.incidents import Incident
from monitor.latency import LatencyVerdict, ObjectiveStatus

ORDERS: Final = DatastreamName("orders")
PATIENCE: Final = AlertPatience(30.0, 600.0, 60.0, 60.0)


class Step(NamedTuple):
    """Findings of an evaluation for one datastream. `standing` None: no findings at all."""

    standing: ObjectiveStatus | None
    is_open: bool
    is_halted: bool
    seconds: float


steps = st.builds(
    Step,
    st.sampled_from([*ObjectiveStatus, None]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1.0, 10.0, 29.0, 61.0, 700.0]),
)
histories = st.lists(steps, max_size=40)


def play(history: Sequence[Step]) -> list[tuple[float, Step, list[Alert]]]:
    conditions, now, played = Conditions(PATIENCE), 0.0, []
    for step in history:
        now += step.seconds
        moment = ClockReading(int(now * 1000), now)
        if step.standing is None:
            alerts = conditions.judging_failed("Pinot does not answer", moment)
        else:
            is_halted = step.is_halted or step.standing is ObjectiveStatus.HALTED
            verdict = LatencyVerdict(step.standing, None, "so it is", is_halted)
            found = Evaluation(verdict, Incident(is_open=step.is_open), "", "east")
            alerts = conditions.judged({ORDERS: found}, moment)
        played.append((now, step, alerts))
    return played


@given(histories)
def test_an_alert_keeps_its_beginning_until_it_is_over(history: list[Step]) -> None:
    began: dict[str, int] = {}
    for now, _, alerts in play(history):
        names = [one.kind.name for one in alerts]
        assert len(names) == len(set(names))
        for one in alerts:
            assert one.since_ms <= now * 1000
            assert began.setdefault(one.kind.name, one.since_ms) == one.since_ms
        began = {name: since for name, since in began.items() if name in names}


@given(histories)
def test_an_alert_fires_only_after_the_patience_of_its_kind(history: list[Step]) -> None:
    for now, _, alerts in play(history):
        for one in alerts:
            assert now * 1000 - one.since_ms >= PATIENCE.before(one.kind) * 1000


@given(histories)
def test_an_incident_is_an_alert_while_records_are_late_unless_nothing_is_copied(history: list[Step]) -> None:
    for _, step, alerts in play(history):
        kinds = {one.kind for one in alerts}
        if step.standing is None:
            continue
        if step.is_open and not step.is_halted and step.standing is ObjectiveStatus.BREACHED:
            assert LATE in kinds
        if not step.is_open:
            assert LATE not in kinds
        assert BLIND not in kinds


@given(histories)
def test_nothing_is_over_while_nothing_can_be_judged(history: list[Step]) -> None:
    former: set[str] = set()
    for _, step, alerts in play(history):
        names = {one.kind.name for one in alerts}
        if step.standing is None:
            assert former <= names
        former = names


@given(histories, st.sampled_from([(HALTED, ObjectiveStatus.HALTED), (UNJUDGED, ObjectiveStatus.UNKNOWN)]))
def test_what_lasts_becomes_an_alert_and_what_is_gone_stays_none(
    history: list[Step], case: tuple[object, ObjectiveStatus]
) -> None:
    kind, standing = case
    lasting = [Step(standing, is_open=False, is_halted=False, seconds=301.0)] * 3
    *_, (_, _, alerts) = play([*history, *lasting])
    assert kind in {one.kind for one in alerts}
    well = [Step(ObjectiveStatus.WITHIN, is_open=False, is_halted=False, seconds=31.0)] * 2
    *_, (_, _, alerts) = play([*history, *lasting, *well])
    assert alerts == []
