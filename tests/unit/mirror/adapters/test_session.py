"""Test cluster sessions: an unresponsive cluster blocks no thread, no other cluster, and one call at most."""

from __future__ import annotations

import gc
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from structlog.typing import EventDict

from mirror.adapters.kafka.access import usable_access
from mirror.adapters.kafka.loop_thread import LoopThread
from mirror.adapters.kafka.session import ClusterSession
from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.adapters.settings import KafkaCluster, KafkaSecurity
from mirror.client import handshake
from mirror.client.access import ClusterAccess, endpoints
from mirror.client.cluster import Cluster
from mirror.client.event_loop import Loop, Promise
from mirror.errors import ConfigError, CorruptData, HeadraceError, NotAuthorized, TimedOut, Unreachable
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.memory import BufferPool
from mirror.protocol.control.cluster import metadata
from mirror.protocol.control.sasl import SaslAccess
from tests.fakes.broker.cluster import FakeCluster, running
from tests.fakes.broker.faults import Drop
from tests.fakes.broker.memory import Network
from tests.fakes.broker.virtual import VirtualSelector
from tests.fakes.clock import ManualClock
from tests.patience import PATIENCE_SECONDS, wait_until

SHORT = 0.2
TLS_HANDSHAKE = b"\x16"
METADATA = 3


