"""The capacity of a task on /v1: which was used, and where it comes from."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class CapacityAnswer(BaseModel):
    """What one task is planned to bear, and what was learned of it, also where that is not used."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    origin: Literal["setting", "datastream", "learned", "unlearned"]
    """Where it comes from: the settings; the datastream's own `placement`; what copying cost on the
    instances; the number of the settings for as long as nothing is learned."""
    bytes_per_second: int
    """Of one task."""
    messages_per_second: int | None
    """Of one task; null: only bytes count."""
    utilisation_percent: int
    """Share of it that placement fills."""
    why: str
    """The same in words."""
    learned_bytes_per_second: int | None
    """What one core was seen to copy; null: nothing is learned yet."""
    low: int | None
    """Of the interval around it, in bytes per second."""
    high: int | None
    """Of the interval around it, in bytes per second."""
    learned_messages_per_second: int | None
    """Messages that go with it."""
    observations: int
    """Intervals of busy workers that it was learned from."""
    observed_seconds: float
    """Their length together."""
    bytes_per_batch: float | None
    """Of the batches that it was learned from, as fetched."""
    records_per_batch: float | None
    """Of the batches that it was learned from."""
    passthrough: float | None
    """Share of these batches that passed unopened."""
