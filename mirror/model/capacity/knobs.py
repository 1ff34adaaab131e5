"""Placement options of a datastream: task capacity, utilisation, strategy and load provider. Pure.

Limits for the number of tasks are in `TaskLimits`. The settings provide the defaults.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal

from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.model.capacity.capacity import LEAST_CAPACITY, CapacityTerms
from mirror.model.load import LARGEST_CAPACITY

PLACEMENT: Final = "headrace-placement"
"""Metadata key of the placement options. The metadata key lacks the prefix `headrace.`, so that older
versions keep it."""
LEARNED: Final = "learned"
NO_LOADS: Final = "none"
LEAST_MESSAGES: Final = 100
LARGEST_HEADROOM: Final = 0.9
PLUG_IN_NAME: Final = r"^[A-Za-z][A-Za-z0-9_.-]{0,62}$"
"""Pattern for names of load providers and placement strategies, built in or plug-ins."""
_WORDS: Final[Mapping[str, str]] = {
    "capacity": "capacity_bytes_per_second",
    "messages": "capacity_messages_per_second",
    "utilisation": "utilisation_percent",
    "headroom": "scale_in_headroom",
    "strategy": "strategy",
    "provider": "load_provider",
}
_ADVICE: Final = "write it as capacity 20971520, messages 5000, utilisation 80, headroom 0.3, strategy simple"


@dataclass(frozen=True, slots=True)
class PlacementKnobs:
    """Placement options of one datastream. Raises InvalidRequest.

    None means the default from the settings. Capacities are per task and second; `learned` is the measured
    capacity of one core. `strategy`: name of the placement strategy. `load_provider`: name of the load
    provider; `none`: plan by partition count.
    """

    capacity_bytes_per_second: int | Literal["learned"] | None = None
    capacity_messages_per_second: int | None = None
    utilisation_percent: int | None = None
    scale_in_headroom: float | None = None
    strategy: str | None = None
    load_provider: str | None = None

    def __post_init__(self) -> None:
        if self.capacity_bytes_per_second not in (None, LEARNED):
            label = "the capacity of a task in bytes per second"
            bounds.integer(label, self.capacity_bytes_per_second, LEAST_CAPACITY, LARGEST_CAPACITY)
        if self.capacity_messages_per_second is not None:
            label = "the capacity of a task in messages per second"
            bounds.integer(label, self.capacity_messages_per_second, LEAST_MESSAGES, LARGEST_CAPACITY)
        if self.utilisation_percent is not None:
            bounds.integer("the utilisation of a task in percent", self.utilisation_percent, 1, 100)
        if self.scale_in_headroom is not None:
            bounds.number("the headroom of a task", self.scale_in_headroom, 0, LARGEST_HEADROOM)
        if self.strategy is not None:
            _plug_in_name("the placement strategy", self.strategy)
        if self.load_provider is not None:
            _plug_in_name("the load provider", self.load_provider)

    @property
    def text(self) -> str:
        """Text form in the metadata, which `read_knobs` parses."""
        given = ((word, getattr(self, name)) for word, name in _WORDS.items())
        return ", ".join(f"{word} {value}" for word, value in given if value is not None)


_NAMES: Final = frozenset(field.name for field in fields(PlacementKnobs))


def read_knobs(label: str, value: object) -> PlacementKnobs:
    """Parse placement options. Raises InvalidRequest."""
    text = bounds.text(label, value, bounds.LONGEST_REASON)
    found: dict[str, Any] = {}
    for part in text.split(",") if text.strip() else ():
        word, _, value_text = part.strip().partition(" ")
        name = _WORDS.get(word)
        if name is None or name in found:
            raise InvalidRequest(
                f"{label} has an unknown or repeated choice {bounds.shown(part.strip())}", advice=_ADVICE
            )
        found[name] = _value(f"{word} in {label}", word, value_text.strip())
    return PlacementKnobs(**found)


def _plug_in_name(label: str, name: object) -> str:
    found = bounds.line(label, name)
    if not re.fullmatch(PLUG_IN_NAME, found):
        raise InvalidRequest(
            f"{label} {bounds.shown(found)} is not a valid name",
            advice="use a letter, then up to 62 letters, digits or any of _ . -",
        )
    return found


def _value(label: str, word: str, text: str) -> object:
    if word in ("strategy", "provider"):
        return _plug_in_name(label, text)
    if word == "capacity" and text == LEARNED:
        return LEARNED
    if word != "headroom":
        return bounds.digits(label, text, 0, LARGEST_CAPACITY)
    try:
        return float(text)
    except ValueError as error:
        raise InvalidRequest(f"{label} must be a number, not {bounds.shown(text)}", advice=_ADVICE) from error


def knobs_from(metadata: Mapping[str, str]) -> PlacementKnobs:
    """Return the placement options in a datastream's metadata. Raises InvalidRequest."""
    return read_knobs(f"metadata {PLACEMENT}", metadata.get(PLACEMENT, ""))


def knobs_of_document(value: Mapping[str, Any]) -> PlacementKnobs:
    """Read placement options from a /v1 document. Raises InvalidRequest."""
    if unknown := sorted(value.keys() - _NAMES):
        raise InvalidRequest(f"unknown placement field {bounds.shown(unknown[0])}")
    return PlacementKnobs(**value)


def joint_terms(terms: CapacityTerms, several: Iterable[PlacementKnobs]) -> CapacityTerms:
    """Return the capacity terms of shared tasks: the strictest value of each option of several datastreams.

    `terms`: defaults from the settings. A number takes precedence over `learned`.
    """
    found = tuple(several)
    capacities = [knobs.capacity_bytes_per_second for knobs in found]
    numbers = [capacity for capacity in capacities if isinstance(capacity, int)]
    messages = [knobs.capacity_messages_per_second for knobs in found if knobs.capacity_messages_per_second]
    filled = [knobs.utilisation_percent for knobs in found if knobs.utilisation_percent]
    if numbers or LEARNED in capacities:
        terms = replace(terms, bytes_per_second=min(numbers, default=None), of_datastream=bool(numbers))
    return replace(
        terms,
        messages_per_second=min(messages, default=terms.messages_per_second),
        utilisation_percent=min(filled, default=terms.utilisation_percent),
    )


def joint_headroom(several: Iterable[PlacementKnobs]) -> float | None:
    """Return the largest headroom chosen by any of several datastreams, or None for the default."""
    return max(
        (knobs.scale_in_headroom for knobs in several if knobs.scale_in_headroom is not None), default=None
    )


def joint_strategy(several: Iterable[PlacementKnobs]) -> str | None:
    """Return the first placement strategy that a datastream chooses, or None for the default."""
    return next((knobs.strategy for knobs in several if knobs.strategy is not None), None)


def joint_provider(several: Iterable[PlacementKnobs]) -> str | None:
    """Return the load provider of datastreams that share tasks: `none` if any chooses it, otherwise the first
    one chosen, or None for the default."""
    chosen = [knobs.load_provider for knobs in several if knobs.load_provider is not None]
    return NO_LOADS if NO_LOADS in chosen else next(iter(chosen), None)
