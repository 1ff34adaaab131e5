"""Overview of all datastreams on /v1. Unknown numbers are null."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class _OverviewModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class OpenIncidentAnswer(_OverviewModel):
    """Latest open incident."""

    id: str
    opened_ms: int
    cause: str
    """Cause of most bad seconds; empty: not diagnosed."""
    is_late: bool
    """True if an objective is missed now, or was missed until it recovered."""
    closing_ms: int | None
    """Time at which a recovered incident closes unless it relapses; null: not recovered."""


class LatencyAnswer(_OverviewModel):
    """Latency of the last seconds' batches by stage, in ms of an average batch."""

    source: float
    """At the source, until fetched."""
    fetch: float
    """In transfer from the source."""
    queue: float
    """In the worker's queue."""
    produce: float
    """Until acknowledged by the destination."""


class DatastreamGlance(_OverviewModel):
    """Overview of one datastream. Numbers of tasks are for its group."""

    name: str
    group: str
    """Group of datastreams that share tasks."""
    owner: str
    status: str
    """Status of the definition; DAMAGED: it cannot be read."""
    source: str
    destination: str
    problem: str
    """Reason why it is excluded from planning, or a remark; empty: none."""
    is_set_aside: bool
    halt: str
    """Reason given for pausing or stopping the whole datastream; empty: not paused or stopped, or no reason
    given."""
    objective_ms: int | None
    """Strictest objective; null: none."""
    percentile: float | None
    budget_left: float | None
    """Smallest remaining fraction of an error budget in its latest incident."""
    budget_as_of_ms: int | None
    """Time of that value (epoch ms)."""
    tasks: int
    required_tasks: int | None
    """Number of tasks required by capacity in the last planning, at `planned_ms`."""
    hot: int | None
    """Number of partitions whose load alone is at least half of the usable capacity of a task, by current
    loads; null: all loads are unknown, or the leader did not respond."""
    offending: int | None
    """Number of partitions whose load alone exceeds the usable capacity of a task, in the last planning."""
    unplaced: int | None
    """Number of partitions without a task."""
    overloaded: int | None
    """Number of tasks above usable capacity."""
    planned_ms: int | None
    """Time of the last planning (epoch ms); null: never planned."""
    fullest_bytes_per_second: float | None
    """Load of the fullest task in the last planning."""
    usable_bytes_per_second: int | None
    """Usable capacity of one of its tasks in the last planning; null: placement is not by load."""
    partitions: int
    """Number of partitions, copied or not, reported by the instances that responded."""
    not_copied: int
    """Number of these partitions that are not copied."""
    bytes_per_second: float | None
    """Current copy rate; null unless known for every lane."""
    lag_records: int | None
    """Waiting records; null unless known for every partition."""
    oldest_ms: int | None
    """Age of the oldest waiting record; null unless known for every partition."""
    at_least_ms: int | None
    """Age of the oldest waiting record among partitions with a known age."""
    counted_ms: int | None
    """The same without partitions whose oldest record counts against no objective, because it is from before
    the creation or restart of the datastream, or of a pause."""
    latency: LatencyAnswer | None
    """Null if nothing is being copied."""
    states: dict[str, int]
    """Number of partitions that are not OK, by state."""
    worst: str
    """Reason of the partition that has been not OK for longest; empty: none."""
    loses_data_in_seconds: float | None
    """Time until the source deletes an uncopied record, in seconds; null: no loss predicted within four
    hours."""
    incident: OpenIncidentAnswer | None


class OverviewAnswer(_OverviewModel):
    """Overview of all datastreams by name, and the instances that responded."""

    instances: int
    silent_instances: list[str]
    """Instances that did not respond: their lanes are missing in the sums."""
    is_complete: bool
    """True if all instances, including a leader, responded."""
    knows_incidents: bool
    """True if incidents could be read."""
    epoch: int
    """Epoch of the plan in force."""
    datastreams: list[DatastreamGlance]
