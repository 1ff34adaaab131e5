"""Parses the what-if document (JSON or CSV) into the planner's input.

Every error names its location: the key of the document, the line of the file, or the partition. `report.py`
writes the result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_type_hints

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, field_validator

from assigner.answer.placement_answer import PlacementAnswer
from assigner.planner import plan
from assigner.problem.loads import UNKNOWN_LOAD, PartitionLoads, resolve
from assigner.problem.policy import PlanMode, Policy
from assigner.problem.problem import TaskOf
from assigner.what_if.hosts import Host
from assigner.what_if.rows import rows
from mirror.errors import InvalidRequest
from mirror.model import bounds
from mirror.model.bounds import LARGEST_PARTITION, LONGEST_NAME, shown
from mirror.model.documents import mapping_of
from mirror.model.identifiers import GroupName, task_name
from mirror.model.load import HIGHEST_RATE, LoadLevel, PartitionLoad, RateSource, TaskCapacity, TaskLimits
from mirror.model.topics import TopicPartition
from mirror.options import read_by, validation_text

Label = int | str
"""Name of a task in a what-if document."""

_NO_TASK: Final = -1
"""Value of `task` that marks a new partition, like null."""
_LARGEST_TASK: Final = 10**18 - 1
_TASK_NUMBER: Final = re.compile(r"-?[0-9]{1,18}")
_COLUMNS: Final = ("topic", "partition", "bytes_per_second", "messages_per_second", "task")


_Name = Annotated[str, read_by(lambda name: bounds.line("the name", name))]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=True, strict=True)


class _Rate(_Part):
    bytes_per_second: float
    messages_per_second: float | None = None


class _Capacity(_Part):
    bytes_per_second: int
    messages_per_second: int | None = None
    utilisation_percent: int = 90


class _Limits(_Part):
    min_tasks: int = 1
    max_tasks: int | None = None
    max_partitions_per_task: int | None = None


class _Partition(_Part):
    topic: _Name
    partition: int = Field(ge=0, le=LARGEST_PARTITION)
    bytes_per_second: float | None = None
    messages_per_second: float | None = None
    task: Label | None = None

    @field_validator("task")
    @classmethod
    def _names_a_task(cls, task: Label | None) -> Label | None:
        if task == "" or (isinstance(task, int) and not _NO_TASK <= task <= _LARGEST_TASK):
            raise ValueError(f"invalid task {shown(task)}; write null or {_NO_TASK} for a new partition")
        return task


class _Host(_Part):
    name: _Name
    weight: float = 1.0


_CHOSEN_ELSEWHERE: Final = frozenset({"mode", "rebalance", "keep_reason"})
"""Fields of the policy that the document has in other places or not at all."""
if TYPE_CHECKING:
    _Policy = _Part
else:
    _Policy = create_model(
        "_Policy",
        __base__=_Part,
        **{
            name: (kind | None, None)
            for name, kind in get_type_hints(Policy).items()
            if name not in _CHOSEN_ELSEWHERE
        },
    )


class Document(_Part):
    """Input document of `headrace plan --input`. Missing keys take the values of the settings, or
    defaults."""

    capacity: _Capacity | None = None
    limits: _Limits = _Limits()
    mode: Literal["full", "incremental"] = "incremental"
    rebalance: bool = False
    defaults: _Rate | None = None
    topics: dict[str, _Rate] = Field(default_factory=dict)
    partitions: list[_Partition] = Field(default_factory=list)
    hosts: list[_Host] = Field(default_factory=list)
    policy: _Policy | None = None


@dataclass(frozen=True)
class Fallback:
    """Values for keys that the document omits."""

    capacity: TaskCapacity
    default: PartitionLoad = UNKNOWN_LOAD
    policy: Policy = field(default_factory=Policy)


@dataclass(frozen=True)
class PlanningQuestion:
    """The planner's input, with the task names used in the document."""

    loads: PartitionLoads
    capacity: TaskCapacity
    limits: TaskLimits
    policy: Policy
    current: TaskOf
    labels: tuple[Label, ...]
    hosts: tuple[Host, ...]

    def answer(self) -> tuple[PlacementAnswer, list[Label]]:
        """Return the plan and the name of each task number. Raises InvalidRequest, PlanRejected."""
        result = plan(self.loads, self.capacity, self.limits, self.policy, self.current)
        return result, _names(self.labels, result)


