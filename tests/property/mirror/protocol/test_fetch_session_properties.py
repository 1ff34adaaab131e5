"""A fetch session with a broker that tracks it independently: every reader gets its partition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.protocol.fetch import FetchPosition
from mirror.protocol.fetch_session import FetchSession, Place
from tests.fakes.broker.sessions import NOT_FOUND, SessionCache, SessionPlace, Shown, Wanted

PLACES: list[Place] = [(b"a", 0), (b"a", 1), (b"b", 0)]
STEPS = st.tuples(
    st.sampled_from(["attach", "detach", "full", "room", "ask", "ask", "lose"]), st.sampled_from(PLACES)
)


def shape(place: Place) -> SessionPlace:
    topic = place[0]
    assert isinstance(topic, bytes)
    return topic.decode(), place[1]


class Reading:
    """Readers at the ends of their partitions, for which the broker has only high watermarks to report."""

    def __init__(self) -> None:
        self.session = FetchSession(incremental=True)
        self.broker = SessionCache()
        self.readers: dict[Place, bool] = {}
        """Whether each reader has room."""
        self.has_heard: set[Place] = set()

    def step(self, what: str, place: Place) -> None:
        if what == "attach" and place not in self.readers:
            self.readers[place] = True
            self.session.put(place, FetchPosition(-1, 10, -1, 1000))
        elif what == "detach" and self.readers.pop(place, None) is not None:
            self.has_heard.discard(place)
            self.session.forget(place)
        elif what in ("full", "room") and place in self.readers:
            self.readers[place] = what == "room"
            if what == "room":
                self.session.put(place, FetchPosition(-1, 10, -1, 1000))
            else:
                self.session.remove(place)
        elif what == "lose":
            self.broker.forget_all()
        elif what == "ask" and not self.session.is_empty:
            self.ask()

    def ask(self) -> None:
        part = self.session.build()
        named = {shape((topic, number)) for topic, some in part.topics.items() for number, _ in some}
        forgotten = [shape((topic, number)) for topic, some in part.forgotten.items() for number in some]
        wanted = {one: Wanted(-1, 10, -1, 1000) for one in named}
        opened = self.broker.open(part.session_id, part.epoch, wanted, forgotten, by_id=False)
        assert opened.error in (0, NOT_FOUND)
        self.session.answered(opened.error, opened.session.identity if opened.session else 0)
        if opened.session is None:
            return
        for place in PLACES:
            at = shape(place)
            if at not in opened.wanted or (opened.is_incremental and at in opened.session.shown):
                continue
            opened.session.shown[at] = Shown(10, 0)
            if place in self.readers and self.session.requested_position(place) is not None:
                self.has_heard.add(place)
        known = {place for place in PLACES if self.session.requested_position(place) is not None}
        assert set(opened.session.wanted) == {shape(place) for place in known}
        assert known <= self.has_heard


@given(st.lists(STEPS, min_size=20, max_size=60))
def test_each_reader_with_room_hears_of_its_partition(steps: list[tuple[str, Place]]) -> None:
    reading = Reading()
    for what, place in steps:
        reading.step(what, place)
    for _ in range(3):
        if not reading.session.is_empty:
            reading.ask()
    assert not reading.session.is_behind
    with_room = {place for place, has_room in reading.readers.items() if has_room}
    assert with_room <= reading.has_heard
    known = {place for place in PLACES if reading.session.requested_position(place) is not None}
    assert known == with_room or not with_room, "a reader without room is in the session"
