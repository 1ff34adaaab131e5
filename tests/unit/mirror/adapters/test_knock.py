"""A cluster that does not answer costs no client of librdkafka, and at most one thread that waits."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from confluent_kafka.admin import AdminClient

from mirror.adapters.librdkafka.admin_connection import AdminConnection
from mirror.adapters.librdkafka.knock import knock
from mirror.adapters.settings import KafkaCluster, KafkaSecurity
from mirror.errors import TimedOut, Unreachable
from tests.fakes.clock import ManualClock
from tests.patience import PATIENCE_SECONDS, wait_until

SHORT = 0.2
TLS_HANDSHAKE = b"\x16"


class Street:
    """Addresses of each kind on the loopback interface."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.heard: list[bytes] = []

    def refusing(self) -> str:
        """It is bound, and does not listen."""
        one = self._stack.enter_context(socket.socket())
        one.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{one.getsockname()[1]}"

    def silent(self) -> str:
        return self._listener()[0]

    def talking(self, answer: bytes) -> str:
        """It answers with these bytes, and ends the conversation."""
        name, listener = self._listener()

        def serve() -> None:
            caller, _ = listener.accept()
            with caller:
                self.heard.append(caller.recv(1000))
                caller.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        return name

    def _listener(self) -> tuple[str, socket.socket]:
        listener = self._stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        return f"127.0.0.1:{listener.getsockname()[1]}", listener


@pytest.fixture
def street() -> Iterator[Street]:
    with ExitStack() as stack:
        yield Street(stack)


def a_cluster(*addresses: str, protocol: str = "PLAINTEXT") -> KafkaCluster:
    security = KafkaSecurity.model_validate({"protocol": protocol})
    return KafkaCluster(bootstrap_servers=",".join(addresses), security=security)


def test_one_address_that_answers_is_enough(street: Street) -> None:
    knock(a_cluster(street.refusing(), street.silent(), street.talking(b"x")), PATIENCE_SECONDS)


def test_addresses_that_refuse_are_said_at_once(street: Street) -> None:
    one, two = street.refusing(), street.refusing()
    with pytest.raises(Unreachable) as caught:
        knock(a_cluster(one, two), PATIENCE_SECONDS)
    assert {f"{one}: Connection refused", f"{two}: Connection refused"} == set(
        caught.value.message.split("; ")
    )


def test_an_address_that_never_answers_is_waited_for_as_long_as_patience_lasts(street: Street) -> None:
    silent = street.silent()
    with pytest.raises(TimedOut, match=f"{silent}: no answer within"):
        knock(a_cluster(silent, street.refusing()), SHORT)


def test_an_end_without_an_answer_is_none(street: Street) -> None:
    with pytest.raises(Unreachable, match="closed the connection without an answer"):
        knock(a_cluster(street.talking(b"")), PATIENCE_SECONDS)


def test_where_tls_is_spoken_the_knock_speaks_it(street: Street) -> None:
    knock(a_cluster(street.talking(b"x"), protocol="SSL"), PATIENCE_SECONDS)
    assert street.heard[0].startswith(TLS_HANDSHAKE)


class Door:
    """An admin connection whose knocks wait for as long as `patience` says."""

    def __init__(self, address: str, clock: ManualClock | None = None) -> None:
        self.patience = SHORT
        cluster = a_cluster(address)
        self.connection = AdminConnection(
            address,
            lambda: AdminClient({"bootstrap.servers": address, "log_level": 0}),
            lambda: knock(cluster, self.patience),
            (clock or ManualClock()).monotonic,
        )

    def is_silent(self) -> None:
        with pytest.raises(TimedOut, match="no answer within 0 s"):
            self.connection.client()


def test_while_one_thread_waits_for_a_dead_cluster_the_others_hear_what_it_heard_last(street: Street) -> None:
    clock = ManualClock()
    door = Door(street.silent(), clock)
    door.is_silent()
    door.patience = PATIENCE_SECONDS
    door.is_silent()
    clock.advance(2)

    def wait() -> None:
        with suppress(Unreachable):  # the end of the test ends the address
            door.connection.client()

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    wait_until(door.connection._opening.locked)
    for _ in range(10):
        door.is_silent()
    assert waiting.is_alive()


def test_a_client_whose_question_got_no_answer_is_closed_and_the_next_one_knocks(street: Street) -> None:
    door = Door(street.talking(b"x"))
    door.patience = PATIENCE_SECONDS
    first = door.connection.client()
    assert door.connection.client() is first
    door.connection.drop(first, TimedOut("no answer"))
    door.patience = SHORT
    door.is_silent()
