"""Need of past hours, compared with the current tasks. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirror.model.sizing.advice import PastNeed


def past_need(needs: Sequence[Mapping[int, int]], held: int, since_ms: int) -> PastNeed | None:
    """Return the need of past hours. `needs`: for each group, needed tasks by start of the hour (epoch ms);
    hours missing for one group count for none. `held`: current tasks of all groups. `since_ms`: earlier hours
    are ignored.

    None if no hour is known for every group, or if there is no group.
    """
    if not needs:
        return None
    hours = {hour for hour in set(needs[0]).intersection(*needs[1:]) if hour >= since_ms}
    if not hours:
        return None
    needed = [sum(need[hour] for need in needs) for hour in hours]
    return PastNeed(len(hours), held * len(hours), max(needed) * len(hours), sum(needed))
