"""An incremental fetch session (KIP-227): the broker remembers what we read, we name only changes.

Without it every request would list every partition: 20,000 idle ones make 800 KB a request. `put`, `remove`
and `forget` may be called at any time; `build` is called when a request can go, `answered` with its answer.

The broker answers nothing of a partition whose high watermark and log start it has said before. So a new
reader of a partition that somebody else has just read would never hear of them, unless the broker forgets the
partition first. It takes what a request forgets after what the request names (Kafka 4.1,
`FetchSession.update`), which is why the partition is named in the request after that.
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
    {
        Code.FETCH_SESSION_ID_NOT_FOUND,
        Code.INVALID_FETCH_SESSION_EPOCH,
        Code.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class SessionPart(NamedTuple):
    """What goes into a request."""

    session_id: int
    epoch: int
    topics: Mapping[TopicKey, list[tuple[int, FetchPosition]]]
    forgotten: Mapping[TopicKey, list[int]]


class FetchSession:
    """What the broker of one connection knows of our partitions."""

    def __init__(self, *, incremental: bool) -> None:
        self._incremental = incremental
        self._id = _NO_SESSION
        self._epoch = 0
        self._known: dict[Place, FetchPosition] = {}
        self._changed: dict[Place, FetchPosition] = {}
        self._removed: set[Place] = set()
        self._left: set[Place] = set()
        """Of those that are removed: what the broker has said of them is not known any more."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to read."""
        return not self._changed and len(self._known) == len(self._removed)

    @property
    def is_behind(self) -> bool:
        """Whether the last request that was built does not name all that is to be read."""
        return bool(self._changed)

    def put(self, place: Place, position: FetchPosition) -> None:
        """Read the partition from there."""
        if place in self._left:
            self._changed[place] = position
            return
        self._removed.discard(place)
        if self._known.get(place) != position:
            self._changed[place] = position
        else:
            self._changed.pop(place, None)

    def remove(self, place: Place) -> None:
        """Read the partition no more."""
        self._changed.pop(place, None)
        if place in self._known:
            self._removed.add(place)

    def forget(self, place: Place) -> None:
        """Read the partition no more; who puts it back knows nothing of what the broker has said of it."""
        self.remove(place)
        if place in self._removed:
            self._left.add(place)

    def asked(self, place: Place) -> FetchPosition | None:
        """What the last request asks of the partition, by itself or by what the broker remembers."""
        return self._known.get(place)

    def build(self) -> SessionPart:
        """The next request's part; everything is named in the first one of a session."""
        for place in self._removed:
            del self._known[place]
        removed, self._removed = self._removed, set()
        changed, self._changed = self._changed, {}
        if self._id != _NO_SESSION:
            self._changed = {place: changed.pop(place) for place in self._left if place in changed}
        self._left.clear()
        for place in changed:
            self._known.pop(place, None)  # to the end: the broker serves in the order of naming
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
        """Take the answer to the last request; after an error everything is named again."""
        if error or session_id == _NO_SESSION:
            self.reset()
        elif session_id != self._id:
            self._id, self._epoch = session_id, 1
        else:
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def reset(self) -> None:
        """The broker has forgotten everything."""
        self._id, self._epoch = _NO_SESSION, 0


def _grouped(positions: Mapping[Place, FetchPosition]) -> dict[TopicKey, list[tuple[int, FetchPosition]]]:
    topics: dict[TopicKey, list[tuple[int, FetchPosition]]] = {}
    for (topic, number), position in positions.items():
        topics.setdefault(topic, []).append((number, position))
    return topics
