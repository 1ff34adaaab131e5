"""How much the datastreams of one owner may be, and take, together. Pure.

It is asked of what is new or takes more than before; what is stored runs on. Two creations at the same
moment may both be let in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mirror.errors import FieldProblem, QuotaExceeded
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.metadata import OWNER

EVERY_OTHER: Final = "*"
"""The quota of owners that none is named for."""
_ADVICE: Final = "the operator decides, in [mirror.definitions.quotas] of the settings"


@dataclass(frozen=True, slots=True)
class OwnerQuota:
    """What the datastreams of an owner may be together; 0: any number."""

    datastreams: int = 0
    bytes_per_second: int = 0


def check_quota(
    quotas: Mapping[str, OwnerQuota], new: Datastream, former: Datastream | None, others: Sequence[Datastream]
) -> None:
    """Raises QuotaExceeded. `former`: what it has been, if it is not new."""
    owner = _owner(new)
    quota = quotas.get(owner) or quotas.get(EVERY_OTHER) or OwnerQuota()
    mine = [one for one in others if _owner(one) == owner and one.name != new.name]
    comes = former is None or _owner(former) != owner
    if comes and 0 < quota.datastreams <= len(mine):
        _refuse("/owner", f"{shown(owner)} has {len(mine)} datastreams, and may have {quota.datastreams}")
    if quota.bytes_per_second and (former is None or comes or _takes_more(former, new)):
        _check_rate(quota.bytes_per_second, new, mine, owner)


def _check_rate(most: int, new: Datastream, mine: Sequence[Datastream], owner: str) -> None:
    """One that says no rate would take what there is."""
    taken, rate = sum(map(_rate, mine)), _rate(new)
    if not rate or taken + rate > most:
        wanted = f"{rate} more are not possible" if rate else "it says not which part of them it takes"
        _refuse(
            "/quota/bytes_per_second",
            f"the datastreams of {shown(owner)} may take {most} bytes per second together, of which {taken}"
            f" are taken: {wanted}",
        )


def _takes_more(former: Datastream, new: Datastream) -> bool:
    before, after = _rate(former), _rate(new)
    return before != after and (after == 0 or 0 < before < after)


def _rate(one: Datastream) -> int:
    return one.policy.bytes_per_second


def _owner(one: Datastream) -> str:
    return one.metadata.get(OWNER, "")


def _refuse(pointer: str, detail: str) -> None:
    raise QuotaExceeded(detail, fields=[FieldProblem(pointer, detail)], advice=_ADVICE)
