"""Fetch sessions (KIP-227): the state that one broker keeps of its clients' fetches.

Source: Apache Kafka 4.1, `FetchSession`, `FetchManager`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

NOT_FOUND: Final = 70
WRONG_EPOCH: Final = 71
TOPIC_IDS_CHANGED: Final = 106
_FULL: Final = 0
_FINAL: Final = -1
_LAST_EPOCH: Final = 2**31 - 1

TopicKey = str | UUID
"""Topic name, or topic id since Fetch version 13."""
SessionPlace = tuple[TopicKey, int]


class Wanted(NamedTuple):
    """Requested position in a partition."""

    leader_epoch: int
    offset: int
    last_epoch: int
    max_bytes: int


class Shown(NamedTuple):
    """Offsets last sent to the client; a session response includes a partition when these change."""

    high_watermark: int = -1
    log_start: int = -1


@dataclass
class Session:
    """Fetch session. `wanted` is in the order in which partitions are served."""

    identity: int
    epoch: int
    by_id: bool
    wanted: dict[SessionPlace, Wanted]
    shown: dict[SessionPlace, Shown] = field(default_factory=dict)


class Opened(NamedTuple):
    """Outcome of opening a session: an error, or the partitions to read.

    `session` None requests a full response.
    """

    error: int
    session: Session | None
    wanted: Mapping[SessionPlace, Wanted]
    is_incremental: bool


class SessionCache:
    """Fetch sessions of one broker."""

    def __init__(self) -> None:
        self._sessions: dict[int, Session] = {}
        self._next = 1

    def forget_all(self) -> None:
        """Evict all sessions, as if the cache were full of newer ones."""
        self._sessions.clear()

    def open(
        self,
        identity: int,
        epoch: int,
        wanted: dict[SessionPlace, Wanted],
        forgotten: list[SessionPlace],
        *,
        by_id: bool,
    ) -> Opened:
        """Create, continue or close a session, or fetch without one."""
        if epoch in (_FULL, _FINAL):
            self._sessions.pop(identity, None)
            if epoch == _FINAL:
                return Opened(0, None, wanted, False)
            session = Session(self._next, 1, by_id, wanted)
            self._sessions[self._next] = session
            self._next += 1
            return Opened(0, session, dict(wanted), False)
        known = self._sessions.get(identity)
        if known is None:
            return Opened(NOT_FOUND, None, {}, True)
        if known.epoch != epoch:
            return Opened(WRONG_EPOCH, None, {}, True)
        if known.by_id != by_id:
            return Opened(TOPIC_IDS_CHANGED, None, {}, True)
        known.epoch = 1 if epoch == _LAST_EPOCH else epoch + 1
        known.wanted.update(wanted)
        for place in forgotten:
            known.wanted.pop(place, None)
            known.shown.pop(place, None)
        return Opened(0, known, dict(known.wanted), True)

    def served(self, session: Session, place: SessionPlace) -> None:
        """Move a served partition to the end of the order."""
        session.wanted[place] = session.wanted.pop(place)