class LoopbackPeers:
    """Loopback addresses of several kinds (refusing, silent, talking, broker) and a loop that connects."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._loop = LoopThread("street")
        self.heard: list[bytes] = []

    def refusing(self) -> str:
        """Return an address that is bound but not listening."""
        one = self._stack.enter_context(socket.socket())
        one.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{one.getsockname()[1]}"

    def silent(self) -> str:
        return self._listener()[0]

    def broker(self, name: str = "one") -> FakeCluster:
        return self._stack.enter_context(running(FakeCluster(name)))

    def talking(self, answer: bytes) -> str:
        """Return an address that responds with these bytes and closes the connection."""
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

    def session(self, *addresses: str, seconds: float = PATIENCE_SECONDS, **security: str) -> ClusterSession:
        cluster = KafkaCluster(
            bootstrap_servers=",".join(addresses), security=KafkaSecurity.model_validate(security)
        )
        made = ClusterSession(addresses[0], "test", partial(usable_access, cluster), reach_seconds=seconds)
        self._stack.callback(self._loop.post, lambda _: made.close())
        return made

    def ask(self, session: ClusterSession) -> str:
        return self._loop.ask("asking", PATIENCE_SECONDS, lambda loop: session.ask(loop, identity))


async def identity(cluster: Cluster) -> str:
    return (await cluster.ask(metadata([]))).cluster_id


@pytest.fixture
def street() -> Iterator[LoopbackPeers]:
    with ExitStack() as stack:
        yield LoopbackPeers(stack)


def test_one_address_that_answers_is_enough(street: LoopbackPeers) -> None:
    here = street.broker().address
    assert street.ask(street.session(street.refusing(), street.silent(), here))


def test_addresses_that_refuse_are_said_at_once(street: LoopbackPeers) -> None:
    one, two = street.refusing(), street.refusing()
    with pytest.raises(Unreachable) as caught:
        street.ask(street.session(one, two))
    reasons = sorted(caught.value.message.split("; "))
    assert len(reasons) == 2
    for address, reason in zip(sorted((one, two)), reasons, strict=True):
        assert f"{address}: Connection refused" in reason


def test_an_address_that_never_answers_is_waited_for_as_long_as_patience_lasts(street: LoopbackPeers) -> None:
    silent, refusing = street.silent(), street.refusing()
    with pytest.raises(TimedOut, match=f"{silent}.*; .*{refusing}"):
        street.ask(street.session(refusing, silent, seconds=SHORT))


def test_a_refused_connection_comes_with_advice(street: LoopbackPeers) -> None:
    address = street.refusing()
    with pytest.raises(Unreachable) as caught:
        street.ask(street.session(address))
    assert str(caught.value) == (
        f"cannot connect to {address}: Connection refused:"
        " check that the broker is running, its address and the firewalls"
    )


def test_a_server_that_speaks_another_protocol_is_named(street: LoopbackPeers) -> None:
    address = street.talking(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(CorruptData, match=f"^{address} did not send a Kafka frame: "):
        street.ask(street.session(address))


def test_an_end_without_an_answer_is_none(street: LoopbackPeers) -> None:
    with pytest.raises(Unreachable, match="TLS"):
        street.ask(street.session(street.talking(b"")))


def test_where_tls_is_spoken_the_session_speaks_it(street: LoopbackPeers) -> None:
    with pytest.raises(Unreachable):
        street.ask(street.session(street.talking(b"x"), protocol="SSL"))
    assert street.heard[0].startswith(TLS_HANDSHAKE)


def test_certificates_that_cannot_be_read_fail_the_question_and_no_other(street: LoopbackPeers) -> None:
    with pytest.raises(ConfigError, match="TLS files"):
        street.ask(street.session(street.silent(), protocol="SSL", ca_file="no-such-file"))
    assert street.ask(street.session(street.broker().address))


def test_a_token_that_cannot_be_read_is_said(street: LoopbackPeers, tmp_path: Path) -> None:
    file, protocol = str(tmp_path / "no"), "SASL_PLAINTEXT"
    silent = street.silent()
    with pytest.raises(NotAuthorized, match="token file"):
        street.ask(street.session(silent, protocol=protocol, mechanism="OAUTHBEARER", token_file=file))


def test_many_dead_clusters_have_no_threads_and_hold_up_no_other(street: LoopbackPeers) -> None:
    living = street.session(street.broker().address)
    assert street.ask(living)
    before = set(threading.enumerate())
    waiting: list[Future[str]] = []
    for _ in range(40):
        session, answer = street.session(street.silent(), seconds=1.0), Future[str]()
        waiting.append(answer)
        street._loop.post(partial(_begin, session, answer))
    assert street.ask(living)
    assert not any(one.done() for one in waiting)
    assert set(threading.enumerate()) <= before
    for one in waiting:
        with pytest.raises(TimedOut):
            one.result(PATIENCE_SECONDS)


def _begin(session: ClusterSession, answer: Future[str], loop: Loop) -> None:
    _hand_over(loop.spawn(session.ask(loop, identity)), answer)


def _hand_over(asking: Promise[Any], answer: Future[Any]) -> None:
    def end() -> None:
        try:
            answer.set_result(asking.result())
        except HeadraceError as error:
            answer.set_exception(error)

    asking.when_done(end)


def test_a_name_server_that_does_not_answer_holds_up_no_other_name(
    street: LoopbackPeers, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, asked = threading.Event(), list[str]()
    system: Callable[..., Any] = socket.getaddrinfo

    def look_up(host: str, *rest: Any) -> Any:
        asked.append(host)
        if host == "lost.test":
            answers.wait(PATIENCE_SECONDS)
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return system(host, *rest)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    port = street.broker().address.rpartition(":")[2]
    lost = street.session("lost.test:9092", "lost.test:9093", seconds=0.5)
    for _ in range(3):
        with pytest.raises(TimedOut, match=r"lost\.test:9092, .*:9093\b"):
            street.ask(lost)
        lost._failed_at = 0.0
    assert street.ask(street.session(f"localhost:{port}"))
    assert asked.count("lost.test") == 1
    answers.set()
    wait_until(lambda: not any("lost.test" in one.name for one in threading.enumerate()))


def test_a_ticket_that_does_not_come_holds_up_no_other_cluster(
    street: LoopbackPeers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GSSAPI blocks on the key distribution center when the exchange starts."""
    answers, began = threading.Event(), threading.Event()

    def exchange(_access: object, host: str) -> object:
        began.set()
        answers.wait(PATIENCE_SECONDS)
        raise NotAuthorized(f"there is no ticket for {host}")

    monkeypatch.setattr(handshake, "SaslExchange", exchange)
    waiting = Future[Any]()

    def begin(loop: Loop) -> None:
        access, pool = ClusterAccess(()), BufferPool(1024, ByteBudget(1024))
        config = handshake.ConnectionConfig(loop, pool, access, "test", PATIENCE_SECONDS)
        _hand_over(loop.spawn(handshake._begin(config, SaslAccess("GSSAPI"), "one.test")), waiting)

    street._loop.post(begin)
    assert began.wait(PATIENCE_SECONDS)
    assert street.ask(street.session(street.broker().address))
    assert not waiting.done()
    answers.set()
    with pytest.raises(NotAuthorized, match=r"one\.test"):
        waiting.result(PATIENCE_SECONDS)


def test_a_step_that_fails_ends_neither_the_thread_nor_what_waits_behind_it(
    street: LoopbackPeers, logged: list[EventDict]
) -> None:
    session = street.session(street.broker().address)
    for _ in range(3):
        street._loop.post(lambda _: int("nothing"))
    street._loop.post(lambda loop: loop.call_soon(lambda: int("later")))
    assert street.ask(session)
    wait_until(lambda: sum(one["event"] == "step failed" for one in list(logged)) == 4)


