"""Assessments: results of each group's latest planning run, stored for REST and metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from mirror.coordination.plan_decision import Decision, FleetState
from mirror.coordination.stores import node_codec, znodes
from mirror.coordination.stores.record_folder import RecordFolder
from mirror.errors import CoordinationError, CorruptData, InvalidRequest, Unreachable
from mirror.instance.problem_board import ProblemBoard
from mirror.loggers import get_logger
from mirror.model import bounds
from mirror.model.capacity.capacity import CapacityInUse, CapacityOrigin
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.load import LoadLevel, LoadReport
from mirror.model.plan import GroupPlan, PlanFigures
from mirror.model.reasons import legible, reason_of
from mirror.ports import Clock, NodeStore

_log = get_logger(__name__)
NAMES_SHOWN: Final = 20
_LONGEST_REASON: Final = 1_000
_MOST_REASONS: Final = 100
_WRITTEN_EVERY_MS: Final = 60_000


@dataclass(frozen=True)
class Assessment(PlanFigures):
    """Result of the latest planning run of a group.

    `planned_ms`: time of the planning run (epoch ms). `loads_measured_at_ms`: time of the latest load used;
    None if no load was known. `offending`, `unplaced`: numbers of partitions; separate fields contain the
    first names. `estimated`: number of partitions whose load was estimated from other partitions of the
    topic. `unknown`: number of partitions without a known load. `lower_bounds`: number of partitions with a
    backlog, whose loads may be higher. `capacity`: capacity of a task; None if not recorded.
    """

    planned_ms: int
    loads_measured_at_ms: int | None
    tasks: int
    moved: float
    offending: int
    unplaced: int
    overloaded: int
    estimated: int
    unknown: int
    lower_bounds: int
    offending_partitions: tuple[str, ...]
    unplaced_partitions: tuple[str, ...]
    capacity: CapacityInUse | None = None


def assess(
    answer: GroupPlan, report: LoadReport | None, now_ms: int, capacity: CapacityInUse | None = None
) -> Assessment:
    """Return the result of a planning run to store: figures of the plan and of its loads. Pure."""
    held = frozenset().union(*answer.tasks.values(), answer.unplaced)
    loads = report.loads if report is not None else {}
    known = {key for key in held if key in loads and loads[key].level is not LoadLevel.DEFAULT}
    return Assessment(
        planned_ms=now_ms,
        loads_measured_at_ms=report.measured_at_ms if report is not None and known else None,
        tasks=len(answer.tasks),
        required_tasks=answer.required_tasks,
        task_lower_bound=answer.task_lower_bound,
        max_load=max(answer.loads_bytes_per_second.values(), default=0.0),
        max_load_lower_bound=answer.max_load_lower_bound_bytes_per_second,
        moved=answer.moved_bytes_per_second,
        moved_lower_bound=answer.moved_lower_bound_bytes_per_second,
        offending=len(answer.offending),
        unplaced=len(answer.unplaced),
        overloaded=len(answer.overloaded),
        estimated=len(answer.estimated),
        unknown=len(held) - len(known),
        lower_bounds=len(report.at_least & held) if report is not None else 0,
        moves_left=answer.moves_left,
        cut_short=answer.cut_short,
        stage=answer.stage,
        offending_partitions=tuple(str(partition) for partition in answer.offending[:NAMES_SHOWN]),
        unplaced_partitions=tuple(str(partition) for partition in answer.unplaced[:NAMES_SHOWN]),
        reasons=tuple(legible(reason) for reason in answer.reasons[:_MOST_REASONS]),
        capacity=capacity,
    )


def usable_of(assessment: Assessment | None, otherwise: int | None) -> int | None:
    """Return the usable task capacity in bytes per second from the latest planning run. Returns `otherwise`
    without an assessment, and None if partitions are not placed by load. Pure."""
    if otherwise is None or assessment is None or assessment.capacity is None:
        return otherwise
    return assessment.capacity.capacity.usable_bytes_per_second


def is_equivalent(assessment: Assessment, other: Assessment) -> bool:
    """Return whether two assessments are equal, apart from timestamps and the origin of the capacity."""
    first, second = (
        replace(each, planned_ms=0, loads_measured_at_ms=None, capacity=None) for each in (assessment, other)
    )
    return first == second and _planned_by(assessment) == _planned_by(other)


def _planned_by(assessment: Assessment) -> object:
    return assessment.capacity and assessment.capacity.planned_by


def encoded(assessment: Assessment) -> bytes:
    """Return the stored form of an assessment."""
    (data, *_) = node_codec.encode_chunks(asdict(assessment))
    return data


class AssessmentStore(RecordFolder[GroupName, Assessment]):
    """Stores the result of each group's latest planning run. Only the leader writes.

    An unreadable assessment is omitted until the group is planned again.
    """

    def __init__(self, nodes: NodeStore) -> None:
        super().__init__(nodes, znodes.ASSESSMENTS, GroupName, encoded, _legible)


class AssessmentKeeper:
    """Keeps the stored assessments up to date. Used by the leader's thread. Any thread may read `known`."""

    def __init__(self, store: AssessmentStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[GroupName, Assessment] = {}

    @property
    def known(self) -> Mapping[GroupName, Assessment]:
        """Map each group to the result of its latest planning run."""
        return dict(self._known)

    def take_up(self) -> None:
        """Read the results that the former leader stored. They remain valid until the next planning run."""
        self._known = dict(self._store.all())

    def resign(self) -> None:
        """Discard all results of planning runs after losing leadership."""
        self._known = {}

    def update(self, fleet: FleetState, decision: Decision, board: ProblemBoard) -> None:
        """Store the results of the groups that the decision planned, unchanged ones less often. A failure
        affects only the datastreams of its group. Raises Unreachable and CoordinationError."""
        news: dict[GroupName, tuple[Assessment, bytes]] = {}

        def are_put(groups: Sequence[GroupName]) -> None:
            self._known.update({group: news[group][0] for group in groups})

        def put_alone(group: GroupName) -> None:
            with board.guarding(*_names(fleet, group), through=(Unreachable, CoordinationError)):
                self._store.put(group, news[group][0])
                self._known[group] = news[group][0]

        now_ms = self._clock.now_ms()
        for group, answer in decision.group_plans.items():
            with board.guarding(*_names(fleet, group)):
                found = assess(answer, decision.loads.get(group), now_ms, decision.capacities.get(group))
                if self._is_news(group, found):
                    news[group] = found, encoded(found)
        self._store.put_encoded({group: data for group, (_, data) in news.items()}, are_put, put_alone)
        if fleet.is_whole and (removed := self._known.keys() - fleet.groups.keys()):
            self._store.remove_each(sorted(removed))
            self._known = {
                group: assessment for group, assessment in self._known.items() if group not in removed
            }

    def _is_news(self, group: GroupName, found: Assessment) -> bool:
        before = self._known.get(group)
        is_old = before is None or abs(found.planned_ms - before.planned_ms) >= _WRITTEN_EVERY_MS
        return before is None or is_old or not is_equivalent(found, before)


def _names(fleet: FleetState, group: GroupName) -> list[DatastreamName]:
    return [datastream.name for datastream in fleet.groups.get(group, ())]


def _legible(path: str, data: bytes) -> Assessment | None:
    try:
        return _read(node_codec.decode_chunks([data], path))
    except (CorruptData, InvalidRequest) as error:
        _log.warning("stored assessment ignored", path=path, reason=reason_of(error))
        return None


def _read(document: Mapping[str, Any]) -> Assessment:
    """Parse the result of a planning run. Raises InvalidRequest."""
    values = {
        field.name: _checked(field.name, str(field.type), document)
        for field in fields(Assessment)
        if field.name != "capacity"
    }
    capacity = document.get("capacity")
    return Assessment(**values, capacity=None if capacity is None else _capacity(capacity))


def _capacity(value: object) -> CapacityInUse:
    """Parse the task capacity in an assessment. Raises InvalidRequest."""
    document = bounds.mapping("the capacity", value)
    origin = bounds.choice("the origin of a capacity", CapacityOrigin, bounds.field(document, "origin"))
    numbers = {
        field.name: _optional(f"{field.name} of a capacity", field.type, bounds.field(document, field.name))
        for field in fields(CapacityInUse)
        if field.name not in {"origin", "why"}
    }
    why = bounds.text("the origin of a capacity", bounds.field(document, "why"), _LONGEST_REASON)
    found = CapacityInUse(origin=origin, why=why, **numbers)
    _ = found.capacity  # raises if no planner can use it
    return found


def _optional(label: str, kind: object, value: object) -> Any:
    if value is None and "None" in str(kind):
        return None
    if "int" in str(kind):
        return bounds.integer(label, value, 0, bounds.LARGEST_MS)
    return bounds.number(label, value, 0, 1e18)


def _checked(name: str, kind: str, document: Mapping[str, Any]) -> Any:
    value = bounds.field(document, name)
    match kind:
        case "int":
            return bounds.integer(name, value, 0, bounds.LARGEST_MS)
        case "int | None":
            return None if value is None else bounds.integer(name, value, 0, bounds.LARGEST_MS)
        case "float":
            return bounds.number(name, value, 0, 1e18)
        case "str":
            return bounds.text(name, value, _LONGEST_REASON)
        case _:
            texts = bounds.sequence(name, value, _MOST_REASONS)
            return tuple(bounds.text(name, text, _LONGEST_REASON) for text in texts)
