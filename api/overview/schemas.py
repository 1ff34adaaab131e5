"""Every datastream at a glance, on /v1. A number that is not known is null."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class _OverviewModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class OpenIncidentAnswer(_OverviewModel):
    """The newest incident that is not over."""

    id: str
    opened_ms: int
    cause: str
    """Of most of its bad seconds; empty: it was not diagnosed."""
    is_late: bool
    """Whether an objective is missed now, or was until it recovered."""
    closing_ms: int | None
    """When it closes if it stays as it is, of one that has recovered; null: it has not."""


class LatencyAnswer(_OverviewModel):
    """Where the batches of the last seconds have spent their time, in ms of an average batch."""

    source: float
    """Until they were fetched."""
    fetch: float
    """Being received."""
    queue: float
    """In the worker."""
    produce: float
    """Until the destination acknowledged them."""


class DatastreamGlance(_OverviewModel):
    """One datastream in numbers. Those of tasks are of its group."""

    name: str
    group: str
    """The datastreams of a group share their tasks."""
    owner: str
    status: str
    """As of its definition; DAMAGED: it cannot be read."""
    source: str
    destination: str
    problem: str
    """Why it is set aside, or a remark; empty: nothing."""
    is_set_aside: bool
    halt: str
    """Why the whole of it is paused or stopped, in its words; empty: it is not, or nobody said why."""
    objective_ms: int | None
    """The strictest; null: it has none."""
    percentile: float | None
    budget_left: float | None
    """The smallest share of an error budget that was left in its newest incident."""
    budget_as_of_ms: int | None
    """When that was looked at."""
    tasks: int
    required_tasks: int | None
    """That capacity asks for, as of the last planning, at `planned_ms`."""
    hot: int | None
    """Partitions whose load alone is half of what a task may carry or more, by the loads of now; null: no
    load is known, or the leader was not heard."""
    offending: int | None
    """Partitions whose load alone is more than a task may carry, as of the last planning."""
    unplaced: int | None
    """Partitions that no task has."""
    overloaded: int | None
    """Tasks with more than they may carry."""
    planned_ms: int | None
    """When that planning was (epoch ms); null: nothing was planned."""
    fullest_bytes_per_second: float | None
    """Load of the fullest task in the last planning."""
    usable_bytes_per_second: int | None
    """What one of its tasks may carry by the last planning; null: placement is not by load."""
    partitions: int
    """That instances have or that nobody copies, as far as these have answered."""
    not_copied: int
    """Those of them that nobody copies."""
    bytes_per_second: float | None
    """Copied now; null unless it is known of every lane."""
    lag_records: int | None
    """Waiting; null unless it is known of every partition."""
    oldest_ms: int | None
    """Age of the oldest waiting record; null unless it is known of every partition."""
    at_least_ms: int | None
    """The same of the partitions of which it is known."""
    latency: LatencyAnswer | None
    """Null where nothing is copied now."""
    states: dict[str, int]
    """Partitions that are not OK, by what they do."""
    worst: str
    """What is said of the one that has been so for longest; empty: all are OK, as far as is known."""
    loses_data_in_seconds: float | None
    """Until the source deletes a record that is not copied; null: it does not within four hours, as far as is
    known."""
    incident: OpenIncidentAnswer | None


class OverviewAnswer(_OverviewModel):
    """All datastreams, by name, and who was heard."""

    instances: int
    silent_instances: list[str]
    """Those that have not answered: what they copy is missing in the sums."""
    is_complete: bool
    """Whether all were heard and one of them leads."""
    knows_incidents: bool
    """Whether incidents could be read."""
    epoch: int
    """Of the plan in force."""
    datastreams: list[DatastreamGlance]
