"""Fetch sessions (KIP-227): what one broker remembers of what its clients read.

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
"""Topics go by name, from Fetch version 13 on by id."""
SessionPlace = tuple[TopicKey, int]


class Wanted(NamedTuple):
    """What a client wants of a partition."""

    leader_epoch: int
    offset: int
    last_epoch: int
    max_bytes: int


class Shown(NamedTuple):
    """What a client was told last; a partition of a session is in an answer when this changes."""

    high_watermark: int = -1
    log_start: int = -1


@dataclass
class Session:
    """`wanted` in the order in which partitions are served."""

    identity: int
    epoch: int
    by_id: bool
    wanted: dict[SessionPlace, Wanted]
    shown: dict[SessionPlace, Shown] = field(default_factory=dict)


class Opened(NamedTuple):
    """How a request is to be answered: an error, or what is read; `session` None answers in full."""

    error: int
    session: Session | None
    wanted: Mapping[SessionPlace, Wanted]
    is_incremental: bool


class SessionCache:
    """The sessions of one broker."""

    def __init__(self) -> None:
        self._sessions: dict[int, Session] = {}
        self._next = 1

    def forget_all(self) -> None:
        """As when the cache is full of younger sessions."""
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
        """Begin, continue or end a session, or none."""
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
        """Records of the partition were sent: the others come first next time."""
        session.wanted[place] = session.wanted.pop(place)
