"""Incidents over any history of verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from monitor.incidents import Incident, IncidentPolicy, IncidentStep, advance
from monitor.latency import LatencyVerdict, ObjectiveStatus

histories = st.lists(st.tuples(st.sampled_from(ObjectiveStatus), st.floats(0, 100)), max_size=60)
policies = st.builds(IncidentPolicy, st.integers(1, 4), st.integers(1, 4), st.floats(1, 200))


def play(
    history: Sequence[tuple[ObjectiveStatus, float]], policy: IncidentPolicy
) -> list[tuple[float, ObjectiveStatus, Incident, tuple[IncidentStep, ...]]]:
    now, incident, played = 0.0, Incident(), []
    for standing, pause in history:
        now += pause
        incident, steps = advance(incident, LatencyVerdict(standing, None, ""), policy, now)
        played.append((now, standing, incident, steps))
    return played


@given(histories, policies)
def test_open_and_close_alternate_and_help_comes_only_in_between(
    history: list[tuple[ObjectiveStatus, float]], policy: IncidentPolicy
) -> None:
    is_open = False
    for _, _, incident, steps in play(history, policy):
        for step in steps:
            assert (step is IncidentStep.OPEN) == (not is_open)
            is_open = step is not IncidentStep.CLOSE
        assert incident.is_open == is_open


@given(histories, policies)
def test_help_is_asked_for_at_most_once_in_a_cooldown(
    history: list[tuple[ObjectiveStatus, float]], policy: IncidentPolicy
) -> None:
    asked = [now for now, _, _, steps in play(history, policy) if IncidentStep.HELP in steps]
    assert all(later - earlier >= policy.cooldown_seconds for earlier, later in pairwise(asked))


@given(histories, policies)
def test_what_is_unknown_changes_nothing(
    history: list[tuple[ObjectiveStatus, float]], policy: IncidentPolicy
) -> None:
    without = [(standing, 0.0) for standing, _ in history if standing is not ObjectiveStatus.UNKNOWN]
    with_them = [(standing, 0.0) for standing, _ in history]
    kept = [one for one in play(with_them, policy) if one[1] is not ObjectiveStatus.UNKNOWN]
    assert [one[2:] for one in kept] == [one[2:] for one in play(without, policy)]


@given(histories, policies)
def test_a_long_breach_is_always_helped_and_a_long_good_time_always_closes(
    history: list[tuple[ObjectiveStatus, float]], policy: IncidentPolicy
) -> None:
    breach = [(ObjectiveStatus.BREACHED, policy.cooldown_seconds)] * (policy.open_after + 1)
    assert any(IncidentStep.HELP in steps for *_, steps in play([*history, *breach], policy)[len(history) :])
    good = [(ObjectiveStatus.WITHIN, 1.0)] * policy.close_after
    assert not play([*history, *good], policy)[-1][2].is_open


@given(histories, policies)
def test_no_incident_closes_without_good_verdicts_in_a_row_up_to_then(
    history: list[tuple[ObjectiveStatus, float]], policy: IncidentPolicy
) -> None:
    evidence: list[ObjectiveStatus] = []
    for _, standing, _, steps in play(history, policy):
        evidence += [standing] if standing is not ObjectiveStatus.UNKNOWN else []
        if IncidentStep.CLOSE in steps:
            assert evidence[-policy.close_after :] == [ObjectiveStatus.WITHIN] * policy.close_after
