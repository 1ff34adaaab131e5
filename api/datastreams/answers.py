"""Answers with a definition, and what is read of every change of one."""

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

NamePath = Annotated[str, Path(description="the datastream's name")]


def answer_of(stored: StoredDatastream, reads: Reads, response: Response) -> DatastreamAnswer:
    """The definition, what is wrong with it and what its planning found, with the header that names its
    version."""
    response.headers["ETag"] = etag_of(stored)
    one = stored.datastream
    return DatastreamAnswer.from_datastream(one, reads.problem(one.name), reads.assessments().get(one.group))


def written_answer(stored: StoredDatastream, reads: Reads, response: Response) -> DatastreamAnswer:
    """The same for what has just been written."""
    reads.acknowledged(stored)
    return answer_of(stored, reads, response)


def damaged_answer(found: DamagedDefinition, told: Problem | None, services: Services) -> DatastreamAnswer:
    """`told`: what the leader has noted, which says since when."""
    return DatastreamAnswer.from_damaged(found, told or Problem(found.problem, services.clock.now_ms()))


def located(operation: Operation, response: Response) -> OperationAnswer:
    """Work that has begun, with the header that says where to ask for it."""
    response.headers["Location"] = f"/v1/operations/{operation.identity}"
    return OperationAnswer.from_operation(operation)


def cause_of(body: HaltBody | PausesBody) -> tuple[str, str]:
    """Reason and who asks, as far as they can be kept. Raises InvalidRequest."""
    return (
        bounds.text("the reason", body.reason, bounds.LONGEST_REASON),
        bounds.text("requested_by", body.requested_by, bounds.LONGEST_NAME),
    )
