"""Bytes over TLS arrive whole and in order, whatever the sizes of buffers and the room of the sockets."""

from __future__ import annotations

import socket
import ssl
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.client.connection import Connection
from mirror.client.event_loop import Loop
from mirror.client.request import Request
from mirror.client.tls_transport import TlsTransport
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.memory import BufferPool
from mirror.tls import client_context
from tests.examples import examples
from tests.fakes.clock import ManualClock

FILES: Final = Path(__file__).parents[3] / "data/tls"
SIZES: Final = st.one_of(st.integers(1, 300), st.integers(16_000, 17_000), st.integers(100_000, 400_000))


class Ends:
    """A client and a server whose sockets have little room."""

    def __init__(self, newest: ssl.TLSVersion) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.maximum_version = newest
        context.load_cert_chain(FILES / "broker.pem")
        self.sockets = socket.socketpair()
        client = client_context(str(FILES / "ca.pem"))
        received, to_send, at_server, to_client = (ssl.MemoryBIO() for _ in range(4))
        ours = client.wrap_bio(received, to_send, server_hostname="127.0.0.1")
        theirs = context.wrap_bio(at_server, to_client, server_side=True)
        for _ in range(4):
            for side in (ours, theirs):
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
                at_server.write(to_send.read())
                received.write(to_client.read())
        for sock in self.sockets:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 20_000)
        self.client = TlsTransport(self.sockets[0], ours, received, to_send, "")
        self.server = TlsTransport(self.sockets[1], theirs, at_server, to_client, "")

    def close(self) -> None:
        for sock in self.sockets:
            sock.close()


@contextmanager
def ends(newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> Iterator[Ends]:
    made = Ends(newest)
    try:
        yield made
    finally:
        made.close()


def received(transport: TlsTransport, window: int) -> bytes | None:
    buffer = memoryview(bytearray(window))
    count = transport.receive_into(buffer)
    return None if count is None else bytes(buffer[:count])


def content(size: int, number: int) -> bytes:
    return (number.to_bytes(4, "big") * (size // 4 + 1))[:size]


@settings(max_examples=examples(50))
@given(
    st.lists(SIZES, min_size=1, max_size=8),
    st.lists(st.integers(1_000, 200_000), min_size=1, max_size=6),
    st.sampled_from([ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]),
)
def test_what_is_sent_arrives_once_and_in_order(
    sizes: list[int], windows: list[int], newest: ssl.TLSVersion
) -> None:
    """Buffers are queued one by one, as those of a connection; the receiver reads in windows of any size."""
    with ends(newest) as pair:
        later = deque(content(size, number) for number, size in enumerate(sizes))
        sent = b"".join(later)
        unsent: deque[bytes] = deque()
        arrived, number = bytearray(), 0
        while len(arrived) < len(sent):
            if later:
                unsent.append(later.popleft())
            while unsent:
                count = pair.client.send(list(unsent))
                if not count:
                    break
                while count:
                    first = unsent.popleft()
                    if count < len(first):
                        unsent.appendleft(first[count:])
                    count -= min(count, len(first))
            window = windows[number % len(windows)]
            part = received(pair.server, window)
            if part is not None:
                assert part, "the end of the stream"
                arrived += part
            number += 1
        assert bytes(arrived) == sent
        assert not pair.server.has_received


def test_a_window_that_is_not_filled_leaves_nothing_behind() -> None:
    with ends() as pair:
        assert pair.client.send([b"x" * 10_000])
        assert received(pair.server, 10_001) == b"x" * 10_000
        assert received(pair.server, 10_001) is None


def test_what_does_not_fit_into_a_window_is_known_to_wait() -> None:
    with ends() as pair:
        assert pair.client.send([b"x" * 10_000])
        assert received(pair.server, 10) == b"x" * 10
        assert pair.server.has_received
        assert received(pair.server, 10_000) == b"x" * 9_990
        assert not pair.server.has_received


def test_the_end_of_the_stream_follows_the_last_bytes() -> None:
    with ends() as pair:
        assert pair.client.send([b"x" * 100])
        pair.sockets[0].close()
        assert received(pair.server, 1_000) == b"x" * 100
        assert received(pair.server, 1_000) == b""


def test_an_altered_byte_is_an_error() -> None:
    with ends() as pair:
        assert pair.client.send([b"x" * 1_000])
        altered = bytearray(pair.sockets[1].recv(10_000))
        altered[-1] ^= 1
        pair.sockets[0].send(altered)
        with pytest.raises(ssl.SSLError):
            received(pair.server, 1_000)


@pytest.mark.parametrize("size", [5_000, 40_000, 60_000])
def test_the_loop_wakes_for_the_rest_of_a_record(size: int) -> None:
    """OpenSSL has the first part of the record: the rest of the response is longer than what will arrive."""
    with ends() as pair:
        pair.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 400_000)
        assert pair.client.send([b"x" * size])
        encrypted = pair.sockets[1].recv(200_000)
        arrived = 0
        for start, end in ((0, 4_000), (4_000, len(encrypted) - 100), (len(encrypted) - 100, len(encrypted))):
            pair.sockets[0].send(encrypted[start:end])
            least = pair.sockets[1].getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)
            assert least <= end - start, "nothing would wake the loop"
            arrived += len(received(pair.server, size) or b"")
            pair.server.expect(size - arrived)
        assert arrived == size


def test_a_response_that_was_received_with_others_is_read_although_the_socket_is_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loop does not wake for bytes that are no longer in the socket."""
    monkeypatch.setattr("mirror.client.connection._MOST_READS", 1)
    sizes = [40_000, 25_600, 100]
    answered: list[int] = []
    with ends() as pair, closing(Loop(ManualClock())) as loop:
        pair.sockets[1].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 400_000)
        pool = BufferPool(2**17, ByteBudget(2**20))
        connection = Connection(loop, pair.client, pool, "broker", "test")
        for number, size in enumerate(sizes, 1):
            connection.send(
                Request(
                    *(1, 0, False, [b"body"], 4, 30.0),
                    lambda frame, _: answered.append(len(frame)),
                    lambda error: pytest.fail(str(error)),
                )
            )
            frame = number.to_bytes(4, "big") + bytes(size)
            sent = 0
            while sent < len(frame) + 4:
                sent += pair.server.send([(len(frame).to_bytes(4, "big") + frame)[sent:]])
        for _ in range(8):
            loop.run_once(0.0)
        connection.close()
    assert answered == sizes
