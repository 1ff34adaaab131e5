"""Advises how many tasks and instances the service needs, from the required tasks of all groups. Pure.

The advised number is the sum over all groups of the current need or the upper bound of the forecast,
whichever is larger. It rises immediately and falls late, so that an autoscaler starts instances before they
are needed, and does not stop instances after a short dip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

from mirror.model.capacity.advice import HOUR_MS, Advice, GroupNeed, HourNeed, Hours, hours_together
from mirror.wording import counted


@dataclass(frozen=True, slots=True)
class FleetSize:
    """Number of instances that are not leaving, and number of tasks per instance (None if not set)."""

    instances: int
    tasks_per_instance: int | None

    def needed(self, tasks: int) -> int | None:
        """Return the number of instances needed to run a number of tasks, at least one."""
        if self.tasks_per_instance is None:
            return None
        return max(1, -(-tasks // self.tasks_per_instance))


@dataclass(frozen=True, slots=True)
class AdviceTerms:
    """Parameters of the advice; see `settings.AdviceSettings`."""

    imminent_hours: int = 2
    shrink_after_hours: float = 6.0


class _Steady(NamedTuple):
    tasks: int
    lower_since_ms: int | None
    lower_tasks: int | None


def advise(
    groups: Sequence[GroupNeed], fleet: FleetSize, terms: AdviceTerms, before: Advice | None, now_ms: int
) -> Advice:
    """Return the sizing advice for all groups. `before`: last advice of this or a former leader; None if
    there is none."""
    held = sum(group.tasks for group in groups)
    now = sum(group.now or 0 for group in groups)
    coming = hours_together([group for group in groups if group.now is not None], now_ms)
    soon = now_ms + terms.imminent_hours * HOUR_MS
    near = max([now, *(hour.most_tasks for hour in coming if hour.hour_ms < soon)])
    peak = max(coming, key=lambda hour: hour.most_tasks, default=None)
    found = Advice(
        computed_ms=now_ms,
        tasks=held,
        instances=fleet.instances,
        required_tasks=None,
        required_instances=None,
        why="",
        sentence="",
        tasks_at_least=near,
        instances_at_least=fleet.needed(near),
        peak=peak,
        peak_instances=fleet.needed(peak.most_tasks) if peak else None,
        groups=tuple(groups),
        tasks_per_instance=fleet.tasks_per_instance,
    )
    if not held:
        return _unplanned(found, before)
    unknown = [group for group in groups if group.now is None]
    if unknown:
        rises = next((hour for hour in coming if hour.most_tasks > near), None)
        sentence = _at_least(near, unknown, held, fleet)
        why = f"the need of {unknown[0].group} is unknown{_and_more(unknown)}: {unknown[0].why}"
        return _continuing(replace(found, why=why, sentence=sentence, rises=rises), before)
    steady = _steady(near, terms, before, now_ms)
    rises = next((hour for hour in coming if hour.most_tasks > steady.tasks), None)
    return replace(
        found,
        required_tasks=steady.tasks,
        required_instances=fleet.needed(steady.tasks),
        why=_missing(groups, fleet),
        sentence=_sentence(steady.tasks, rises, held, fleet, is_ahead=bool(coming)),
        tasks_at_least=steady.tasks,
        instances_at_least=fleet.needed(steady.tasks),
        last_required_tasks=steady.tasks,
        lower_since_ms=steady.lower_since_ms,
        lower_tasks=steady.lower_tasks,
        rises=rises,
        sums=_sums(coming, held, fleet),
    )


def _unplanned(found: Advice, before: Advice | None) -> Advice:
    """Return the advice before the first plan, whose sentence contains no number."""
    why = "no task is planned"
    sentence = f"no advice: {why}"
    return _continuing(
        replace(found, why=why, sentence=sentence, tasks_at_least=0, instances_at_least=None), before
    )


def _continuing(found: Advice, before: Advice | None) -> Advice:
    """Return advice that repeats the last known number of required tasks, because a new number is missing."""
    return replace(found, last_required_tasks=before.last_required_tasks if before is not None else None)


def _and_more(groups: Sequence[GroupNeed]) -> str:
    return f" (and of {len(groups) - 1} more)" if len(groups) > 1 else ""


def _at_least(near: int, unknown: Sequence[GroupNeed], held: int, fleet: FleetSize) -> str:
    """Return the sentence of the advice if the required tasks of some groups are unknown."""
    most = sum(max((hour.most_tasks for hour in need.coming), default=0) for need in unknown)
    forecast = f", up to {counted(most, 'task')} by forecast" if most else ""
    named = f"the need of {unknown[0].group} is unknown{_and_more(unknown)}{forecast}"
    have = f"there are {_having(held, fleet.instances)}"
    if not near:
        return f"{named}; {have}"
    return f"needs at least {_on(near, fleet)} now; {named}; {have}"


def _steady(near: int, terms: AdviceTerms, before: Advice | None, now_ms: int) -> _Steady:
    """Return the advised number of tasks, smoothed over time. It rises at once with the need. After a period
    of lower need, it falls to the maximum of that period."""
    last = before.last_required_tasks if before is not None else None
    if before is None or last is None or near >= last:
        return _Steady(near, None, None)
    since = now_ms if before.lower_since_ms is None else min(before.lower_since_ms, now_ms)  # clocks differ
    most = max(near, before.lower_tasks or 0)
    if now_ms - since >= terms.shrink_after_hours * HOUR_MS:
        return _Steady(most, None, None)
    return _Steady(last, since, most)


def _missing(groups: Sequence[GroupNeed], fleet: FleetSize) -> str:
    """Return the reasons why some numbers of the advice are unknown or incomplete."""
    blind = [group for group in groups if not group.coming]
    missing = []
    if blind:
        missing.append(
            f"only the current need of {blind[0].group} is known{_and_more(blind)}: {blind[0].why}"
        )
    if fleet.tasks_per_instance is None:
        missing.append("the number of tasks per instance is not set (assigner.advice.tasks_per_instance)")
    return "; ".join(missing)


def _sentence(required: int, rises: HourNeed | None, held: int, fleet: FleetSize, *, is_ahead: bool) -> str:
    have = f"there are {_having(held, fleet.instances)}"
    if rises is not None:
        when = datetime.fromtimestamp(rises.hour_ms / 1000, UTC).strftime("%A %H:%M UTC")
        between = f" ({rises.tasks} in the middle of the forecast)" if rises.tasks < rises.most_tasks else ""
        return f"needs {_on(rises.most_tasks, fleet)} from {when}{between}; {have}"
    lasting = ", and no more in the hours ahead" if is_ahead else ""
    return f"needs {_on(required, fleet)} now{lasting}; {have}"


def _on(tasks: int, fleet: FleetSize) -> str:
    needed = fleet.needed(tasks)
    return counted(tasks, "task") + (f" on {counted(needed, 'instance')}" if needed is not None else "")


def _having(tasks: int, instances: int) -> str:
    return f"{counted(tasks, 'task')} on {counted(instances, 'instance')}"


def _sums(coming: Sequence[HourNeed], held: int, fleet: FleetSize) -> Hours | None:
    if not coming:
        return None
    instances = [fleet.needed(hour.most_tasks) for hour in coming]
    known = [instance for instance in instances if instance is not None]
    return Hours(
        len(coming),
        held * len(coming),
        sum(hour.most_tasks for hour in coming),
        fleet.instances * len(coming),
        sum(known) if len(known) == len(instances) else None,
    )
