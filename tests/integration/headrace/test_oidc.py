"""Tokens of an OIDC provider with keys at a real listener, and requests with them to another one."""

from __future__ import annotations

import gzip
import json
import re
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from structlog.testing import capture_logs

from api.access.listener_settings import OidcSettings
from api.settings import ApiSettings
from headrace.process.access import access_of_settings
from headrace.process.oidc.keys import AGAIN_SECONDS
from headrace.process.oidc.provider import issuer_of
from headrace.process.rest import RestServer
from mirror.errors import Unreachable
from mirror.instance.health import Health
from tests.fakes.clock import ManualClock
from tests.fakes.site import Site
from tests.patience import PATIENCE_SECONDS, wait_until

FILES: Final = Path(__file__).parents[2] / "data/tls/rest"
GZIP: Final = b"\x1f\x8b"
"""First bytes of gzip data."""
ISSUER: Final = "https://id.example.com/realms/company"
ES_KEY: Final = ec.generate_private_key(ec.SECP256R1())


@dataclass
class Provider:
    """OIDC provider with keys and signed tokens. `answer`: changes its key set document.

    `ends`: releases a blocked request.
    """

    host: str
    port: int = 0
    scheme: str = "http"
    status: int = 200
    keys: dict[str, Any] = field(default_factory=lambda: {"ec": ES_KEY})
    asked: list[str] = field(default_factory=list)
    clock: ManualClock = field(default_factory=ManualClock)
    ends: threading.Event = field(default_factory=threading.Event)
    answer: Callable[[bytes], bytes] = lambda document: document

    def document(self) -> bytes:
        """Return its key set (RFC 7517)."""
        shown = []
        for name, key in self.keys.items():
            kind = jwt.algorithms.ECAlgorithm if name.startswith("ec") else jwt.algorithms.RSAAlgorithm
            shown.append({**kind.to_jwk(key.public_key(), as_dict=True), "kid": name, "use": "sig"})
        return json.dumps({"keys": shown}).encode()

    def settings(self, **more: Any) -> dict[str, Any]:
        """Return the settings of an operator for it."""
        return {
            "issuer": ISSUER,
            "audience": "headrace",
            "keys_url": f"{self.scheme}://{self.host}:{self.port}/certs",
            "groups": {"readers": {"role": "viewer"}, "operators": {"role": "operator"}},
            **more,
        }

    def token(self, name: str, **claims: Any) -> str:
        """Return a signed token of alice."""
        now = self.clock.now_ms() // 1_000
        found = {"iss": ISSUER, "aud": "headrace", "sub": "alice", "groups": ["readers"], "exp": now + 300}
        algorithm = "ES256" if name.startswith("ec") else "RS256"
        signed: str = jwt.encode({**found, **claims}, self.keys[name], algorithm, headers={"kid": name})
        return signed


