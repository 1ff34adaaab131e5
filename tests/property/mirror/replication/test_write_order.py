"""The order of requests side by side: a model of a broker, with every interleaving that it allows."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.replication.channels.write_order import MOST_CONNECTIONS, WriteOrder, connections_each
from tests.examples import examples


class Model:
    """A broker that stores whole requests in any order of arrival, and a client that resends what is lost."""

    def __init__(self) -> None:
        self.order: WriteOrder[list[int]] = WriteOrder()
        self.following = 0
        self.again: list[int] = []
        self.at_broker: list[list[int]] = []
        """Whole requests that were not handled yet."""
        self.stored: list[int] = []
        self.answers: list[list[int]] = []
        self.in_doubt = 0

    def begin(self) -> None:
        if self.order.is_broken:
            return
        if self.again:
            number = self.again.pop(0)
        else:
            number, self.following = self.following, self.following + 1
        self.order.begin([number])
        self.complete()

    def complete(self) -> None:
        request = self.order.complete_next()
        if request is not None:
            self.at_broker.append(request)
            assert len(self.at_broker) + len(self.answers) == 1, "two whole requests at the broker"

    def handle(self, choice: int) -> None:
        if self.at_broker:
            request = self.at_broker.pop(choice % len(self.at_broker))
            if request[0] == len(self.stored):  # otherwise a duplicate, which brokers answer like the first
                self.stored.append(request[0])
            assert request[0] < len(self.stored), "out of order"
            self.answers.append(request)

    def answer(self) -> None:
        if self.answers:
            self.order.answered(self.answers.pop())
            self.report(self.order.take_lost())
            self.complete()

    def lose(self, choice: int) -> None:
        """Break the connection of one request."""
        if self.order.requests:
            self.fail(self.order.requests[choice % len(self.order.requests)])
            self.report(self.order.take_lost())

    def fail(self, request: list[int]) -> None:
        if request in self.answers:
            self.answers.remove(request)
        for other in self.order.lose(request):
            if other is not request:
                self.order.lose(other)

    def report(self, lost: list[tuple[list[int], bool]]) -> None:
        assert [maybe for _, maybe in lost[1:]] == [False] * len(lost[1:]), "only the first may be stored"
        for request, maybe in lost:
            assert maybe or request[0] >= len(self.stored), "stored, but not in doubt"
            if maybe and request in self.at_broker:
                self.handle(self.at_broker.index(request))  # the broker handles it before a new connection
                self.answers.clear()
        self.again = [request[0] for request, _ in lost] + self.again


@given(
    st.lists(
        st.tuples(st.sampled_from(["begin", "handle", "answer", "lose"]), st.integers(0, 20)), max_size=60
    )
)
@settings(max_examples=examples(500))
def test_requests_are_stored_once_and_in_order(steps: list[tuple[str, int]]) -> None:
    model = Model()
    for step, choice in steps:
        if step == "begin":
            model.begin()
        elif step == "answer":
            model.answer()
        elif step == "handle":
            model.handle(choice)
        else:
            model.lose(choice)
    while model.order.requests or model.again:
        if model.again and not model.order.is_broken:
            model.begin()
        model.handle(0)
        model.answer()
    assert model.stored == list(range(model.following))


@settings(max_examples=examples(100))
@given(st.integers(1, 512), st.floats(0.01, 10_000.0))
def test_the_memory_has_room_for_a_request_more_than_connections(most: int, windows: float) -> None:
    def needed(connections: int) -> float:
        return (connections + 1) * 1.25 * connections

    connections = connections_each(most, windows)
    assert 1 <= connections <= min(most, MOST_CONNECTIONS)
    assert connections == 1 or needed(connections) <= windows * 1.001
    assert connections == min(most, MOST_CONNECTIONS) or needed(connections + 1) >= windows * 0.999