class Line:
    """One session on a loop in virtual time, with an in-memory cluster."""

    def __init__(self) -> None:
        self.clock, self.network = ManualClock(), Network()
        self.cluster = FakeCluster("here", 2, self.clock, network=self.network)
        self.loop = Loop(self.clock, VirtualSelector(self.clock, [self.cluster]))
        self.loop.new_socket = self.network.socket
        access = ClusterAccess(endpoints(self.cluster.address))
        self.session = ClusterSession("here", "test", lambda: access)
        self.opened: list[Cluster] = []

    def ask(self) -> Callable[[], str]:
        """Start a request for the cluster id and return a function that waits for the result."""
        asking = self.loop.spawn(self.session.ask(self.loop, self._identity))
        asking.when_done(lambda: None)

        def answer() -> str:
            while not asking.is_done:
                self.loop.run_once(1.0)
            return asking.result()

        return answer

    async def _identity(self, cluster: Cluster) -> str:
        if cluster not in self.opened:
            self.opened.append(cluster)
        return await identity(cluster)

    def run(self, seconds: float) -> None:
        until = self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            self.loop.run_once(until - self.clock.monotonic())

    def freeze(self) -> None:
        for node in self.cluster.brokers:
            self.cluster.freeze(node)

    def thaw(self) -> None:
        for node in self.cluster.brokers:
            self.cluster.thaw(node)

    def seconds_of(self, answer: Callable[[], object]) -> float:
        began = self.clock.monotonic()
        with pytest.raises(TimedOut):
            answer()
        return self.clock.monotonic() - began


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.session.close()
    made.loop.close()
    made.cluster.close()


def test_while_one_question_waits_for_a_dead_cluster_the_others_hear_what_it_heard_last(line: Line) -> None:
    line.freeze()
    assert line.seconds_of(line.ask()) == pytest.approx(5.0, abs=0.1)
    assert line.seconds_of(line.ask()) == 0.0
    line.run(2)
    waiting = line.ask()
    for _ in range(10):
        assert line.seconds_of(line.ask()) == 0.0
    assert 1.0 < line.seconds_of(waiting) <= 5.0
    line.thaw()
    line.run(1)
    assert line.ask()()


def test_while_a_cluster_is_tried_for_the_first_time_others_wait_a_moment_only(line: Line) -> None:
    line.freeze()
    first = line.ask()
    assert line.seconds_of(line.ask()) == pytest.approx(1.0, abs=0.1)
    assert line.seconds_of(first) == pytest.approx(4.0, abs=0.1)


def test_a_connection_whose_question_got_no_answer_is_closed_and_the_next_one_finds_another_broker(
    line: Line,
) -> None:
    assert line.ask()()
    (connection,) = [one for one in line.opened[0].connections.known.values() if one.is_open]
    (node,) = [node for node, broker in line.cluster.brokers.items() if f":{broker.port}" in connection.name]
    line.cluster.freeze(node)
    assert line.seconds_of(line.ask()) >= 10.0
    assert not connection.is_open
    assert line.ask()()


def test_a_broken_connection_and_a_passing_refusal_are_tried_again(line: Line) -> None:
    assert line.ask()()
    line.cluster.faults.plant(METADATA, Drop())
    assert line.ask()()


@pytest.mark.parametrize(("seconds", "ends_at"), [(4.5, 4.0), (3.9, 2.0), (60.0, 8.4), (None, 10.0)])
def test_attempts_end_before_the_deadline_of_the_caller(
    line: Line, seconds: float | None, ends_at: float
) -> None:
    """An attempt takes two seconds, and the session retries for ten."""
    attempts = 0

    async def question(_: Cluster) -> str:
        nonlocal attempts
        attempts += 1
        await line.loop.sleep(2.0)
        raise Unreachable(f"attempt {attempts}")

    began = line.clock.monotonic()
    asking = line.loop.spawn(line.session.ask(line.loop, question, seconds))
    asking.when_done(lambda: None)
    while not asking.is_done:
        line.loop.run_once(1.0)
    with pytest.raises(Unreachable, match=f"attempt {attempts}"):
        asking.result()
    assert line.clock.monotonic() - began == pytest.approx(ends_at, abs=1.0)
    assert seconds is None or line.clock.monotonic() - began <= seconds


def test_a_session_closes_when_nobody_asks_and_opens_again(line: Line) -> None:
    assert line.ask()()
    for _ in range(4):
        line.run(45)
        assert line.ask()()
    line.run(61)
    assert not line.session.is_open
    assert not any(one.is_open for one in line.opened[0].connections.known.values())
    assert line.ask()()
    assert len(line.opened) == 2


def test_an_error_that_somebody_keeps_keeps_nothing_of_the_client(street: LoopbackPeers) -> None:
    admin = KafkaAdmin(KafkaCluster(bootstrap_servers=street.refusing()))
    with pytest.raises(Unreachable) as kept:
        admin.list_topics()
    modules = set()
    trace = kept.value.__traceback__
    while trace is not None:
        modules.add(trace.tb_frame.f_globals["__name__"])
        trace = trace.tb_next
    assert not any(name.startswith("mirror.client") for name in modules)
    assert kept.value.__cause__ is kept.value.__context__ is None


def test_a_cluster_that_stays_away_keeps_no_more_than_its_last_failure(street: LoopbackPeers) -> None:
    session, before = street.session(street.refusing()), kept_errors()
    for _ in range(5):
        session._failed_at = 0.0
        with pytest.raises(Unreachable):
            street.ask(session)
    assert wait_until(lambda: kept_errors() <= before + 1)


def kept_errors() -> int:
    """Return the number of Unreachable errors that are still referenced."""
    gc.collect()
    return sum(type(one) is Unreachable for one in gc.get_objects())
