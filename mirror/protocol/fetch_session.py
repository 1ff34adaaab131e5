"""Incremental fetch sessions (KIP-227): the broker caches the client's positions, and requests contain only
changes.

Without a session, every request lists every partition, which takes 800 KB for 20,000 idle partitions. `put`,
`remove` and `forget` may be called at any time; call `build` to send a request, and `answered` on its
response.

A broker omits a partition from responses while its high watermark and log start are unchanged. A lane that
takes over a partition would therefore never receive them, unless the broker first drops the partition from
the session. The broker adds the named partitions of a request before it removes the forgotten partitions
(Kafka 4.1, `FetchSession.update`), so the partition is named again only in the next request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from mirror.protocol.codes import Code
from mirror.protocol.fetch import FetchPosition
from mirror.protocol.frame import TopicKey

Place = tuple[TopicKey, int]
"""Topic and partition number."""

_NO_SESSION: Final = 0
_FINAL_EPOCH: Final = -1
_LAST_EPOCH: Final = 2**31 - 1
LOST: Final = frozenset(
    {Code.FETCH_SESSION_ID_NOT_FOUND, Code.INVALID_FETCH_SESSION_EPOCH, Code.FETCH_SESSION_TOPIC_ID_ERROR}
)


class SessionPart(NamedTuple):
    """Session fields of a Fetch request."""

    session_id: int
    epoch: int
    topics: Mapping[TopicKey, list[tuple[int, FetchPosition]]]
    forgotten: Mapping[TopicKey, list[int]]


class FetchSession:
    """Partitions in the incremental fetch session of one connection, as the broker has cached them."""

    def __init__(self, *, incremental: bool) -> None:
        self._incremental = incremental
        self._id = _NO_SESSION
        self._epoch = 0
        self._known: dict[Place, FetchPosition] = {}
        self._changed: dict[Place, FetchPosition] = {}
        self._removed: set[Place] = set()
        self._left: set[Place] = set()
        """Removed partitions whose high watermark and log start must be sent again."""

    @property
    def is_empty(self) -> bool:
        """True if the session has no partition to read."""
        return not self._changed and len(self._known) == len(self._removed)

    @property
    def is_behind(self) -> bool:
        """True if the last Fetch request does not yet reflect the current set of partitions and positions."""
        return bool(self._changed)

    def put(self, place: Place, position: FetchPosition) -> None:
        """Add the partition to the session, or change its position."""
        if place in self._left:
            self._changed[place] = position
            return
        self._removed.discard(place)
        if self._known.get(place) != position:
            self._changed[place] = position
        else:
            self._changed.pop(place, None)

    def remove(self, place: Place) -> None:
        """Remove the partition from the fetch session."""
        self._changed.pop(place, None)
        if place in self._known:
            self._removed.add(place)

    def forget(self, place: Place) -> None:
        """Remove the partition. When it is added again, the broker sends its state again."""
        self.remove(place)
        if place in self._removed:
            self._left.add(place)

    def requested_position(self, place: Place) -> FetchPosition | None:
        """Return the partition's position in the last request, named or cached; None if not included."""
        return self._known.get(place)

    def build(self) -> SessionPart:
        """Return the session fields of the next Fetch request. The first request names every partition."""
        for place in self._removed:
            del self._known[place]
        removed, self._removed = self._removed, set()
        changed, self._changed = self._changed, {}
        if self._id != _NO_SESSION:
            self._changed = {place: changed.pop(place) for place in self._left if place in changed}
        self._left.clear()
        for place in changed:
            self._known.pop(place, None)  # move to the end: the broker serves partitions in the order named
        self._known.update(changed)
        if not self._incremental:
            return SessionPart(_NO_SESSION, _FINAL_EPOCH, _grouped(self._known), {})
        if self._id == _NO_SESSION:
            return SessionPart(_NO_SESSION, 0, _grouped(self._known), {})
        forgotten: dict[TopicKey, list[int]] = {}
        for topic, number in removed:
            forgotten.setdefault(topic, []).append(number)
        return SessionPart(self._id, self._epoch, _grouped(changed), forgotten)

    def answered(self, error: int, session_id: int) -> None:
        """Update the session from the response to the last Fetch request.

        After an error, the next request names every partition.
        """
        if error or session_id == _NO_SESSION:
            self.reset()
        elif session_id != self._id:
            self._id, self._epoch = session_id, 1
        else:
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def reset(self) -> None:
        """Start a new fetch session with the next request."""
        self._id, self._epoch = _NO_SESSION, 0


def _grouped(positions: Mapping[Place, FetchPosition]) -> dict[TopicKey, list[tuple[int, FetchPosition]]]:
    topics: dict[TopicKey, list[tuple[int, FetchPosition]]] = {}
    for (topic, number), position in positions.items():
        topics.setdefault(topic, []).append((number, position))
    return topics