def read_json(text: str) -> dict[str, Any]:
    """Parse the document as JSON. Raises InvalidRequest with line and column."""
    try:
        found = json.loads(text, object_pairs_hook=mapping_of)
    except json.JSONDecodeError as error:
        raise InvalidRequest(f"not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise InvalidRequest("invalid JSON: nested too deeply") from error
    except ValueError as error:
        raise InvalidRequest(f"not JSON: {str(error)[:200]}") from error
    if not isinstance(found, dict):
        raise InvalidRequest("the document must be a JSON object", advice='start with {"partitions": [')
    return found


def read_csv(text: str) -> dict[str, Any]:
    """Parse partitions from CSV with a header; an empty field is unknown.

    Raises InvalidRequest that names the line.
    """
    return {"partitions": [_of_row(where, row) for where, row in rows(text, _COLUMNS[:2], _COLUMNS)]}


def _of_row(where: str, row: Mapping[str, str]) -> dict[str, Any]:
    entry: dict[str, Any] = {name: field for name, field in row.items() if field}
    try:
        entry["partition"] = bounds.digits("partition", row["partition"], 0, LARGEST_PARTITION)
        for name in entry.keys() & {"bytes_per_second", "messages_per_second"}:
            entry[name] = bounds.decimal(name, row[name], 0, HIGHEST_RATE)
    except InvalidRequest as error:
        raise InvalidRequest(f"{where}: {error}") from error
    if _TASK_NUMBER.fullmatch(row.get("task", "")):
        entry["task"] = int(row["task"])
    return entry


def understand(document: Mapping[str, Any], fallback: Fallback) -> PlanningQuestion:
    """Validate the what-if document and number its tasks. Raises InvalidRequest that names the location."""
    try:
        parsed = Document.model_validate(document)
    except ValidationError as error:
        raise InvalidRequest(_first_problem(error, document)) from error
    partitions = [TopicPartition(partition.topic, partition.partition) for partition in parsed.partitions]
    topics = {name: _load(rate, LoadLevel.TOPIC) for name, rate in parsed.topics.items()}
    default = _load(parsed.defaults, LoadLevel.DEFAULT) if parsed.defaults else fallback.default
    _refuse_impossible({**{f"topics.{name}": rate for name, rate in topics.items()}, "defaults": default})
    known = {
        partition: load
        for partition, parsed_partition in zip(partitions, parsed.partitions, strict=True)
        if (load := _known(parsed_partition, topics.get(parsed_partition.topic, default))) is not None
    }
    labels, current = _numbered(
        [None if partition.task == _NO_TASK else partition.task for partition in parsed.partitions]
    )
    knobs = parsed.policy.model_dump(exclude_none=True) if parsed.policy else {}
    return PlanningQuestion(
        loads=resolve(partitions, known, topics, default),
        capacity=TaskCapacity(**parsed.capacity.model_dump()) if parsed.capacity else fallback.capacity,
        limits=TaskLimits(**parsed.limits.model_dump()),
        policy=replace(fallback.policy, mode=PlanMode(parsed.mode), rebalance=parsed.rebalance, **knobs),
        current=current,
        labels=labels,
        hosts=tuple(Host(host.name, host.weight) for host in parsed.hosts),
    )


def _known(partition: _Partition, coarser: PartitionLoad) -> PartitionLoad | None:
    """Return the load that the document gives for a partition; None if it gives none.

    Missing bytes come from the topic's load or the default.
    """
    if partition.bytes_per_second is not None:
        return PartitionLoad(partition.bytes_per_second, partition.messages_per_second)
    if partition.messages_per_second is not None:
        return replace(coarser, messages_per_second=partition.messages_per_second)
    return None


def _load(rate: _Rate, level: LoadLevel) -> PartitionLoad:
    return PartitionLoad(rate.bytes_per_second, rate.messages_per_second, level, RateSource.CONFIGURED)


def _refuse_impossible(named: Mapping[str, PartitionLoad]) -> None:
    """Raise InvalidRequest for implausible loads of topics, or an implausible default load. `named`: each
    load, by the document key that errors name."""
    for key, load in named.items():
        for value in (load.bytes_per_second, load.messages_per_second or 0.0):
            if not 0 <= value <= HIGHEST_RATE:
                raise InvalidRequest(f"{key}: the load {value} is outside 0 to {HIGHEST_RATE:.0e} per second")


def _numbered(tasks: Sequence[Label | None]) -> tuple[tuple[Label, ...], TaskOf]:
    """Number the tasks of the document; return their names in order, and the task number of each partition.

    Numbers come first, then texts.
    """
    labels = sorted(
        {task for task in tasks if task is not None}, key=lambda task: (isinstance(task, str), task)
    )
    numbers = {label: number for number, label in enumerate(labels)}
    current = [-1 if task is None else numbers[task] for task in tasks]
    return tuple(labels), np.array(current, dtype=np.int32)


def _names(labels: Sequence[Label], answer: PlacementAnswer) -> list[Label]:
    """Return a task name for each task number of a plan.

    Current tasks keep their names. New tasks get the lowest free numbers, in the style of the current names.
    """
    names = list(labels)
    taken = {name for name, alive in zip(labels, answer.alive, strict=False) if alive}
    texts = [label for label in labels if isinstance(label, str)]
    number = 0
    while len(names) < len(answer.alive):
        name: Label = task_name(GroupName(_prefix(texts[0])), number) if texts else number
        if name not in taken:
            names.append(name)
        number += 1
    return names


def _prefix(label: str) -> str:
    stem, dash, number = label.rpartition("-")
    return stem if dash and number.isdecimal() else "task"


def _first_problem(error: ValidationError, document: Mapping[str, Any]) -> str:
    problem = error.errors()[0]
    where = [part for part in problem["loc"] if part not in ("int", "str")]
    text = validation_text(problem)
    if problem["type"] == "extra_forbidden":
        text = "unknown key"
    key = ".".join(_key_text(part) for part in where)
    if len(where) > 1 and where[0] == "partitions" and isinstance(where[1], int):
        entry = document["partitions"][where[1]]
        if isinstance(entry, Mapping) and {"topic", "partition"} <= entry.keys():
            key += f" (partition {_key_text(entry['topic'])}-{_key_text(entry['partition'])})"
    return f"{key}: {text}"


def _key_text(part: object) -> str:
    """Return the path of a document key for an error message; long keys are shortened."""
    text = str(part) if isinstance(part, str | int) and not isinstance(part, bool) else ""
    return text if 0 < len(text) <= LONGEST_NAME else shown(part)
