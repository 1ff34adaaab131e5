"""Responses with a definition, and parsing of fields common to all changes."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response

from api.etags import etag_of
from api.fleet.reads import Reads
from api.schemas.datastreams import DatastreamAnswer
from api.schemas.partitions import HaltBody, PausesBody
from api.schemas.plans import OperationAnswer
from api.services import Services
from mirror.coordination.operations.operation import Operation
from mirror.coordination.stores.definitions import DamagedDefinition, StoredDatastream
from mirror.coordination.stores.problems import Problem
from mirror.model import bounds

NamePath = Annotated[str, Path(description="name of the datastream")]


def answer_of(stored: StoredDatastream, reads: Reads, response: Response) -> DatastreamAnswer:
    """Return the definition with its problem and the result of its last planning; the ETag header names its
    version."""
    response.headers["ETag"] = etag_of(stored)
    one = stored.datastream
    return DatastreamAnswer.from_datastream(one, reads.problem(one.name), reads.assessments().get(one.group))


def written_answer(stored: StoredDatastream, reads: Reads, response: Response) -> DatastreamAnswer:
    """Return the same for a definition that was just written."""
    reads.acknowledged(stored)
    return answer_of(stored, reads, response)


def damaged_answer(found: DamagedDefinition, problem: Problem | None, services: Services) -> DatastreamAnswer:
    """Return the response for a damaged definition. `problem`: problem recorded by the leader, which includes
    its start time."""
    return DatastreamAnswer.from_damaged(found, problem or Problem(found.problem, services.clock.now_ms()))


def located(operation: Operation, response: Response) -> OperationAnswer:
    """Return a started operation; the Location header names its URL."""
    response.headers["Location"] = f"/v1/operations/{operation.identity}"
    return OperationAnswer.from_operation(operation)


def cause_of(body: HaltBody | PausesBody) -> tuple[str, str]:
    """Return reason and requester, validated. Raises InvalidRequest."""
    return (
        bounds.text("the reason", body.reason, bounds.LONGEST_REASON),
        bounds.text("requested_by", body.requested_by, bounds.LONGEST_NAME),
    )
