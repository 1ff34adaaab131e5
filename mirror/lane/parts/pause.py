"""Pause of a lane, its reason and its retries. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mirror.model.bounds import LARGEST_MS, LARGEST_OFFSET, integer
from mirror.model.datastreams.lanes import PauseCause
from mirror.model.reasons import reason_at


@dataclass(frozen=True, slots=True)
class ProbeRule:
    """Retry delay of a paused lane: doubles from `first_seconds` up to `longest_seconds`."""

    first_seconds: float = 1.0
    longest_seconds: float = 60.0

    def delay_ms(self, attempt: int) -> int:
        """Return the delay in ms before retry number `attempt` (first: 1)."""
        doubled = self.first_seconds * 2 ** min(attempt - 1, 30)
        return int(min(doubled, self.longest_seconds) * 1000)


@dataclass(frozen=True, slots=True)
class Pause:
    """Pause of a lane, and its reason.

    `delay_ms`: delay before the next retry, not stored. `lasting`: the lane is not retried until an operator
    or a new owner acts. `failed_ms`: time of the latest failure (epoch ms), not stored; 0 for a pause that
    was read from storage and is not yet reported. `cause`: cause of the pause, not stored. `offset`: source
    offset at which copying resumes, None if unknown.
    """

    reason: str
    since_ms: int
    attempt: int
    delay_ms: int
    lasting: bool = False
    failed_ms: int = 0
    cause: PauseCause = PauseCause.OTHER
    offset: int | None = None

    @property
    def text(self) -> str:
        """Reason with the offset."""
        return reason_at(self.reason, self.offset)

    def is_woken(self, since_ms: int) -> bool:
        """Return whether an outage of a cluster from `since_ms` until now may have caused the pause."""
        return not self.lasting and self.failed_ms >= since_ms

    def to_json(self) -> dict[str, Any]:
        """Return the pause in its stored form."""
        document: dict[str, Any] = {"reason": self.reason, "since_ms": self.since_ms, "attempt": self.attempt}
        place = {} if self.offset is None else {"offset": self.offset}
        return document | place | ({"lasting": True} if self.lasting else {})

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Pause:
        """Restore a pause from its stored form. The next retry is due immediately, as after a restart.

        Raises InvalidRequest for an invalid value, KeyError for a missing one.
        """
        since_ms = integer("since_ms", document["since_ms"], 0, LARGEST_MS)
        attempt = integer("attempt", document["attempt"], 0, LARGEST_OFFSET)
        offset = document.get("offset")
        if offset is not None:
            integer("offset", offset, -1, LARGEST_OFFSET)
        return cls(str(document["reason"]), since_ms, attempt, 0, offset=offset)


def pause_again(
    former: Pause | None,
    reason: str,
    now_ms: int,
    rule: ProbeRule,
    *,
    lasting: bool = False,
    counts: bool = True,
    cause: PauseCause = PauseCause.OTHER,
) -> Pause:
    """Return the pause of a lane after another failure.

    `former`: the pause whose retry has failed, if any. `counts`: False if the cluster was unavailable; such a
    failure neither increases later delays nor replaces an earlier reason.
    """
    attempt = (former.attempt if former else 0) + counts
    since = former.since_ms if former else now_ms
    if former and former.attempt and not (counts or lasting):
        reason, cause = former.reason, former.cause
    return Pause(reason, since, attempt, rule.delay_ms(max(attempt, 1)), lasting, now_ms, cause)
