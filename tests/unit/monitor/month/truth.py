"""What is really the matter, of a month of a datastream, by what the model knows exactly. It knows neither
histograms nor pieces of the past nor what the monitor remembers.

Near a limit no measurement can say whether it is passed: what is beyond it for sure must be found, and what
is not even near it must not be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from monitor.burn.rates import BurnRule
from tests.unit.monitor.month.flow import OBJECTIVE_MS, PER_MINUTE, STEP_SECONDS, Flags, Floats, Flow

SURE_MINUTES: Final = 3
"""What lasts so long must be found."""
APART_MINUTES: Final = 8
"""What is less apart is one."""


class Problem(NamedTuple):
    """Steps from `first` to before `end` in which something is the matter. `sure`: the first step by which it
    must have been found; None where it is too short for that."""

    first: int
    end: int
    sure: int | None


class Truth(NamedTuple):
    """Of a month. `near`: steps in which a measurement may say so, too."""

    near: Flags
    matters: Sequence[Problem]


class Limits(NamedTuple):
    """Shares of a limit above which something may be the matter, is, and is for sure."""

    near: float
    certain: float
    sure: float


_LATENCY: Final = Limits(0.9, 1.1, 1.25)
_BURN: Final = Limits(0.65, 1.1, 1.3)
"""An alert that has fired lasts down to three quarters of its rate."""


def breaches(flow: Flow) -> Truth:
    """Records are too late, over windows of a minute."""
    share = np.where(flow.unknown, 0.0, flow.worst_ms / OBJECTIVE_MS)
    before = np.concatenate([[0.0], share[:-1]])
    low, high = np.minimum(share, before), np.maximum(share, before)
    return Truth(high > _LATENCY.near, _matters(low > _LATENCY.certain, low > _LATENCY.sure))


def halts(flow: Flow) -> Sequence[Problem]:
    """Nothing is copied."""
    return _matters(flow.halted, flow.halted)


def burns(flow: Flow, rules: Sequence[BurnRule], budget: float, minimum: int) -> Truth:
    """Both windows of a rule burn at its rate."""

    def rate(seconds: int) -> Floats:
        steps = seconds // STEP_SECONDS
        records = _rolling(flow.delivered, steps)
        late = np.where(records >= minimum, _rolling(flow.late, steps) / np.maximum(records, 1.0), 0.0)
        stale = _rolling(flow.is_stale.astype(float), steps) / steps
        return np.maximum(late, stale) / budget

    shares = [np.minimum(rate(rule.long_seconds), rate(rule.short_seconds)) / rule.rate for rule in rules]
    most = np.max(shares, axis=0)
    return Truth(most > _BURN.near, _matters(most > _BURN.certain, most > _BURN.sure))


def _rolling(values: Floats, steps: int) -> Floats:
    """Sums over the newest steps, of each step."""
    total = np.concatenate([np.zeros(steps), np.cumsum(values)])
    return np.asarray(total[steps:] - total[:-steps])


def _matters(certain: Flags, sure: Flags) -> list[Problem]:
    found: list[Problem] = []
    for first, end in _runs(certain):
        if found and first - found[-1].end < APART_MINUTES * PER_MINUTE:
            found[-1] = found[-1]._replace(end=end)
        else:
            found.append(Problem(first, end, None))
    steady = SURE_MINUTES * PER_MINUTE
    firm = [first + steady for first, end in _runs(sure) if end - first >= steady]
    return [
        one._replace(sure=next((step for step in firm if one.first <= step <= one.end), None))
        for one in found
    ]


def _runs(flags: Flags) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(first), int(end)) for first, end in zip(edges[::2], edges[1::2], strict=True)]