@contextmanager
def listening(context: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> Iterator[Provider]:
    provider = Provider(host)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider.asked.append(self.path)
            body = provider.answer(provider.document())
            self.send_response(provider.status)
            self.send_header("Location", "/elsewhere")
            if body.startswith(GZIP):
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - its name
            """Log nothing: `asked` has the requests."""

    server = ThreadingHTTPServer((host, 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        provider.scheme = "https"
    provider.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield provider
    finally:
        provider.ends.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def provider() -> Iterator[Provider]:
    with listening() as found:
        yield found


class TestTokensOfAProvider:
    """Requests to a real listener, with keys of a provider at another one."""

    @pytest.fixture
    def call(self, provider: Provider) -> Iterator[Callable[..., httpx.Response]]:
        """Yield a function that sends a request with a token."""
        api = ApiSettings.model_validate({"access": {"oidc": provider.settings()}})
        access = access_of_settings(api, "", provider.clock, Health())
        server = RestServer("127.0.0.1", 0)
        server.bind()
        try:
            server.attach(Site(access=access).app)
            server.start()
            with httpx.Client(base_url=f"http://{server.address}", timeout=PATIENCE_SECONDS) as client:

                def made(token: str, method: str = "GET", path: str = "/v1/plan") -> httpx.Response:
                    sent = {"Authorization": f"Bearer {token}"}
                    return client.request(method, path, json={} if method == "POST" else None, headers=sent)

                yield made
        finally:
            server.stop(PATIENCE_SECONDS)

    def test_what_a_group_may_do_its_members_may(
        self, provider: Provider, call: Callable[..., httpx.Response]
    ) -> None:
        pause = ("POST", "/v1/datastreams/orders/pause")
        assert call(provider.token("ec")).status_code == 200
        refused = call(provider.token("ec"), *pause)
        assert (refused.status_code, refused.json()["kind"]) == (403, "Forbidden")
        assert re.search(r"\boidc:alice\b.*\bviewer\b", refused.json()["detail"])
        assert call(provider.token("ec", groups=["operators"]), *pause).status_code == 404
        assert provider.asked == ["/certs"]

    def test_what_is_no_token_is_answered_alike(
        self, provider: Provider, call: Callable[..., httpx.Response]
    ) -> None:
        wrong = [
            provider.token("ec", aud="another"),
            provider.token("ec", iss="https://evil.example.com"),
            provider.token("ec")[:-4] + "AAAA",
            jwt.encode({"sub": "alice"}, "s" * 64, "HS256", headers={"kid": "ec"}),
            jwt.encode({"sub": "alice"}, "", "none", headers={"kid": "ec"}),
            "hr_00000000_" + "0" * 64,
            "nothing",
        ]
        answers = [call(token) for token in wrong]
        assert [one.status_code for one in answers] == [401] * len(wrong)
        assert len({one.json()["detail"] for one in answers}) == 1
        assert all(one.headers["www-authenticate"] == 'Bearer realm="headrace"' for one in answers)
        provider.clock.advance(361)
        expired = call(provider.token("ec", exp=provider.clock.now_ms() // 1_000 - 61)).json()
        assert (expired["status"], "has expired" in expired["detail"]) == (401, True)

    def test_a_key_that_is_new_is_read_once_and_then_known(
        self, provider: Provider, call: Callable[..., httpx.Response]
    ) -> None:
        provider.keys["rsa"] = rsa.generate_private_key(65_537, 2_048)
        again = call(provider.token("rsa"))
        assert (again.status_code, again.headers["retry-after"]) == (503, "5")
        wait_until(lambda: call(provider.token("rsa")).status_code == 200)
        forged = jwt.encode({"sub": "alice"}, ES_KEY, "ES256", headers={"kid": "none"})
        assert [call(forged).status_code for _ in range(20)] == [401] * 20
        assert provider.asked == ["/certs"] * 2
        provider.clock.advance(AGAIN_SECONDS)
        wait_until(lambda: call(forged).status_code == 401)
        assert provider.asked == ["/certs"] * 3


@pytest.mark.parametrize(
    ("status", "answer", "reason"),
    [
        (302, lambda document: document, "status 302"),
        (500, lambda document: document, "status 500"),
        (200, lambda document: document + b" " * 1_000_000, "1000000 bytes"),
        (200, lambda _: b"<html>", "JSON"),
        (200, lambda _: b"[" * 100_000, "JSON"),
        (200, lambda _: b'{"keys": []}', "no usable key"),
        (200, gzip.compress, "compressed"),
    ],
    ids=["elsewhere", "failed", "large", "a page", "deep", "none", "compressed"],
)
def test_what_is_no_set_of_keys_lets_nobody_in(
    provider: Provider, status: int, answer: Callable[[bytes], bytes], reason: str
) -> None:
    """Each case is logged with its own reason.

    Redirects are not followed, only responses with status 200 are read, and only up to the size limit of key
    sets.
    """
    provider.status, provider.answer = status, answer
    with capture_logs() as logged:
        issuer = issuer_of(OidcSettings.model_validate(provider.settings()), provider.clock)
        with pytest.raises(Unreachable):
            issuer.principal_of(provider.token("ec"))
        # At start and for a token with an unknown key. Other providers may still log theirs.
        wait_until(lambda: sum(reason in str(one.get("reason")) for one in logged) >= 2, reason)
    assert provider.asked == ["/certs"] * 2


def test_a_provider_that_is_slow_is_not_waited_for(provider: Provider) -> None:
    provider.answer = lambda document: document if provider.ends.wait(PATIENCE_SECONDS) else b""
    settings = OidcSettings.model_validate(provider.settings(deadline_seconds=0.2))
    issuer = issuer_of(settings, provider.clock)
    with pytest.raises(Unreachable):
        issuer.principal_of(provider.token("ec"))


def test_the_provider_is_who_its_certificate_says() -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(FILES / "server.pem")
    with listening(context) as provider:
        for more, lets_in in (({}, False), ({"keys_ca_file": str(FILES / "authority.pem")}, True)):
            settings = OidcSettings.model_validate(provider.settings(**more))
            issuer = issuer_of(settings, provider.clock)
            if lets_in:
                assert issuer.principal_of(provider.token("ec")).name == "oidc:alice"
            else:
                with pytest.raises(Unreachable):
                    issuer.principal_of(provider.token("ec"))


def test_a_certificate_of_the_authority_for_another_name_is_none() -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(FILES / "server.pem")  # for 127.0.0.1
    with listening(context, "127.0.0.2") as provider, capture_logs() as logged:
        settings = provider.settings(keys_ca_file=str(FILES / "authority.pem"))
        issuer = issuer_of(OidcSettings.model_validate(settings), provider.clock)
        with pytest.raises(Unreachable):
            issuer.principal_of(provider.token("ec"))
        assert provider.asked == []
    assert "CERTIFICATE_VERIFY_FAILED" in str(logged)


def test_a_proxy_of_the_environment_is_not_asked_for_keys(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    issuer = issuer_of(OidcSettings.model_validate(provider.settings()), provider.clock)
    assert issuer.principal_of(provider.token("ec")).name == "oidc:alice"
