"""What an operator can set about forecasts within the service and the advice that follows from them."""

from __future__ import annotations

from pydantic import Field

from mirror.options import Settings


class AdviceSettings(Settings):
    """How the leader forecasts, and how it advises to size the service."""

    tasks_per_instance: int | None = Field(default=None, ge=1, le=10_000)
    """Tasks that one instance bears; unset means that nobody knows, and then no number of instances is
    advised."""
    hours_ahead: int = Field(default=24, ge=1, le=168)
    """How far ahead is looked."""
    history_days: int = Field(default=14, ge=2, le=90)
    """How much of the past a forecast rests on; two weeks know weekends."""
    certainty: float = Field(default=0.97, gt=0.5, lt=1)
    """Share of the hours that the high end of a forecast is to cover. An hour that needs more than the day
    before is among the worst, so that fewer of these are announced."""
    imminent_hours: int = Field(default=2, ge=1, le=24)
    """What this many hours will need is needed now: plans count it, and the advised numbers do."""
    consent_hours: int = Field(default=6, ge=1, le=168)
    """No task is given up that the forecast of this many hours needs."""
    shrink_after_hours: float = Field(default=6.0, ge=0, le=168)
    """The advised numbers fall only when less has been enough for this long."""
    quiet_hours: int = Field(default=4, ge=0, lt=24)
    """Length of the window of least load in a day, learned of each datastream: tasks are given up only within
    it. 0: at any time."""
    quiet_contrast: float = Field(default=1.5, ge=1)
    """How many times the load of that window the other hours carry at least; else there is no window, and
    tasks are given up at any time."""
    largest_error: float = Field(default=0.5, gt=0)
    """Plans count no forecast whose kind was off by more than this share of what came (the median)."""
    interval_seconds: float = Field(default=3600.0, ge=60)
    """Between two computations."""
