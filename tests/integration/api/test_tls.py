"""Real TLS listeners: principals of client certificates, limits of connections, and replaced certificates."""

from __future__ import annotations

import shutil
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from api.access.gate import AccessMethods
from api.access.listener_settings import LimitSettings, TlsSettings
from api.access.rights import Principal, Role
from api.access.tokens import TokenFile, add_entry, new_token
from headrace.console.client import RestClient
from headrace.console.settings import ClientSettings
from headrace.process.rest import RestServer
from headrace.process.tls import of_instances, of_listener, subject_of
from mirror.errors import ConfigError, Forbidden, HeadraceError, NotAuthenticated, Unreachable
from tests.fakes.clock import ManualClock
from tests.fakes.site import Site
from tests.patience import PATIENCE_SECONDS, wait_until

FILES: Final = Path(__file__).parents[2] / "data/tls/rest"
AUTHORITY: Final = str(FILES / "authority.pem")
CI: Final = {"CN=ci,O=example": Principal("ci", Role.VIEWER)}


@pytest.fixture
def live(tmp_path: Path) -> TlsSettings:
    """Return the settings of a listener whose certificate may be replaced."""
    server = tmp_path / "server.pem"
    shutil.copy(FILES / "server.pem", server)
    return TlsSettings(
        certificate_file=str(server),
        key_file=str(server),
        client_ca_file=AUTHORITY,
        instances_ca_file=AUTHORITY,
    )


@contextmanager
def serving(
    tls: TlsSettings,
    access: AccessMethods,
    limits: LimitSettings | None = None,
    surface: ASGIApp | None = None,
) -> Iterator[RestServer]:
    site = Site(access=access)
    server = RestServer("127.0.0.1", 0, tls, limits=limits or LimitSettings())
    server.bind()
    try:
        server.attach(site.app, surface)
        server.start()
        yield server
    finally:
        server.stop(PATIENCE_SECONDS)


def ask(server: RestServer, path: str = "/v1/datastreams", **settings: str) -> Any:
    client = ClientSettings(**({"ca_file": AUTHORITY} | settings))
    with closing(RestClient(f"https://{server.address}", PATIENCE_SECONDS, settings=client)) as rest:
        return rest.get(path)


def shown(server: RestServer, **limits: Any) -> str:
    """Return the subject of the listener's certificate."""
    context = ssl.create_default_context(cafile=AUTHORITY)
    for name, value in limits.items():
        setattr(context, name, value)
    host, _, port = server.address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), PATIENCE_SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        certificate = connection.getpeercert()
        assert certificate
        return subject_of(certificate["subject"])  # type: ignore[arg-type]


def test_who_shows_a_certificate_that_the_settings_name_is_its_principal(live: TlsSettings) -> None:
    with serving(live, AccessMethods(certificates=CI)) as server:
        mine = str(FILES / "client.pem")
        assert ask(server, certificate_file=mine) == []
        settings = ClientSettings(ca_file=AUTHORITY, certificate_file=mine)
        with (
            closing(RestClient(f"https://{server.address}", PATIENCE_SECONDS, settings=settings)) as rest,
            pytest.raises(Forbidden, match=r"\bci\b.*\bviewer\b"),
        ):
            rest.post("/v1/datastreams/orders/pause")
        with pytest.raises(NotAuthenticated):
            ask(server)
        with pytest.raises(NotAuthenticated):
            ask(server, certificate_file=str(FILES / "misleading.pem"))
        with pytest.raises(Unreachable):
            ask(server, certificate_file=str(FILES / "impostor.pem"))


def test_a_listener_can_take_no_connection_without_a_certificate(live: TlsSettings) -> None:
    required = live.model_copy(update={"client_certificates": "required"})
    with serving(required, AccessMethods(certificates=CI)) as server:
        with pytest.raises(HeadraceError):
            ask(server)
        assert ask(server, certificate_file=str(FILES / "client.pem")) == []


def test_certificates_that_change_count_without_a_restart(live: TlsSettings) -> None:
    file = Path(live.certificate_file)
    with serving(live, AccessMethods(certificates=CI)) as server:
        assert shown(server) == "CN=one,O=example"
        shutil.copy(FILES / "server-2.pem", file)
        assert shown(server) == "CN=two,O=example"
        file.write_text("half a file")
        assert shown(server) == "CN=two,O=example"
        shutil.copy(FILES / "server.pem", file)
        assert shown(server) == "CN=one,O=example"
        assert ask(server, certificate_file=str(FILES / "client.pem")) == []


