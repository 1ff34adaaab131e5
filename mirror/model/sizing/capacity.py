"""The capacity of a task that a plan uses, and where it comes from. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from mirror.model.load import LARGEST_CAPACITY, TaskCapacity
from mirror.model.sizing.costs import Learned
from mirror.wording import counted

LEAST_CAPACITY: Final = 1_024
"""Bytes per second; what is learned stays within these."""
_BAND: Final = 1.25
"""What is learned replaces what was used before when it differs by more than this factor, up or down: noise
of ±10 % never does, as 1.1 / 0.9 = 1.22, and rounding to three digits adds 1 % at most."""


class CapacityOrigin(StrEnum):
    """Where a capacity comes from: the settings; the datastream's own knobs; what copying cost; the number
    of the settings for as long as nothing is learned."""

    SETTING = "setting"
    DATASTREAM = "datastream"
    LEARNED = "learned"
    UNLEARNED = "unlearned"


@dataclass(frozen=True, slots=True)
class CapacityTerms:
    """What is asked for. `bytes_per_second`: None means that it is learned, and `unlearned_bytes_per_second`
    counts until then. `of_datastream`: whether the datastream itself says the number."""

    bytes_per_second: int | None
    unlearned_bytes_per_second: int
    messages_per_second: int | None = None
    utilisation_percent: int = 70
    of_datastream: bool = False


@dataclass(frozen=True, slots=True)
class CapacityInUse:
    """What a plan was made with. Rates are per second, of one task at full capacity; placement fills it to
    `utilisation_percent`. `messages_per_second`: None means that only bytes count.

    Of what was learned, also where it is not used: `learned_bytes_per_second` within `low` and `high`, the
    `learned_messages_per_second` that go with it, from `observations` over `observed_seconds` of workers,
    at `bytes_per_batch`, `records_per_batch` and `passthrough`, the share of unopened batches. None and 0
    where nothing was. `why`: in words where it comes from.
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
        """What a plan follows from, without the evidence."""
        return self.origin, self.bytes_per_second, self.messages_per_second, self.utilisation_percent

    @property
    def capacity(self) -> TaskCapacity:
        """As a planner takes it."""
        return TaskCapacity(self.bytes_per_second, self.messages_per_second, self.utilisation_percent)


def capacity_in_use(
    terms: CapacityTerms, found: Learned | None, before: CapacityInUse | None
) -> CapacityInUse:
    """The capacity to plan with. `before`: what the last plan was made with.

    What is learned has to differ from it by a quarter before it counts, so that the number of tasks does not
    follow noise; and where nothing is learned any more, what was learned last goes on to count.
    """
    if terms.bytes_per_second is not None:
        origin = CapacityOrigin.DATASTREAM if terms.of_datastream else CapacityOrigin.SETTING
        where = "the datastream" if terms.of_datastream else "the settings"
        return _used(terms, origin, terms.bytes_per_second, f"{where} say so", found)
    last = before if before is not None and before.origin is CapacityOrigin.LEARNED else None
    if found is None and last is not None:
        return replace(
            last,
            messages_per_second=terms.messages_per_second,
            utilisation_percent=terms.utilisation_percent,
            why="learned earlier; nothing was copied since that says more",
        )
    if found is None:
        number = terms.unlearned_bytes_per_second
        why = "nothing is learned yet: it takes a minute in which a worker is busy with it"
        return _used(terms, CapacityOrigin.UNLEARNED, number, why, None)
    target = _bounded(found, terms)
    if last is not None and target / _BAND <= last.bytes_per_second <= target * _BAND:
        target = last.bytes_per_second
    return _used(terms, CapacityOrigin.LEARNED, target, _how(found, target), found)


def _bounded(found: Learned, terms: CapacityTerms) -> int:
    """Three digits, within what can be; and no more than was nearly seen. With two, rounding would add 5 % to
    the noise at 1.0…, and the band is not that wide."""
    furthest = max(found.furthest, terms.unlearned_bytes_per_second)
    rate = min(found.bytes_per_second, furthest, LARGEST_CAPACITY)
    return max(int(float(f"{rate:.2e}")), LEAST_CAPACITY)


def _how(found: Learned, used: int) -> str:
    hours = "an hour" if found.hours == 1 else f"the dearest of {found.hours} hours"
    text = f"what one core copies by {hours}: {counted(found.observations, 'interval')} of workers"
    if round(found.spare, 2) > 0:
        text += f", without {found.spare:.0%} of their CPU time that a full load would not cost"
    if found.bytes_per_second > used * _BAND:
        text += "; four times what one worker was seen to carry, which is less than the CPU allows"
    return text


def _used(
    terms: CapacityTerms, origin: CapacityOrigin, number: int, why: str, found: Learned | None
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
