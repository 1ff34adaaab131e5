"""Determines which groups have stalled or throttled lanes, or no destination topic, and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from mirror.instance.workers.lane_table import LanePhase, LaneStatus
from mirror.model.datastreams.lanes import LaneKey, PauseCause
from mirror.model.identifiers import GroupName
from mirror.model.reasons import reason_of
from mirror.wording import counted


def troubles_of(
    lanes: Mapping[LaneKey, LaneStatus],
    undescribed: Mapping[LaneKey, Exception],
    ailing: Mapping[GroupName, str],
) -> dict[GroupName, str]:
    """Map each group with stalled lanes to a message. `undescribed`: assigned lanes whose spec cannot be sent
    to a worker. `ailing`: groups that may crash their worker process."""
    paused = {
        key: state.text
        for key, state in lanes.items()
        if state.phase is LanePhase.PAUSED and state.cause is not PauseCause.NO_TOPIC
    }
    reasons = {**paused, **{key: reason_of(error) for key, error in undescribed.items()}}
    return _sentences(reasons, "is stalled") | dict(ailing)


def held_back_of(lanes: Mapping[LaneKey, LaneStatus]) -> dict[GroupName, str]:
    """Map each group with lanes throttled by a quota to a message."""
    quotas = {key: state.held_back for key, state in lanes.items() if state.held_back}
    return _sentences(quotas, "is limited by a quota")


def without_topic(lanes: Mapping[LaneKey, LaneStatus]) -> dict[GroupName, str]:
    """Map each group with lanes whose destination topic does not exist to a message."""
    return _sentences(
        {
            key: state.text
            for key, state in lanes.items()
            if state.phase is LanePhase.PAUSED and state.cause is PauseCause.NO_TOPIC
        },
        "waits for its destination topic",
    )


def _sentences(reasons: Mapping[LaneKey, str], problem: str) -> dict[GroupName, str]:
    by_group: dict[GroupName, list[LaneKey]] = {}
    for key in sorted(reasons):
        by_group.setdefault(key.group, []).append(key)
    found = {}
    for group, keys in by_group.items():
        further = f" (and {counted(len(keys) - 1, 'further partition')})" if len(keys) > 1 else ""
        found[group] = f"{keys[0].partition} {problem}{further}: {reasons[keys[0]]}"
    return found
