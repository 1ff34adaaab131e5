"""When a lane pauses itself, and when it tries again: exponential backoff that outlives restarts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ProbeRule:
    """The wait doubles from `first_seconds` with every attempt, up to `longest_seconds`."""

    first_seconds: float = 1.0
    longest_seconds: float = 60.0

    def delay_ms(self, attempt: int) -> int:
        """Wait before probe number `attempt` (from 1)."""
        doubled = self.first_seconds * 2 ** min(attempt - 1, 30)
        return int(min(doubled, self.longest_seconds) * 1000)


@dataclass(frozen=True, slots=True)
class Pause:
    """Why a lane waits. `lasting`: no probe; a person or a new owner has to act. `failed_ms`: of the latest
    failure, which is not stored. Times in epoch ms."""

    reason: str
    since_ms: int
    attempt: int
    probe_at_ms: int
    lasting: bool = False
    failed_ms: int = 0

    def is_woken(self, since_ms: int) -> bool:
        """Whether to try again at once after an outage that began then: what has failed during the outage may
        have failed because of it, whatever the answer was."""
        return not self.lasting and self.failed_ms >= since_ms

    def is_due(self, now_ms: int) -> bool:
        """Whether it is time to try again."""
        return not self.lasting and now_ms >= self.probe_at_ms

    def to_json(self) -> dict[str, Any]:
        """As stored in a progress record."""
        document: dict[str, Any] = {"reason": self.reason, "since_ms": self.since_ms, "attempt": self.attempt}
        return document | {"lasting": True} if self.lasting else document

    @classmethod
    def from_json(cls, document: Mapping[str, Any], now_ms: int) -> Pause:
        """Read it back; a restart is a good moment to probe."""
        return cls(str(document["reason"]), int(document["since_ms"]), int(document["attempt"]), now_ms)


def pause_again(
    former: Pause | None,
    reason: str,
    now_ms: int,
    rule: ProbeRule,
    *,
    lasting: bool = False,
    counts: bool = True,
) -> Pause:
    """The pause after a failure; `former` is the one whose probe has just failed, if there was one. Failures
    that do not count, those of a cluster that is away, make no later wait longer."""
    attempt = (former.attempt if former else 0) + counts
    since = former.since_ms if former else now_ms
    return Pause(reason, since, attempt, now_ms + rule.delay_ms(max(attempt, 1)), lasting, now_ms)
