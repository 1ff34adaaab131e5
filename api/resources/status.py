"""/v1/health, /v1/ready, /v1/instances, /v1/caller and /metrics: state of the instances and of the caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, ClassVar, Final, Literal

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Query, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from api.access.gate import principal_of
from api.access.rights import Action, reason_against
from api.fleet.all_instances import AllInstances
from api.fleet.dependencies import FleetDep, ReadsDep, ServicesDep
from api.fleet.questions import FleetQuery, InstanceResponse, known_fields
from api.http.problems import AnswerModel, RecordAnswer
from api.services import ProcessReport, Services
from mirror.coordination.stores.membership import LiveInstance
from mirror.instance.health import HealthCondition
from mirror.instance.snapshot import InstanceSnapshot
from mirror.model.identifiers import InstanceName

router = APIRouter(tags=["status"])


async def health_by_instance(
    instances: AllInstances,
) -> Mapping[InstanceName, InstanceResponse[HealthAnswer]]:
    """Return the health of each instance."""
    return await instances.ask(FleetQuery(HEALTH), lambda: own_health(instances.services), health_read)


def state_answer(reply: InstanceResponse[Any]) -> InstanceStateAnswer:
    """Return whether and how an instance responded to a query."""
    return InstanceStateAnswer(name=reply.instance, state=reply.state.value, reason=reply.reason)


class ConditionAnswer(AnswerModel):
    """Health of one part of an instance, such as its session."""

    is_well: bool
    sentence: str


class ClockSkewAnswer(AnswerModel):
    """Largest clock skew between the instance and a broker of a cluster."""

    ahead_seconds: float
    """Seconds by which the broker is ahead; negative: behind."""
    bound_seconds: float
    """Maximum error of `ahead_seconds`, in either direction."""


class ReadyAnswer(AnswerModel):
    """Readiness of an instance."""

    instance: str
    """Name of the instance."""
    is_ready: bool
    """True if every part is healthy."""
    parts: dict[str, ConditionAnswer]
    """Condition of the coordination session, threads, worker processes, token file and certificate."""

    @classmethod
    def from_conditions(cls, name: str, conditions: Mapping[str, HealthCondition]) -> ReadyAnswer:
        """Return the readiness conditions of this process as a response."""
        parts = {
            part: ConditionAnswer(is_well=condition.is_well, sentence=condition.sentence)
            for part, condition in conditions.items()
        }
        return cls(instance=name, is_ready=all(part.is_well for part in parts.values()), parts=parts)


class HealthAnswer(AnswerModel):
    """Health of an instance."""

    instance: str
    """Name of the instance."""
    is_well: bool
    """True if every part is healthy."""
    is_leading: bool
    epoch: int
    """Epoch of the plan that the instance follows."""
    data_plane: str | None
    """Data plane of the workers: compiled, interpreted, or both; null until a worker is ready."""
    parts: dict[str, ConditionAnswer]
    clocks: dict[str, ClockSkewAnswer]
    """Clock skew by cluster, only for clusters in which the instance writes to a topic with `LogAppendTime`;
    the skew of other clusters is unknown."""
    processes: int | None = None
    """Number of processes: the control process and the worker processes; null if the operating system does
    not report it."""
    memory_bytes: int | None = None
    """Resident memory of all processes."""
    cpu_cores: float | None = None
    """Average cores used by all processes in the last seconds; null until the second measurement."""
    strategies: list[str] | None = None
    """Available placement strategies, including plug-ins; null if the instance's version does not report
    them."""
    load_providers: list[str] | None = None
    """Available load providers, including plug-ins; null if the instance's version does not report them."""

    @classmethod
    def from_snapshot(cls, status: InstanceSnapshot, process: ProcessReport) -> HealthAnswer:
        """Return the health of an instance as a response."""
        parts = {
            part: ConditionAnswer(is_well=condition.is_well, sentence=condition.sentence)
            for part, condition in sorted(status.conditions.items())
        }
        return cls(
            instance=status.name,
            is_well=all(part.is_well for part in parts.values()),
            is_leading=status.is_leading,
            epoch=status.epoch,
            data_plane=", ".join(sorted(status.data_planes)) or None,
            parts=parts,
            clocks={
                cluster: ClockSkewAnswer(
                    ahead_seconds=skew.ahead_ms / 1000, bound_seconds=skew.bound_ms / 1000
                )
                for cluster, skew in sorted(status.clock_skews.items())
            },
            **process.usage._asdict(),
            strategies=list(process.strategies),
            load_providers=list(process.load_providers),
        )


