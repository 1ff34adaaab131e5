"""Task capacity that a plan uses, and its origin. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from mirror.model.capacity.costs import MeasuredCapacity
from mirror.model.load import LARGEST_CAPACITY, TaskCapacity
from mirror.wording import counted

LEAST_CAPACITY: Final = 1_024
"""Minimum capacity in bytes per second, including learned capacities."""
_BAND: Final = 1.25
"""Factor by which a learned capacity must differ from the previous one to replace it.

Noise of ±10 % never exceeds this factor: 1.1 / 0.9 = 1.22, and rounding adds at most 1 %.
"""


class CapacityOrigin(StrEnum):
    """Origin of a capacity: settings, options of the datastream, measured cost of copying, or a default."""

    SETTING = "setting"
    DATASTREAM = "datastream"
    LEARNED = "learned"
    UNLEARNED = "unlearned"


@dataclass(frozen=True, slots=True)
class CapacityTerms:
    """Task capacity as configured in settings and definitions.

    `bytes_per_second`: None if the capacity is learned. `unlearned_bytes_per_second`: capacity until enough
    is measured. `of_datastream`: the datastream sets the number.
    """

    bytes_per_second: int | None
    unlearned_bytes_per_second: int
    messages_per_second: int | None = None
    utilisation_percent: int = 70
    of_datastream: bool = False


@dataclass(frozen=True, slots=True)
class CapacityInUse:
    """Task capacity on which a plan is based, and its origin. Rates are per second.

    Placement fills a task to `utilisation_percent` of the capacity. `messages_per_second`: None means that
    only bytes count.

    The learned values are present even if they are not used. `learned_bytes_per_second` is between `low` and
    `high`; `learned_messages_per_second` corresponds to `learned_bytes_per_second`. The learned values are
    computed from `observations` of workers over `observed_seconds`, with batches of `bytes_per_batch` and
    `records_per_batch`. `passthrough`: share of batches copied without decompression. Without measurements,
    the learned values are None or 0. `why`: explanation of the origin.
    """

    origin: CapacityOrigin
    bytes_per_second: int
    messages_per_second: int | None
    utilisation_percent: int
    why: str
    learned_bytes_per_second: int | None = None
    low: int | None = None
    high: int | None = None
    learned_messages_per_second: int | None = None
    observations: int = 0
    observed_seconds: float = 0.0
    bytes_per_batch: float | None = None
    records_per_batch: float | None = None
    passthrough: float | None = None

    @property
    def planned_by(self) -> tuple[CapacityOrigin, int, int | None, int]:
        """The values that affect a plan; all others only explain them."""
        return self.origin, self.bytes_per_second, self.messages_per_second, self.utilisation_percent

    @property
    def capacity(self) -> TaskCapacity:
        """Capacity of a task in the form that planners use."""
        return TaskCapacity(self.bytes_per_second, self.messages_per_second, self.utilisation_percent)


def capacity_in_use(
    terms: CapacityTerms, found: MeasuredCapacity | None, before: CapacityInUse | None
) -> CapacityInUse:
    """Return the task capacity to use for planning.

    `before`: capacity of the last plan.

    A learned capacity takes effect only if it differs from `before` by a quarter, so that the number of tasks
    does not follow noise. If the measurements expire, the last learned capacity remains in use.
    """
    if terms.bytes_per_second is not None:
        origin = CapacityOrigin.DATASTREAM if terms.of_datastream else CapacityOrigin.SETTING
        where = "the datastream" if terms.of_datastream else "the settings"
        return _used(terms, origin, terms.bytes_per_second, f"set by {where}", found)
    last = before if before is not None and before.origin is CapacityOrigin.LEARNED else None
    if found is None and last is not None:
        return replace(
            last,
            messages_per_second=terms.messages_per_second,
            utilisation_percent=terms.utilisation_percent,
            why="learned earlier; not enough was copied since to learn more",
        )
    if found is None:
        number = terms.unlearned_bytes_per_second
        why = "nothing learned yet: needs a minute in which a worker is busy"
        return _used(terms, CapacityOrigin.UNLEARNED, number, why, None)
    target = _bounded(found, terms)
    if last is not None and target / _BAND <= last.bytes_per_second <= target * _BAND:
        target = last.bytes_per_second
    return _used(terms, CapacityOrigin.LEARNED, target, _origin(found, target), found)


def _bounded(found: MeasuredCapacity, terms: CapacityTerms) -> int:
    """Round a measured capacity to three digits, and limit it to plausible values.

    The upper limit is a multiple of the fastest observed rate. Rounding to two digits would add 5 % noise,
    which is more than `_BAND` permits.
    """
    furthest = max(found.furthest, terms.unlearned_bytes_per_second)
    rate = min(found.bytes_per_second, furthest, LARGEST_CAPACITY)
    return max(int(float(f"{rate:.2e}")), LEAST_CAPACITY)


def _origin(found: MeasuredCapacity, used: int) -> str:
    hours = "one hour" if found.hours == 1 else f"the most expensive of {found.hours} hours"
    text = f"rate of one core in {hours}: {counted(found.observations, 'worker interval')}"
    if round(found.spare, 2) > 0:
        text += f", without {found.spare:.0%} of CPU time that disappears under full load"
    if found.bytes_per_second > used * _BAND:
        text += "; limited to four times the rate of the fastest worker, although the CPU allows more"
    return text


def _used(
    terms: CapacityTerms, origin: CapacityOrigin, number: int, why: str, found: MeasuredCapacity | None
) -> CapacityInUse:
    known = CapacityInUse(origin, number, terms.messages_per_second, terms.utilisation_percent, why)
    if found is None:
        return known
    return replace(
        known,
        learned_bytes_per_second=_whole(found.bytes_per_second),
        low=_whole(found.low),
        high=_whole(found.high),
        learned_messages_per_second=_whole(found.messages_per_second),
        observations=found.observations,
        observed_seconds=round(found.seconds, 1),
        bytes_per_batch=round(found.bytes_per_batch, 1),
        records_per_batch=round(found.records_per_batch, 2),
        passthrough=round(found.passthrough, 4),
    )


def _whole(rate: float) -> int:
    return round(min(rate, LARGEST_CAPACITY))