def test_nothing_older_than_tls_1_2_is_spoken_and_nothing_plain(live: TlsSettings) -> None:
    with serving(live, AccessMethods(certificates=CI)) as server:
        assert shown(server, maximum_version=ssl.TLSVersion.TLSv1_2) == "CN=one,O=example"
        with pytest.raises((ssl.SSLError, ConnectionError)), pytest.warns(DeprecationWarning, match="TLSv1"):
            shown(server, minimum_version=ssl.TLSVersion.TLSv1, maximum_version=ssl.TLSVersion.TLSv1_1)
        with closing(RestClient(server.address, PATIENCE_SECONDS)) as plain, pytest.raises(HeadraceError):
            plain.get("/v1/datastreams")


@pytest.mark.parametrize("sent", [b"", bytes.fromhex("16030100050100")])
def test_a_handshake_that_does_not_come_is_given_up(live: TlsSettings, sent: bytes) -> None:
    """The client sends nothing, or the beginning of a ClientHello."""
    with serving(live, AccessMethods(), LimitSettings(head_seconds=0.2)) as server:
        port = int(server.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as silent:
            silent.sendall(sent)
            with suppress(ConnectionResetError):
                assert silent.recv(1) == b""


def test_a_caller_that_does_not_read_its_answers_is_ended(live: TlsSettings) -> None:
    async def large(scope: Scope, receive: Receive, send: Send) -> None:
        await Response(bytes(16 * 1024 * 1024))(scope, receive, send)

    limits = LimitSettings(answer_seconds=0.2)
    with serving(live, AccessMethods(), limits, large) as server, ExitStack() as stack:
        port = int(server.address.rpartition(":")[2])
        plain = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS))
        context = ssl.create_default_context(cafile=AUTHORITY)
        caller = stack.enter_context(context.wrap_socket(plain, server_hostname="localhost"))
        caller.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3)
        assert caller.recv(12) == b"HTTP/1.1 200"
        wait_until(lambda: not server.connections)


def test_a_token_goes_over_tls_or_stays_on_the_machine(live: TlsSettings, tmp_path: Path) -> None:
    clock, hashes, secret = ManualClock(), tmp_path / "tokens", tmp_path / "mine"
    token, entry = new_token(Principal("cli", Role.VIEWER), clock.now_ms())
    add_entry(hashes, entry)
    secret.write_text(f"{token}\n")
    with serving(live, AccessMethods(TokenFile(hashes, clock))) as server:
        assert ask(server, token_file=str(secret)) == []
        with pytest.raises(Unreachable, match="TLS"):
            ask(server, ca_file="", token_file=str(secret))
    with pytest.raises(HeadraceError, match="without TLS") as refused:
        RestClient("headrace.example:80", settings=ClientSettings(token_file=str(secret)))
    assert token not in str(refused.value)


def test_an_instance_shows_its_certificate_to_the_others(live: TlsSettings) -> None:
    required = live.model_copy(update={"client_certificates": "required"})
    with ExitStack() as stack:
        server = stack.enter_context(serving(required, AccessMethods(certificates=CI)))
        client = stack.enter_context(httpx.Client(verify=of_instances(required), timeout=PATIENCE_SECONDS))
        assert client.get(f"https://{server.address}/v1/fleet/health").status_code == 401


@pytest.mark.parametrize(
    "wrong", [{"certificate_file": "none.pem"}, {"key_file": AUTHORITY}, {"client_ca_file": "none.pem"}]
)
def test_certificates_that_cannot_be_used_are_found_at_the_start(
    live: TlsSettings, wrong: dict[str, str]
) -> None:
    with pytest.raises(ConfigError, match=r"api\.tls"):
        of_listener(live.model_copy(update=wrong))


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([[("organizationName", "example")], [("commonName", "ci")]], "CN=ci,O=example"),
        ([[("commonName", "ci,O=example")]], "CN=ci\\,O\\=example"),
        ([[("commonName", "a+CN=b")]], "CN=a\\+CN\\=b"),
        ([[("commonName", " #x ")]], "CN=\\ #x\\ "),
        ([[("commonName", "a"), ("userId", "b")]], "CN=a+UID=b"),
    ],
)
def test_a_subject_has_one_text(parts: list[list[tuple[str, str]]], text: str) -> None:
    assert subject_of(parts) == text
