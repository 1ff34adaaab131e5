"""What the last day would have needed, hour by hour, beside what is in force. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirror.model.sizing.advice import PastDay


def past_day(needs: Sequence[Mapping[int, int]], held: int) -> PastDay | None:
    """`needs`: of each group the tasks that an hour needed, by its begin (epoch ms); an hour that is not
    known is not there, and then counts for no group. `held`: tasks in force, of all groups.

    None where no hour is known of every group, or where there is no group.
    """
    if not needs:
        return None
    hours = set(needs[0]).intersection(*needs[1:])
    if not hours:
        return None
    needed = [sum(one[hour] for one in needs) for hour in hours]
    return PastDay(len(hours), held * len(hours), max(needed) * len(hours), sum(needed))
