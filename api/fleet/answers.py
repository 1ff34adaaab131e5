"""What this instance says of itself, when it is asked for that or as a part of the answer of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from api.brooklin.diagnostics import status_element
from api.loads.heat import HEAT, own_heat
from api.loads.leaders import told_cluster_loads, told_loads
from api.movement.topics import own_topics, topics_told
from api.overview.sums import SUMS, own_sums, sums_told
from api.previews.answers import PREVIEW, PROPOSAL, told_preview, told_proposal
from api.schemas.lanes import LaneAnswer
from api.schemas.status import HealthAnswer
from api.services import Services
from mirror.errors import InvalidRequest
from mirror.model import bounds

LANES: Final = "lanes"
GROUP: Final = "group"
"""What a question about lanes may be limited to. Instances of former versions say all of them."""
HEALTH: Final = "health"
DIAGNOSTICS: Final = "diagnostics"
LOADS: Final = "loads"
CLUSTER_LOADS: Final = "cluster-loads"
MOVEMENT: Final = "movement"
_MOST_LANES: Final = 1_000_000
Subject = Callable[[Services, Mapping[str, str]], Any]


def own_lanes(services: Services, group: str | None = None) -> list[LaneAnswer]:
    """The lanes of this instance; of the leader also the partitions that nobody copies. `group`: only those
    of this one."""
    status, now, now_ms = services.status, services.clock.monotonic(), services.clock.now_ms()
    wanted = [(key, one) for key, one in status.lanes.items() if group in (None, key.group)]
    idle = [one for one in status.uncopied if group in (None, one.what.group)]
    mine = [LaneAnswer.from_lane(key, state, now, now_ms) for key, state in sorted(wanted)]
    mine += [LaneAnswer.from_uncopied(one, now, now_ms) for one in idle]
    return [one.model_copy(update={"instance": status.name}) for one in mine]


def own_health(services: Services) -> HealthAnswer:
    """How this instance is."""
    return HealthAnswer.from_status(services.status)


def lanes_read(value: Any) -> list[LaneAnswer]:
    """Those that another instance has said. Fields that are not known are left out: it may be of a newer
    version. Raises ValueError, InvalidRequest."""
    lanes = bounds.sequence("its lanes", value, _MOST_LANES)
    return [LaneAnswer.model_validate(_known(LaneAnswer, one)) for one in lanes]


def health_read(value: Any) -> HealthAnswer:
    """Likewise. Raises ValueError, InvalidRequest."""
    return HealthAnswer.model_validate(_known(HealthAnswer, value))


def element_read(value: Any) -> Mapping[str, Any]:
    """A ServerComponentHealth. Raises InvalidRequest."""
    found = bounds.mapping("its diagnostics", value)
    for name in ("succeeded", "status", "errorMessages"):
        bounds.field(found, name)
    return found


def _known(model: type[LaneAnswer | HealthAnswer], value: Any) -> dict[str, Any]:
    found = bounds.mapping("what it says", value)
    return {name: one for name, one in found.items() if name in model.model_fields}


def _diagnostics(services: Services, asked: Mapping[str, str]) -> dict[str, Any]:
    try:
        return status_element(asked["scope"], asked["content"], services)
    except KeyError as error:
        raise InvalidRequest(f"{error.args[0]} is missing") from error


SUBJECTS: Final[Mapping[str, Subject]] = {
    LANES: lambda services, asked: [
        one.model_dump(mode="json") for one in own_lanes(services, asked.get(GROUP))
    ],
    HEALTH: lambda services, _: own_health(services).model_dump(mode="json"),
    DIAGNOSTICS: _diagnostics,
    LOADS: told_loads,
    CLUSTER_LOADS: lambda services, _: told_cluster_loads(services),
    HEAT: lambda services, _: own_heat(services),
    MOVEMENT: lambda services, _: topics_told(own_topics(services)),
    PREVIEW: told_preview,
    PROPOSAL: told_proposal,
    SUMS: lambda services, _: sums_told(own_sums(services)),
}
"""What another instance may ask."""
PLANS: Final = frozenset({PREVIEW, PROPOSAL})
PLAN_SECONDS: Final = 30.0
"""How long an answer about a plan is waited for: it takes longer than what an instance says of itself."""
SLOW: Final = PLANS | {DIAGNOSTICS}
"""Subjects that take as long as a slow call."""
