"""Settings of forecasts within the service and of the resulting advice."""

from __future__ import annotations

from pydantic import Field

from mirror.options import Settings


class AdviceSettings(Settings):
    """Settings of the leader's forecasts and sizing advice."""

    tasks_per_instance: int | None = Field(default=None, ge=1, le=10_000)
    """Tasks that one instance can run; if unset, no number of instances is advised."""
    hours_ahead: int = Field(default=24, ge=1, le=168)
    """Forecast horizon in hours."""
    history_days: int = Field(default=14, ge=2, le=90)
    """Days of history used by a forecast. At least two weeks are recommended, to include two weekends."""
    certainty: float = Field(default=0.97, gt=0.5, lt=1)
    """Share of hours that the upper bound of a forecast should cover. Forecasts are less accurate for hours
    that need more tasks than the previous day."""
    imminent_hours: int = Field(default=2, ge=1, le=24)
    """Number of upcoming hours whose forecast need counts as current need in plans and advice."""
    consent_hours: int = Field(default=6, ge=1, le=168)
    """Number of upcoming hours to check before a task is removed. If the forecast requires the task in any of
    these hours, the task is kept."""
    shrink_after_hours: float = Field(default=6.0, ge=0, le=168)
    """Number of hours for which the need must stay lower before fewer tasks and instances are advised."""
    quiet_hours: int = Field(default=4, ge=0, lt=24)
    """Length in hours of the daily low-load window, which is learned for each datastream. Tasks are
    removed only within this window. With 0, tasks are removed at any time."""
    quiet_contrast: float = Field(default=1.5, ge=1)
    """Minimum ratio of the load outside the low-load window to the load within it. Below this ratio, the
    window is ignored, and tasks are removed at any time."""
    largest_error: float = Field(default=0.5, gt=0)
    """Maximum median error of past forecasts, as a share of the actual load. Above this error, plans ignore
    forecasts."""
    interval_seconds: float = Field(default=3600.0, ge=1)
    """Interval between two forecasts, in seconds. After a failure, and after a change of tasks, instances or
    datastreams, the interval is at most a minute."""
