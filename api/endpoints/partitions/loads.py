"""/v1/loads and /v1/datastreams/{name}/loads"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.concurrency import run_in_threadpool

from api.datastreams.answers import NamePath
from api.dependencies import FleetDep, ReadsDep, ServicesDep
from api.fleet.answers import CLUSTER_LOADS, LOADS
from api.fleet.leader import ask_leader
from api.fleet.questions import FleetQuery
from api.loads.leaders import (
    MOST_SHOWN,
    cluster_loads_read,
    loads_read,
    own_cluster_loads,
    own_loads,
    unheard_loads,
)
from api.loads.schemas import ClusterLoadsAnswer, DatastreamLoads, LoadsAnswer
from api.schemas.problems import problems
from mirror.model.identifiers import DatastreamName

router = APIRouter(prefix="/v1")


@router.get("/datastreams/{name}/loads", tags=["datastreams"], responses=problems(404, 409))
async def loads(
    name: NamePath,
    services: ServicesDep,
    reads: ReadsDep,
    fleet: FleetDep,
    limit: Annotated[
        int, Query(ge=1, le=MOST_SHOWN, description="maximum number of partitions, heaviest first")
    ] = 10_000,
) -> DatastreamLoads:
    """Return the load of each partition at the source, as known to the leader. Any instance responds; if the
    leader does not, `no_answer` gives the reason and the numbers are null."""
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
        return reply.value
    unreported = await run_in_threadpool(unheard_loads, datastream, plan, assessments, limit)
    return unreported.model_copy(update={"leader": reply.leader, "no_answer": reply.reason})


@router.get("/loads", tags=["status"], responses=problems(409))
async def all_loads(services: ServicesDep, reads: ReadsDep, fleet: FleetDep) -> LoadsAnswer:
    """Return the state of loads of each source cluster, as known to the leader. Any instance responds; if the
    leader does not, `no_answer` gives the reason and all fields but the cluster names are null."""
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
