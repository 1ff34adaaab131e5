"""Request bodies and responses for changes of datastreams on /v1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError, create_model

from api.http.problems import StrictModel, invalid_body
from api.resources.datastreams.datastream_models import (
    ChoicesBody,
    DatastreamAnswer,
    DestinationBody,
    SourceBody,
    StartText,
)
from api.resources.plan_answers import LoadsFrom, TaskChangeAnswer
from mirror.coordination.effects import LaneEffect
from mirror.instance.fleet_planner import UpdatePreview
from mirror.model.datastreams.change import FieldProblems, WantedDefinition, changed, definition_changes
from mirror.model.datastreams.datastream import Datastream, LatencyObjective
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.datastreams.start_positions import START_POSITIONS
from mirror.model.datastreams.starts import Start, read_start
from mirror.model.datastreams.typed_keys import PLACES, given_values
from mirror.model.documents import ChangedValue, differences, merged, pointer_to, take_out
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.load import TaskLimits
from mirror.model.reasons import reason_of
from mirror.model.topics import TopicNaming

_Number = TypeVar("_Number", int, float)
_STATE: Final = ("status", "pauses", "halt")
_STATE_ADVICE: Final = "change it with pause, resume, stop, pause-partitions or resume-partitions"
_WHOLE: Final = pointer_to(())
_LASTING: Final = ("name", "destination", "start", "start_positions")


class ChangedSourceBody(SourceBody):
    """Source of a changed definition. The cluster cannot change."""

    cluster: str = ""


class ChangedDestinationBody(DestinationBody):
    """Destination of a changed definition. Cluster and name cannot change."""

    cluster: str = ""
    name: str = ""


class RestartBody(StrictModel):
    """Restart of a datastream: it copies everything again from `start`."""

    start: StartText
    """`earliest`, `earliest-local`, or a time: ISO 8601 with an offset, or epoch milliseconds."""
    allow_duplicates: bool = False
    """Restart even if the destination topics contain records."""
    reason: str = ""
    """Reason, recorded in the event."""
    requested_by: str = ""
    """Requester, recorded in the event."""


_OWN: Final = frozenset({"name", "source", "destination", "start"})
"""Fields that have different forms in an update and in the response to a GET request."""


def _with_state(model: type[ChoicesBody]) -> type[ChoicesBody]:
    """Return a subclass of a model that also accepts the other fields of a response, with any value."""
    fields: dict[str, Any] = {
        name: (Any, None)
        for name in DatastreamAnswer.model_fields
        if name not in _OWN and name not in model.model_fields
    }
    return create_model(model.__name__, __base__=model, __module__=model.__module__, **fields)


@_with_state
class _ReturnedBody(ChoicesBody):
    """Options of a datastream and, because clients send back responses, the state fields of a response."""


class UpdateBody(_ReturnedBody):
    """New definition of a datastream.

    Fields that cannot change may be omitted. The response to a GET request can be sent back: its status and
    pauses must equal the stored values; its problem and planning are ignored.
    """

    name: str = ""
    source: ChangedSourceBody
    destination: ChangedDestinationBody | None = None
    start: StartText | None = None

    def to_datastream(
        self,
        present: Datastream,
        cluster_of_address: Callable[[str], ClusterRef],
        problems: FieldProblems | None = None,
    ) -> Datastream:
        """Return the current definition with the requested changes. `problems`: problems found before. Raises
        RefusedFields, which lists every rejected field."""
        problems = problems or FieldProblems()
        known = DatastreamAnswer.from_datastream(present).model_dump()
        for field in _STATE:
            if field in self.model_fields_set and getattr(self, field) != known[field]:
                problems.refuse(pointer_to([field]), _STATE_ADVICE)
        return changed(present, self._wanted(present, cluster_of_address, problems), problems)

    def _wanted(
        self, present: Datastream, cluster_of_address: Callable[[str], ClusterRef], problems: FieldProblems
    ) -> WantedDefinition:
        place, objective = self.destination or ChangedDestinationBody(), self.objective
        metadata, pointers = self.joined(present.metadata, problems)
        is_emptied = "start_positions" in self.model_fields_set and not self.start_positions
        if is_emptied and START_POSITIONS in present.metadata:
            metadata.setdefault(START_POSITIONS, "")  # differs from the positions given at creation
        limits = problems.attempt("/limits", lambda: TaskLimits(**self.limits.model_dump()), present.limits)
        lasting = Start(present.start, present.start_ms), present.naming
        self.check_keys(present.metadata, (limits, *lasting), problems)
        return WantedDefinition(
            selection=self.source.selection(present.selection, problems) or present.selection,
            limits=limits,
            objective=problems.attempt(
                "/objective",
                lambda: LatencyObjective(**objective.model_dump()) if objective else None,
                present.objective,
            ),
            metadata=metadata,
            fixed={
                "/name": self.name or None,
                "/source/cluster": cluster_of_address(self.source.cluster) if self.source.cluster else None,
                "/destination/cluster": cluster_of_address(place.cluster) if place.cluster else None,
                "/destination/name": (
                    problems.attempt("/destination/name", lambda: TopicNaming(place.name), None)
                    if place.name
                    else None
                ),
                "/start": read_start("the start", self.start) if self.start else None,
            },
            pointers=pointers,
        )


def patched(
    present: Datastream, patch: object, cluster_of_address: Callable[[str], ClusterRef]
) -> Datastream:
    """Apply a merge patch (RFC 7386) to the current definition in the form that GET returns.

    If the patch sets a metadata key that has a typed field, the metadata key takes precedence. Raises
    InvalidRequest, RefusedFields.
    """
    known = DatastreamAnswer.from_datastream(present).model_dump(mode="json")
    document = merged(known, patch)
    problems = FieldProblems()
    if isinstance(document, dict):
        for field in _LASTING:
            if field not in document:
                problems.refuse(pointer_to([field]), "cannot be removed")
        document |= {field: document.get(field) for field in _STATE}
        _yield_to_keys(document, patch, problems)
    try:
        body = UpdateBody.model_validate(document)
    except ValidationError as error:
        raise invalid_body(error.errors()) from error
    return body.to_datastream(present, cluster_of_address, problems)


def _yield_to_keys(document: dict[str, Any], patch: Any, problems: FieldProblems) -> None:
    """Remove typed fields from a patched document if the patch sets the metadata keys for the same
    options."""
    keys = patch.get("metadata")
    if not isinstance(keys, dict):
        return
    typed = given_values(patch)
    for key, place in PLACES.items():
        if key not in keys:
            continue
        if key not in typed:
            take_out(document, place)
        elif typed[key] is None and keys[key] is not None:
            pointers = pointer_to(place), pointer_to(["metadata", key])
            problems.contradiction(pointers, "one is removed and the other is set", "send only one of them")


class FieldChange(BaseModel):
    """Old and new value of a field that a change affects; null if the field is absent."""

    field: str
    before: Any
    after: Any


class LaneEffectAnswer(BaseModel):
    """Effect of a change on one lane, which the change starts, stops, moves or restarts.

    Tasks and instances are null if the lane does not run. `bytes_per_second`: rate at which records arrive at
    the source; null if unknown. `backlog_records`: for a lane that starts, number of records waiting at the
    source, counted by offsets; null if the lane does not start, or if the number is unknown, for example
    because the lane starts at a timestamp.
    """

    partition: str
    from_task: str | None
    to_task: str | None
    from_instance: str | None
    to_instance: str | None
    reason: str
    bytes_per_second: float | None
    backlog_records: int | None

    @classmethod
    def from_effect(
        cls, lane_effect: LaneEffect, bytes_per_second: float | None, backlog_records: int | None
    ) -> LaneEffectAnswer:
        """Return the effect on one lane as a response."""
        return cls(
            partition=str(lane_effect.key.partition),
            from_task=lane_effect.before.task if lane_effect.before else None,
            to_task=lane_effect.after.task if lane_effect.after else None,
            from_instance=lane_effect.before.instance if lane_effect.before else None,
            to_instance=lane_effect.after.instance if lane_effect.after else None,
            reason=lane_effect.reason,
            bytes_per_second=bytes_per_second,
            backlog_records=backlog_records,
        )


def _total(values: Iterable[_Number | None]) -> _Number | None:
    """Return the sum of values; None if one of them is unknown."""
    given = list(values)
    known = [value for value in given if value is not None]
    return sum(known) if len(known) == len(given) else None


def _differences(before: Datastream | None, after: Datastream) -> Iterator[ChangedValue]:
    """Yield the fields of the GET response that a change would alter, except times and reasons of pauses."""
    if before is None:
        document = DatastreamAnswer.from_datastream(after).model_dump(mode="json")
        yield ChangedValue(_WHOLE, None, document)
        return
    yield from definition_changes(before, after)
    if before.status is not after.status:
        yield ChangedValue(pointer_to(["status"]), before.status.value, after.status.value)
    yield from differences(_paused_numbers(before), _paused_numbers(after), "pauses")


def _paused_numbers(datastream: Datastream) -> dict[str, list[int] | str]:
    return {
        topic: "*" if pause.numbers is None else sorted(pause.numbers)
        for topic, pause in datastream.pauses.items()
    }


class UpdatePlanAnswer(BaseModel):
    """Effects of a change, from a dry run.

    `starts`, `stops`, `moves`, `restarts`: affected lanes. Other lanes are not interrupted. `reasons`:
    explanation of the number of tasks. `started_bytes_per_second`: rate at which records arrive for the lanes
    that start. `interrupted_bytes_per_second`: rate at which records arrive for the lanes that move or
    restart; these lanes stop briefly and then catch up. `started_backlog_records`: number of records waiting
    for the lanes that start. Each sum is null if the value of a lane is unknown. `loads_from`: `leader` if
    the leader computed the effects with its loads; `stored` if the leader did not respond, and the last loads
    that it stored for its successor were used. `task_changes`: tasks that would be added or removed.
    """

    name: str
    changes: list[FieldChange]
    tasks_before: int
    tasks_after: int
    loads_known: bool
    loads_from: LoadsFrom = "leader"
    starts: list[LaneEffectAnswer]
    stops: list[LaneEffectAnswer]
    moves: list[LaneEffectAnswer]
    restarts: list[LaneEffectAnswer]
    reasons: list[str]
    task_changes: list[TaskChangeAnswer] = []
    started_bytes_per_second: float | None
    interrupted_bytes_per_second: float | None
    started_backlog_records: int | None

    @classmethod
    def from_preview(
        cls, preview: UpdatePreview, backlogs: Mapping[LaneKey, int], remarks: Sequence[str] = ()
    ) -> UpdatePlanAnswer:
        """Return the effects of a change as a response, without the name and the changes of a datastream.

        `backlogs`: number of records waiting for each lane that starts, if known. `remarks`: further notes
        for the operator.
        """
        carried, decision = preview.carried, preview.decision
        found = [
            (effect, LaneEffectAnswer.from_effect(effect, carried.get(effect.key), backlogs.get(effect.key)))
            for effect in preview.effects
        ]
        starts = [answer for effect, answer in found if effect.before is None]
        moves = [answer for effect, answer in found if effect.is_move]
        restarts = [answer for effect, answer in found if effect.reason]
        return cls(
            name="",
            changes=[],
            tasks_before=preview.before.tasks,
            tasks_after=preview.after.tasks,
            loads_known=decision.are_loads_known,
            starts=starts,
            stops=[answer for effect, answer in found if effect.after is None],
            moves=moves,
            restarts=restarts,
            task_changes=TaskChangeAnswer.of(decision),
            started_bytes_per_second=_total(start.bytes_per_second for start in starts),
            interrupted_bytes_per_second=_total(answer.bytes_per_second for answer in (*moves, *restarts)),
            started_backlog_records=_total(start.backlog_records for start in starts),
            reasons=[
                *remarks,
                *preview.remarks,
                *(reason for plan in decision.group_plans.values() for reason in plan.reasons),
                *(
                    f"{group} was not planned: {reason_of(error)}"
                    for group, error in decision.problems.items()
                ),
            ],
        )

    def about(
        self, changes: Sequence[tuple[Datastream | None, Datastream]], group: GroupName | None = None
    ) -> UpdatePlanAnswer:
        """Return a copy with the changes of one datastream, or of all datastreams of a group.

        A change consists of the definition before (None for a creation) and after. For a group, JSON pointers
        start with the name of the datastream.
        """
        found = [
            FieldChange(
                field=difference.pointer if group is None else pointer_to([after.name]) + difference.pointer,
                before=difference.before,
                after=difference.after,
            )
            for before, after in changes
            for difference in _differences(before, after)
        ]
        return self.model_copy(update={"name": group or changes[0][1].name, "changes": found})
