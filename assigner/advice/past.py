"""What past hours would have needed, beside what is in force. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirror.model.sizing.advice import PastNeed


def past_need(needs: Sequence[Mapping[int, int]], held: int, since_ms: int) -> PastNeed | None:
    """`needs`: of each group the tasks that an hour needed, by its begin (epoch ms); an hour that is not
    known is not there, and then counts for no group. `held`: tasks in force, of all groups. `since_ms`: an
    hour that begins earlier does not count.

    None where no hour is known of every group, or where there is no group.
    """
    if not needs:
        return None
    hours = {hour for hour in set(needs[0]).intersection(*needs[1:]) if hour >= since_ms}
    if not hours:
        return None
    needed = [sum(one[hour] for one in needs) for hour in hours]
    return PastNeed(len(hours), held * len(hours), max(needed) * len(hours), sum(needed))
