"""Reasons of failed TLS connections name the likely cause; real sockets."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.adapters.settings import KafkaCluster, KafkaSecurity
from mirror.errors import HeadraceError, NotAuthorized, Unreachable
from tests.certificates import Authority

NewBroker = Callable[[ssl.SSLContext], str]


@pytest.fixture
def new_broker() -> Iterator[NewBroker]:
    """Makes TLS listeners that read what comes and answer nothing."""
    with ExitStack() as stack:

        def make(context: ssl.SSLContext) -> str:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

            def serve() -> None:
                with suppress(OSError):
                    while True:
                        caller, _ = listener.accept()
                        with caller, suppress(OSError), context.wrap_socket(caller, server_side=True) as one:
                            one.recv(1000)

            threading.Thread(target=serve, daemon=True).start()
            return f"127.0.0.1:{listener.getsockname()[1]}"

        yield make


def failure(address: str, **security: str) -> HeadraceError:
    settings = KafkaSecurity.model_validate({"protocol": "SSL", **security})
    with pytest.raises(HeadraceError) as caught:
        KafkaAdmin(KafkaCluster(bootstrap_servers=address, security=settings)).list_topics()
    return caught.value


def requiring(authority: Authority, newest: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = newest
    context.load_cert_chain(authority.certificate("broker", 100))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.file)
    return context


@pytest.mark.parametrize(
    ("read", "answer"),
    [(4, b""), (1000, b""), (1000, b"HTTP/1.1 400 Bad Request\r\n\r\n")],
    ids=["Kafka, which resets", "Kafka, which closes", "another protocol"],
)
def test_a_port_without_tls_is_named(read: int, answer: bytes) -> None:
    """Kafka takes the first bytes for the size of a request that is too large, and closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            caller, _ = listener.accept()
            with caller:
                caller.recv(read)
                caller.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        error = failure(f"127.0.0.1:{listener.getsockname()[1]}")
    assert isinstance(error, Unreachable)
    assert "security.protocol" in str(error)


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_broker_that_requires_a_certificate_is_not_said_to_reject_ours(
    tmp_path: Path, new_broker: NewBroker, newest: ssl.TLSVersion
) -> None:
    authority = Authority(tmp_path)
    error = failure(new_broker(requiring(authority, newest)), ca_file=str(authority.file))
    assert isinstance(error, NotAuthorized)
    assert "requires a client certificate" in str(error)
    assert "certificate_file" in str(error)


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_an_expired_certificate_of_ours_is_named_with_its_end(
    tmp_path: Path, new_broker: NewBroker, newest: ssl.TLSVersion
) -> None:
    authority = Authority(tmp_path)
    ours = str(authority.certificate("ours", -3))
    address = new_broker(requiring(authority, newest))
    error = failure(address, ca_file=str(authority.file), certificate_file=ours, key_file=ours)
    assert isinstance(error, NotAuthorized)
    assert ours in str(error)
    assert "valid until 20" in str(error)
