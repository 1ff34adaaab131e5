"""Opens and closes incidents according to the verdicts on a datastream. Pure.

An incident opens after `open_after` consecutive BREACHED verdicts. An incident closes after `close_after`
consecutive WITHIN verdicts over at least `close_seconds`, so that a datastream close to its objective has one
long incident. An UNKNOWN verdict does not change these counts. A HALTED verdict neither opens nor closes an
incident, and resets the count of WITHIN verdicts.

During an incident, a rebalance is requested at most once per `cooldown_seconds`, so that the previous
rebalance can take effect. No rebalance is requested while a part of the datastream is not copied, or within
`cooldown_seconds` after copying has resumed: copying a backlog at full speed looks like an overload until the
backlog shrinks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from monitor.actions import ActingPolicy
from monitor.latency import LatencyVerdict, ObjectiveStatus

_ALWAYS: Final = ActingPolicy()


class IncidentStep(StrEnum):
    """Action to take on an incident because of a verdict."""

    NONE = "none"
    OPEN = "open"
    HELP = "help"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class IncidentPolicy:
    """Numbers and times that determine when incidents open and close. `acting`: limits on rebalances."""

    open_after: int = 2
    close_after: int = 3
    cooldown_seconds: float = 60.0
    acting: ActingPolicy = _ALWAYS
    close_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Incident:
    """State of a datastream's incident, and its latest verdicts. Times are monotonic seconds.

    `breaches`, `goods`: number of consecutive BREACHED and WITHIN verdicts. `helped_at`: time of the last
    request for a rebalance. `halted_at`: last time at which the datastream was not fully copied.
    """

    is_open: bool = False
    breaches: int = 0
    goods: int = 0
    opened_at: float | None = None
    helped_at: float | None = None
    good_since: float | None = None
    halted_at: float | None = None

    def better_since(self, moment: float) -> Incident:
        """Return the incident state after one more WITHIN verdict. `moment`: first of these verdicts."""
        # Called for nearly every datastream in each evaluation; `replace` takes three times as long.
        return Incident(
            self.is_open, 0, self.goods + 1, self.opened_at, self.helped_at, moment, self.halted_at
        )


def advance(
    incident: Incident, verdict: LatencyVerdict, policy: IncidentPolicy, now: float
) -> tuple[Incident, tuple[IncidentStep, ...]]:
    """Return the incident state after a verdict, and the actions to take, in order."""
    if verdict.standing is ObjectiveStatus.UNKNOWN:
        return incident, ()
    if verdict.is_halted or verdict.standing is ObjectiveStatus.HALTED:
        incident = replace(incident, halted_at=now)
    if verdict.standing is ObjectiveStatus.HALTED:
        return replace(incident, goods=0, good_since=None), ()
    if verdict.standing is ObjectiveStatus.WITHIN:
        since = now if incident.good_since is None else incident.good_since
        good = incident.better_since(since)
        if incident.is_open and good.goods >= policy.close_after and now - since >= policy.close_seconds:
            return Incident(helped_at=incident.helped_at, halted_at=incident.halted_at), (IncidentStep.CLOSE,)
        return good, ()
    bad = replace(incident, breaches=incident.breaches + 1, goods=0, good_since=None)
    steps: list[IncidentStep] = []
    if not bad.is_open and bad.breaches >= policy.open_after:
        bad = replace(bad, is_open=True, opened_at=now)
        steps.append(IncidentStep.OPEN)
    moments = [moment for moment in (bad.helped_at, bad.halted_at) if moment is not None]
    is_due = not moments or now - max(moments) >= policy.cooldown_seconds
    if bad.is_open and not verdict.is_halted and is_due:
        bad = replace(bad, helped_at=now)
        steps.append(IncidentStep.HELP)
    return bad, tuple(steps)


def closes_in_seconds(incident: Incident, policy: IncidentPolicy, now: float) -> float | None:
    """Return the seconds until the incident closes at the earliest; None if no incident is open, or if the
    latest verdict is not WITHIN."""
    if not incident.is_open or incident.good_since is None:
        return None
    return max(policy.close_seconds - (now - incident.good_since), 0.0)
