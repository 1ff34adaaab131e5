"""State that this instance reports about itself, alone or as part of a response about all instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from api.schemas.lanes import LaneAnswer
from api.schemas.status import HealthAnswer
from api.services import Services
from mirror.model import bounds

LANES: Final = "lanes"
GROUP: Final = "group"
"""Parameter that limits a query for lanes to one group. Instances of former versions ignore it."""
HEALTH: Final = "health"
DIAGNOSTICS: Final = "diagnostics"
LOADS: Final = "loads"
CLUSTER_LOADS: Final = "cluster-loads"
MOVEMENT: Final = "movement"
_MOST_LANES: Final = 1_000_000


def own_lanes(services: Services, group: str | None = None) -> list[LaneAnswer]:
    """Return the lanes of this instance; the leader adds partitions that are not copied. `group`: only of
    this group."""
    status, now, now_ms = services.status, services.clock.monotonic(), services.clock.now_ms()
    wanted = [(key, one) for key, one in status.lanes.items() if group in (None, key.group)]
    idle = [one for one in status.uncopied if group in (None, one.what.group)]
    mine = [LaneAnswer.from_lane(key, state, now, now_ms) for key, state in sorted(wanted)]
    mine += [LaneAnswer.from_uncopied(one, now, now_ms) for one in idle]
    return [one.model_copy(update={"instance": status.name}) for one in mine]


def own_health(services: Services) -> HealthAnswer:
    """Return the health of this instance."""
    return HealthAnswer.from_status(services.status)


def lanes_read(value: Any) -> list[LaneAnswer]:
    """Parse the lanes of another instance. Unknown fields are dropped, because it may run a newer version.
    Raises ValueError, InvalidRequest."""
    lanes = bounds.sequence("its lanes", value, _MOST_LANES)
    return [LaneAnswer.model_validate(_known(LaneAnswer, lane)) for lane in lanes]


def health_read(value: Any) -> HealthAnswer:
    """Parse the health of another instance; drop unknown fields. Raises ValueError, InvalidRequest."""
    return HealthAnswer.model_validate(_known(HealthAnswer, value))


def element_read(value: Any) -> Mapping[str, Any]:
    """Parse a ServerComponentHealth. Raises InvalidRequest."""
    found = bounds.mapping("its diagnostics", value)
    for name in ("succeeded", "status", "errorMessages"):
        bounds.field(found, name)
    return found


def _known(model: type[LaneAnswer | HealthAnswer], value: Any) -> dict[str, Any]:
    found = bounds.mapping("the response", value)
    return {name: one for name, one in found.items() if name in model.model_fields}