class InstanceStateAnswer(AnswerModel):
    """Result of querying an instance: whether it responded, and the reason if not."""

    name: str
    state: Literal["answered", "unreachable", "timed out"]
    reason: str
    """Reason for a missing response; empty otherwise."""


@dataclass(frozen=True, kw_only=True)
class InstanceAnswer(LiveInstance, RecordAnswer):
    """Instance of the service: its registration and its current health."""

    DESCRIPTIONS: ClassVar = {
        "sequence": "Number in the order of registration; the instance with the lowest number is the leader.",
        "rest_address": "Address of the instance's REST interface, as `host:port`.",
        "weight": "Share of the work relative to other instances.",
        "incarnation": "Id of the process; a restarted instance with the same name has a different id.",
        "is_leaving": "True if the instance is leaving and accepts no more tasks.",
        "reason": "Reason for a missing response; empty otherwise.",
        "health": "Health of the instance; null if it did not respond.",
    }

    state: Literal["answered", "unreachable", "timed out"]
    reason: str
    health: HealthAnswer | None

    @classmethod
    def from_live(
        cls, instance: LiveInstance, state: InstanceStateAnswer, health: HealthAnswer | None
    ) -> InstanceAnswer:
        """Return an instance of the service as a response."""
        return cls.of(instance, state=state.state, reason=state.reason, health=health)


class CallerAnswer(AnswerModel):
    """Principal that sent the request."""

    name: str
    role: str
    """viewer, owner, operator or admin."""
    owners: list[str]
    """For the role owner: owners whose datastreams the principal may change."""
    refusal: str
    """Reason why the principal may not change datastreams of the given owner or, without an owner, of any
    owner. Empty if the principal may change them."""


@router.get("/v1/caller")
async def caller(
    request: Request,
    owner: Annotated[str | None, Query(description="owner of the datastreams to change")] = None,
) -> CallerAnswer:
    """Return the principal of this request, and whether it may change datastreams."""
    principal = principal_of(request)
    owners = frozenset({owner}) if owner else None
    return CallerAnswer(
        name=principal.name,
        role=principal.role.value,
        owners=sorted(principal.owners),
        refusal=reason_against(principal, Action.CHANGE, owners),
    )


@router.get("/v1/health", responses={503: {"model": HealthAnswer, "description": "A part is unhealthy."}})
async def health(services: ServicesDep, response: Response) -> HealthAnswer:
    """Return 200 if every part is healthy, otherwise 503.

    The response contains the condition of each part. Makes no remote calls.
    """
    found = own_health(services)
    response.status_code = HTTPStatus.OK if found.is_well else HTTPStatus.SERVICE_UNAVAILABLE
    return found


@router.get(
    "/v1/ready", responses={503: {"model": ReadyAnswer, "description": "The instance cannot serve requests."}}
)
async def ready(services: ServicesDep, response: Response) -> ReadyAnswer:
    """Return 200 if this process can serve requests, otherwise 503.

    For readiness probes: problems of datastreams do not count. Makes no remote calls.
    """
    found = ReadyAnswer.from_conditions(services.status.name, services.readiness())
    response.status_code = HTTPStatus.OK if found.is_ready else HTTPStatus.SERVICE_UNAVAILABLE
    return found


@router.get("/v1/instances")
async def instances(services: ServicesDep, reads: ReadsDep, fleet: FleetDep) -> list[InstanceAnswer]:
    """List live instances with their current health, the leader first.

    Never waits for other calls.
    """
    live = await to_thread.run_sync(reads.live, limiter=CapacityLimiter(1))
    replies = await health_by_instance(AllInstances(services, fleet, live))
    return [
        InstanceAnswer.from_live(instance, state_answer(replies[instance.name]), replies[instance.name].value)
        for instance in live
    ]


@router.get("/metrics", include_in_schema=False)
async def metrics(request: Request) -> Response:
    """Return metrics for Prometheus.

    Never waits for other calls.
    """
    registry = request.app.state.registry
    text = await to_thread.run_sync(generate_latest, registry, limiter=CapacityLimiter(1))
    return Response(text, media_type=CONTENT_TYPE_LATEST)


HEALTH: Final = "health"


def own_health(services: Services) -> HealthAnswer:
    """Return the health of this instance."""
    return HealthAnswer.from_snapshot(services.status, services.process_report())


def health_read(value: Any) -> HealthAnswer:
    """Parse the health of another instance; drop unknown fields. Raises ValueError, InvalidRequest."""
    return HealthAnswer.model_validate(known_fields(HealthAnswer, value))
