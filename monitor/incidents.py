"""From verdicts to incidents: when one opens, when help is asked for, when it closes. Pure.

An incident opens when a datastream was BREACHED in `open_after` verdicts in a row, and closes after
`close_after` verdicts WITHIN in a row that have lasted for `close_seconds`: what comes and goes near its
objective is one incident. UNKNOWN counts for neither; HALTED neither opens one nor lets one
close: good verdicts are counted from the start again. While it is open, a rebalance is asked for at most once
in `cooldown_seconds` (the last one must have had time to show), and not while something is not copied at all,
nor sooner than that after it was seen so: what an outage has left is copied as fast as that can be done, and
looks like an overload until it shows that less and less waits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from monitor.actions.policy import ActingPolicy
from monitor.latency import Standing, Verdict

_ALWAYS: Final = ActingPolicy()


class Step(StrEnum):
    """What a verdict leads to."""

    NONE = "none"
    OPEN = "open"
    HELP = "help"
    CLOSE = "close"


@dataclass(frozen=True, slots=True)
class IncidentPolicy:
    """See the module. `acting`: what forbids it besides."""

    open_after: int = 2
    close_after: int = 3
    cooldown_seconds: float = 60.0
    acting: ActingPolicy = _ALWAYS
    close_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Incident:
    """What is remembered of one datastream. Times are monotonic seconds. `halted_at`: when it was
    last seen that something of it is not copied."""

    is_open: bool = False
    breaches: int = 0
    goods: int = 0
    opened_at: float | None = None
    helped_at: float | None = None
    good_since: float | None = None
    halted_at: float | None = None

    def better_since(self, moment: float) -> Incident:
        """After one more verdict that is good."""
        # Every turn makes one for nearly every datastream; `replace` takes three times as long.
        return Incident(
            self.is_open, 0, self.goods + 1, self.opened_at, self.helped_at, moment, self.halted_at
        )


def advance(
    incident: Incident, verdict: Verdict, policy: IncidentPolicy, now: float
) -> tuple[Incident, tuple[Step, ...]]:
    """The incident after a verdict, and the steps to take, in order."""
    if verdict.standing is Standing.UNKNOWN:
        return incident, ()
    if verdict.is_halted or verdict.standing is Standing.HALTED:
        incident = replace(incident, halted_at=now)
    if verdict.standing is Standing.HALTED:
        return replace(incident, goods=0, good_since=None), ()
    if verdict.standing is Standing.WITHIN:
        since = now if incident.good_since is None else incident.good_since
        good = incident.better_since(since)
        if incident.is_open and good.goods >= policy.close_after and now - since >= policy.close_seconds:
            return Incident(helped_at=incident.helped_at, halted_at=incident.halted_at), (Step.CLOSE,)
        return good, ()
    bad = replace(incident, breaches=incident.breaches + 1, goods=0, good_since=None)
    steps: list[Step] = []
    if not bad.is_open and bad.breaches >= policy.open_after:
        bad = replace(bad, is_open=True, opened_at=now)
        steps.append(Step.OPEN)
    moments = [moment for moment in (bad.helped_at, bad.halted_at) if moment is not None]
    is_due = not moments or now - max(moments) >= policy.cooldown_seconds
    if bad.is_open and not verdict.is_halted and is_due:
        bad = replace(bad, helped_at=now)
        steps.append(Step.HELP)
    return bad, tuple(steps)


def closes_in_seconds(incident: Incident, policy: IncidentPolicy, now: float) -> float | None:
    """Return the time until an incident that has recovered closes, if it stays so; None where it has not."""
    if not incident.is_open or incident.good_since is None:
        return None
    return max(policy.close_seconds - (now - incident.good_since), 0.0)
