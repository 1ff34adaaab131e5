"""/v1/loads and /v1/datastreams/{name}/loads: the loads that the leader knows.

Without a leader, the response contains the partitions without loads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response
from fastapi.concurrency import run_in_threadpool

from api.fleet.all_instances import ask_leader
from api.fleet.dependencies import FleetDep, NamePath, ReadsDep, ServicesDep
from api.fleet.questions import FleetQuery, known_fields
from api.http.problems import problems
from api.http.slow_calls import large_response
from api.resources.partitions.load_answers import (
    ClusterLoadsAnswer,
    DatastreamLoads,
    LeadersLoads,
    LoadCounts,
    LoadsAnswer,
    PartitionLoadAnswer,
    heaviest_first,
)
from api.services import Services
from mirror.errors import InvalidRequest
from mirror.instance.loads.assessments import Assessment, usable_of
from mirror.model import bounds
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.load import LoadSource
from mirror.model.plan import Plan, TaskPlacement
from mirror.model.topics import TopicPartition

router = APIRouter(prefix="/v1")


LOADS: Final = "loads"
CLUSTER_LOADS: Final = "cluster-loads"
MOST_SHOWN: Final = 100_000
_MOST_CLUSTERS: Final = 10_000


def owners_of(datastream: Datastream, plan: Plan) -> Mapping[TopicPartition, TaskPlacement]:
    """Map each partition that the plan assigns to the datastream to its task."""
    return {
        place: task
        for task in plan.of_group(datastream.group)
        for place in task.partitions
        if datastream.selection.matches(place.topic) and not plan.excludes(datastream.name, place.topic)
    }


def own_loads(
    services: Services,
    datastream: Datastream,
    plan: Plan,
    assessments: Mapping[GroupName, Assessment],
    limit: int,
) -> DatastreamLoads | None:
    """Return the loads of a datastream that this instance knows as leader; None if it is not the leader."""
    loads = _loads_of(services, _source_of(services, datastream))
    if loads is None:
        return None
    owners, name = owners_of(datastream, plan), datastream.name
    idle = {lane.what.partition for lane in services.status.uncopied if lane.what.datastream == name}
    places = heaviest_first(owners.keys() | idle, loads)
    counts, assessment = LoadCounts.of(places, loads), assessments.get(datastream.group)
    usable = usable_of(assessment, services.usable_bytes_per_second)
    rows = [
        PartitionLoadAnswer.from_load(place, owners.get(place), loads, assessment, usable)
        for place in places[:limit]
    ]
    is_whole = bool(places) and counts.known == len(places)
    return DatastreamLoads(
        name=name,
        cluster=datastream.source,
        leader=services.status.name,
        no_answer="",
        provider=loads.known.provider or None,
        planned_ms=assessment.planned_ms if assessment else None,
        bytes_per_second=counts.bytes_per_second if is_whole else None,
        known=counts.known,
        held=counts.held,
        unknown=len(places) - counts.known,
        partitions=rows,
        left_out=len(places) - len(rows),
    )


def unheard_loads(
    datastream: Datastream, plan: Plan, assessments: Mapping[GroupName, Assessment], limit: int
) -> DatastreamLoads:
    """Return the response for the loads of a datastream whose leader did not respond.

    The response contains the partitions of tasks, and the stored result of the latest planning run.
    """
    owners, assessment = owners_of(datastream, plan), assessments.get(datastream.group)
    places = heaviest_first(owners, None)
    rows = [PartitionLoadAnswer.from_load(place, owners[place], None, assessment) for place in places[:limit]]
    return DatastreamLoads(
        name=datastream.name,
        cluster=datastream.source,
        leader=None,
        no_answer="",
        provider=None,
        planned_ms=assessment.planned_ms if assessment else None,
        bytes_per_second=None,
        known=None,
        held=None,
        unknown=None,
        partitions=rows,
        left_out=len(places) - len(rows),
    )


def own_cluster_loads(services: Services, plan: Plan) -> list[ClusterLoadsAnswer] | None:
    """Return the loads of every source that this instance knows as leader; None if it is not the leader."""
    sources = {
        datastream.group: _source_of(services, datastream) for datastream in services.status.datastreams
    }
    places: dict[LoadSource, set[TopicPartition]] = {source: set() for source in sources.values()}
    for task in plan.tasks:
        if task.group in sources:
            places[sources[task.group]] |= task.partitions
    found = []
    for source in sorted(places):
        loads = _loads_of(services, source)
        if loads is None:
            return None
        found.append(ClusterLoadsAnswer.from_loads(source, loads, places[source]))
    return found if services.status.is_leading else None


def _source_of(services: Services, datastream: Datastream) -> LoadSource:
    """Return the load source of a datastream: the one that the leader uses or, if the leader has not
    processed the datastream yet, the default of the service."""
    return services.status.loads.sources.get(datastream.group, LoadSource(datastream.source))


def _loads_of(services: Services, source: LoadSource) -> LeadersLoads | None:
    known = services.status.loads.known(source)
    if known is None:
        return None
    return LeadersLoads(known, services.status.loads.states.get(source), services.clock.now_ms())


def loads_document(services: Services, parameters: Mapping[str, str]) -> Any:
    """Return the loads of a datastream as JSON for another instance.

    The request contains the datastream and the maximum number of partitions.
    """
    try:
        name, limit = DatastreamName(parameters["datastream"]), int(parameters["limit"])
    except (KeyError, ValueError) as error:
        raise InvalidRequest(f"invalid query from another instance: {error}") from error
    datastream = services.control.get(name)
    found = own_loads(services, datastream, services.plan(), services.assessments(), limit)
    return None if found is None else found.model_dump(mode="json")


def cluster_loads_document(services: Services) -> Any:
    """Return the loads of all source clusters as JSON for another instance."""
    found = own_cluster_loads(services, services.plan())
    return None if found is None else [answer.model_dump(mode="json") for answer in found]


def loads_read(value: Any) -> DatastreamLoads | None:
    """Parse the loads of a datastream in the response of another instance; None if it is not the leader.

    Unknown fields, which a newer version may send, are ignored. Raises ValueError, InvalidRequest.
    """
    if value is None:
        return None
    known = known_fields(DatastreamLoads, value)
    rows = bounds.sequence("the partitions of the response", bounds.field(known, "partitions"), MOST_SHOWN)
    known |= {"partitions": [known_fields(PartitionLoadAnswer, row) for row in rows]}
    return DatastreamLoads.model_validate(known)


def cluster_loads_read(value: Any) -> list[ClusterLoadsAnswer] | None:
    """Parse the loads of source clusters that another instance reports, like `loads_read`. Raises ValueError,
    InvalidRequest."""
    if value is None:
        return None
    rows = bounds.sequence("the clusters of the response", value, _MOST_CLUSTERS)
    return [ClusterLoadsAnswer.model_validate(known_fields(ClusterLoadsAnswer, row)) for row in rows]


@router.get(
    "/datastreams/{name}/loads",
    tags=["datastreams"],
    response_model=DatastreamLoads,
    responses=problems(404, 409),
)
async def loads(
    name: NamePath,
    services: ServicesDep,
    reads: ReadsDep,
    fleet: FleetDep,
    response: Response,
    limit: Annotated[
        int, Query(ge=1, le=MOST_SHOWN, description="maximum number of partitions, heaviest first")
    ] = 10_000,
) -> Response:
    """Return the current load of each partition at the source, as known to the leader.

    Any instance responds. If the leader does not respond, `no_answer` contains the reason, and the numbers
    are null.
    """
    datastream = (await run_in_threadpool(reads.stored, DatastreamName(name))).datastream
    plan, live = await run_in_threadpool(reads.plan), await run_in_threadpool(reads.live)
    assessments = await run_in_threadpool(reads.assessments)
    reply = await ask_leader(
        services,
        fleet,
        live,
        FleetQuery(LOADS, {"datastream": name, "limit": str(limit)}),
        lambda: own_loads(services, datastream, plan, assessments, limit),
        loads_read,
    )
    if reply.value is not None:
        return await run_in_threadpool(large_response, reply.value, response)
    unreported = await run_in_threadpool(unheard_loads, datastream, plan, assessments, limit)
    answer = unreported.model_copy(update={"leader": reply.leader, "no_answer": reply.reason})
    return await run_in_threadpool(large_response, answer, response)


@router.get("/loads", tags=["status"], responses=problems(409))
async def all_loads(services: ServicesDep, reads: ReadsDep, fleet: FleetDep) -> LoadsAnswer:
    """Return the state of the loads of each source cluster, as known to the leader.

    Any instance responds. If the leader does not respond, `no_answer` contains the reason, and all fields
    except the cluster names are null.
    """
    live, plan = await run_in_threadpool(reads.live), await run_in_threadpool(reads.plan)
    reply = await ask_leader(
        *(services, fleet, live, FleetQuery(CLUSTER_LOADS)),
        lambda: own_cluster_loads(services, plan),
        cluster_loads_read,
    )
    if reply.value is not None:
        return LoadsAnswer(leader=reply.leader, no_answer="", clusters=reply.value)
    definitions = await run_in_threadpool(reads.definitions)
    sources = sorted({datastream.source for datastream in definitions.datastreams})
    unreported = [ClusterLoadsAnswer.unreported(source) for source in sources]
    return LoadsAnswer(leader=reply.leader, no_answer=reply.reason, clusters=unreported)
