"""Test tokens of an OIDC issuer: the resulting principals, and rejected tokens."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from functools import cache
from typing import Any, Final

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from api.access.gate import AccessMethods
from api.access.rights import Principal, Role
from headrace.process.oidc.keys import AGAIN_SECONDS, IssuerKeys, public_keys
from headrace.process.oidc.tokens import Issuer, TokenRequirements, principal_from
from mirror.errors import InvalidRequest, NotAuthenticated, Unreachable
from tests.fakes.clock import ManualClock
from tests.fakes.in_process import client_of
from tests.fakes.site import HOSTS, Site
from tests.patience import PATIENCE_SECONDS

ISSUER: Final = "https://id.example.com/realms/company"
AUDIENCE: Final = "headrace"
KEYS: Final = {"one": ec.generate_private_key(ec.SECP256R1()), "two": ec.generate_private_key(ec.SECP256R1())}
OTHER_CURVE: Final = ec.generate_private_key(ec.SECP384R1())
ROLES: Final = {
    "readers": Principal("group", Role.VIEWER),
    "orders": Principal("group", Role.OWNER, frozenset({"team-orders"})),
    "web": Principal("group", Role.OWNER, frozenset({"team-web"})),
    "admins": Principal("group", Role.ADMIN),
}
TRUST: Final = TokenRequirements(ISSUER, AUDIENCE, 60.0, "preferred_username", "groups", "oidc:", ROLES)


@cache
def rsa_key(bits: int = 2_048) -> rsa.RSAPrivateKey:
    """Return a key, which takes a fifth of a second to make."""
    return rsa.generate_private_key(65_537, bits)


def shown(*names: str, **more: Any) -> bytes:
    """Return the key set that the issuer publishes."""
    found: list[dict[str, Any]] = []
    for name in names:
        key = jwt.algorithms.ECAlgorithm.to_jwk(KEYS[name].public_key(), as_dict=True)
        found.append({**key, "kid": name, "use": "sig", **more})
    plain = jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key().public_key(), as_dict=True)
    return json.dumps({"keys": [*found, {**plain, "kid": "rsa"}]}).encode()


class Provider:
    """An issuer that publishes keys and signs tokens."""

    def __init__(self, *names: str) -> None:
        self.clock, self.asked, self.answer = ManualClock(), 0, shown(*(names or ("one",)))
        self.is_away, self.holds = False, threading.Event()
        self.holds.set()
        self.keys = IssuerKeys(self.read, self.clock, 3_600)
        self.keys.refresh()
        self.issuer = Issuer(TRUST, self.keys, self.clock)

    def read(self) -> bytes:
        self.asked += 1
        assert self.holds.wait(PATIENCE_SECONDS)
        if self.is_away:
            raise Unreachable("it does not answer")
        return self.answer

    def claims(self, **more: Any) -> dict[str, Any]:
        now = self.clock.now_ms() // 1_000
        found = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "preferred_username": "alice",
            "groups": ["orders"],
            "iat": now,
            "exp": now + 300,
            **more,
        }
        return {key: value for key, value in found.items() if value is not ...}

    def token(self, key: str = "one", *, headers: dict[str, Any] | None = None, **claims: Any) -> str:
        named = {"kid": key, **(headers or {})}
        signed: str = jwt.encode(self.claims(**claims), KEYS[key], "ES256", headers=named)
        return signed


def settle() -> None:
    """Wait for pending reads of the keys."""
    for thread in threading.enumerate():
        if thread.name == "issuer-keys":
            thread.join()


@pytest.fixture
def provider() -> Provider:
    return Provider()


def test_a_token_of_the_issuer_makes_a_principal_of_its_groups(provider: Provider) -> None:
    found = provider.issuer.principal_of(provider.token())
    assert found == Principal("oidc:alice", Role.OWNER, frozenset({"team-orders"}))
    several = provider.token(aud=["another", AUDIENCE], groups=["web", "orders", "unknown", "readers"])
    assert provider.issuer.principal_of(several).owners == {"team-orders", "team-web"}
    assert provider.issuer.principal_of(provider.token(groups="admins")).role is Role.ADMIN
    plain = jwt.encode(provider.claims(), rsa_key(), "RS256", headers={"kid": "rsa"})
    assert provider.issuer.principal_of(plain).name == "oidc:alice"


WRONG: Final[dict[str, dict[str, Any]]] = {
    "another issuer": {"iss": "https://evil.example.com"},
    "nearly the issuer": {"iss": f"{ISSUER}/"},
    "no issuer": {"iss": ...},
    "another audience": {"aud": "another"},
    "no audience": {"aud": ...},
    "an empty audience": {"aud": []},
    "no end": {"exp": ...},
    "an end that is text": {"exp": "9999999999"},
    "an end that is true": {"exp": True},
    "no end at all": {"exp": float("inf")},
    "an end that is no number": {"exp": float("nan")},
    "an end of 400 digits": {"exp": 10**400},
    "a beginning of 400 digits": {"nbf": 10**400},
    "a negative beginning of 400 digits": {"nbf": -(10**400)},
    "issued at 400 digits": {"iat": -(10**400)},
    "no name": {"preferred_username": ...},
    "an empty name": {"preferred_username": ""},
    "a name of several lines": {"preferred_username": "a\nb"},
    "a name that is none": {"preferred_username": ["alice"]},
    "no groups": {"groups": ...},
    "groups without a role": {"groups": ["elsewhere"]},
    "groups that are none": {"groups": {"admins": True}},
    "groups of others' types": {"groups": [["admins"], None, 1]},
}


@pytest.mark.parametrize("claims", WRONG.values(), ids=WRONG)
def test_what_is_signed_and_not_for_us_opens_nothing(provider: Provider, claims: dict[str, Any]) -> None:
    with pytest.raises(NotAuthenticated):
        provider.issuer.principal_of(provider.token(**claims))


def test_times_count_by_our_clock_with_some_leeway(provider: Provider) -> None:
    token = provider.token()
    provider.clock.advance(359)
    provider.issuer.principal_of(token)
    provider.clock.advance(1)
    with pytest.raises(NotAuthenticated, match="expired"):
        provider.issuer.principal_of(token)
    now = provider.clock.now_ms() // 1_000
    for claim in ("nbf", "iat"):
        begins: dict[str, Any] = {claim: now + 60}
        provider.issuer.principal_of(provider.token(**begins))
        with pytest.raises(NotAuthenticated, match="not valid yet"):
            provider.issuer.principal_of(provider.token(**{**begins, claim: now + 61}))


def encoded(part: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


def test_the_algorithm_is_ours_to_choose(provider: Provider) -> None:
    """Covers `none`, and the public key used as a shared secret."""
    body = encoded(provider.claims(groups=["admins"]))
    for algorithm in ("none", "None", "NONE", ""):
        with pytest.raises(NotAuthenticated):
            provider.issuer.principal_of(f"{encoded({'alg': algorithm, 'kid': 'one'})}.{body}.")
    secret = (
        KEYS["one"]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    for name in ("one", "rsa"):
        signed = f"{encoded({'alg': 'HS256', 'typ': 'JWT', 'kid': name})}.{body}"
        mark = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
        with pytest.raises(NotAuthenticated):
            provider.issuer.principal_of(f"{signed}.{base64.urlsafe_b64encode(mark).rstrip(b'=').decode()}")
    for algorithm in ("RS384", "RS512", "PS256"):
        token = jwt.encode(provider.claims(), rsa_key(), algorithm, headers={"kid": "rsa"})
        with pytest.raises(NotAuthenticated):
            provider.issuer.principal_of(token)


def test_a_key_is_the_issuers_and_no_other(provider: Provider) -> None:
    with pytest.raises(Unreachable):
        provider.issuer.principal_of(provider.token("two"))  # starts a read of the keys
    settle()
    stranger = jwt.encode(provider.claims(), KEYS["two"], "ES256", headers={"kid": "one"})
    mine = jwt.algorithms.ECAlgorithm.to_jwk(KEYS["two"].public_key(), as_dict=True)
    evil = "https://evil.example.com"
    own = {"kid": "two", "jwk": mine, "jku": f"{evil}/keys", "x5u": evil}
    brought = jwt.encode(provider.claims(), KEYS["two"], "ES256", headers=own)
    crossed = jwt.encode(provider.claims(), KEYS["one"], "ES256", headers={"kid": "rsa"})
    nameless = jwt.encode(provider.claims(), KEYS["one"], "ES256")
    for token in (stranger, brought, crossed, nameless):
        with pytest.raises(NotAuthenticated):
            provider.issuer.principal_of(token)
    head, body, mark = provider.token().split(".")
    other = encoded(provider.claims(groups=["admins"]))
    deep = f"{base64.urlsafe_b64encode(b'[' * 12_000).decode()}.{body}.{mark}"
    bare = (f"{head}.{other}.{mark}", f"{head}.{body}.", f"{head}.{body}", "", "..", "x" * 20_000)
    for token in (*bare, deep, f"{provider.token()}{'A' * 20_000}", "\udc80.a.b"):
        with pytest.raises(NotAuthenticated):
            provider.issuer.principal_of(token)


@pytest.mark.parametrize("headers", [{"crit": ["exp"]}, {"typ": "logout+jwt"}, {"typ": "dpop+jwt"}])
def test_a_token_of_another_kind_is_none(provider: Provider, headers: dict[str, Any]) -> None:
    with pytest.raises(NotAuthenticated):
        provider.issuer.principal_of(provider.token(headers=headers))


def test_only_public_keys_that_sign_count() -> None:
    private = jwt.algorithms.ECAlgorithm.to_jwk(KEYS["one"], as_dict=True)
    useless = [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "a"},
        {**private, "kid": "b"},
        {**json.loads(shown("one"))["keys"][0], "use": "enc"},
        {"kty": "RSA", "n": "AQAB", "e": "!", "kid": "c"},
        {"kty": "EC", "kid": 5},
        {"kty": ["EC"], "kid": "d"},
        {**json.loads(shown("one"))["keys"][0], "alg": "ES512"},
        {**jwt.algorithms.ECAlgorithm.to_jwk(OTHER_CURVE.public_key(), as_dict=True), "kid": "e"},
        {**jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key(1_024).public_key(), as_dict=True), "kid": "f"},
        {
            **jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key().public_key(), as_dict=True),
            "kid": "g",
            "alg": "PS256",
        },
        "no key",
    ]
    for document in ([*useless], [], None):
        with pytest.raises(InvalidRequest):
            public_keys(json.dumps({"keys": document}).encode())
    good = json.loads(shown("two"))["keys"]
    assert public_keys(json.dumps({"keys": [*useless, *good]}).encode()).keys() == {"two", "rsa"}


def test_a_new_key_is_asked_for_and_not_more_often_than_now_and_then(provider: Provider) -> None:
    provider.answer, provider.holds = shown("one", "two"), threading.Event()
    for _ in range(9):
        with pytest.raises(Unreachable):  # not 401, after which clients would not retry
            provider.issuer.principal_of(provider.token("two"))
    assert provider.issuer.principal_of(provider.token()).name == "oidc:alice"
    provider.holds.set()
    settle()
    assert provider.issuer.principal_of(provider.token("two")).name == "oidc:alice"
    for number in range(50):
        forged = jwt.encode(provider.claims(), KEYS["one"], "ES256", headers={"kid": str(number)})
        with pytest.raises(NotAuthenticated):
            provider.issuer.principal_of(forged)
    assert provider.asked == 2
    provider.clock.advance(AGAIN_SECONDS)
    with pytest.raises(Unreachable):
        provider.keys.key("unknown")
    settle()
    assert (provider.keys.key("unknown"), provider.asked) == (None, 3)


def test_keys_that_are_too_old_count_no_more(provider: Provider) -> None:
    """A withdrawn key expires even if the issuer is unreachable."""
    provider.is_away = True
    provider.clock.advance(3_600)
    assert provider.keys.key("one") is not None
    provider.clock.advance(1)
    with pytest.raises(Unreachable):
        provider.keys.key("one")
    settle()
    provider.is_away, provider.answer = False, shown("two")
    provider.keys.refresh()
    with pytest.raises(NotAuthenticated):
        provider.issuer.principal_of(provider.token())


def test_roles_are_of_the_settings_only() -> None:
    claims = {"preferred_username": "alice", "groups": ["readers"], "role": "admin", "owners": ["team-web"]}
    assert principal_from(claims, TRUST) == Principal("oidc:alice", Role.VIEWER)


def test_calls_by_rest(provider: Provider) -> None:
    site = Site(access=AccessMethods(issuer=provider.issuer, hosts=HOSTS))

    def status(token: str, method: str = "GET", path: str = "/v1/plan") -> int:
        sent = {"Authorization": f"Bearer {token}"}
        return client_of(site.app).request(method, path, json={}, headers=sent).status_code

    assert status(provider.token()) == 200
    assert status(provider.token(groups=["readers"]), "POST", "/v1/datastreams/orders/pause") == 403
    assert status(provider.token(groups=["elsewhere"])) == 401
    assert status("hr_00000000_" + "0" * 64) == 401
    assert site.client.get("/v1/plan").status_code == 401
    provider.clock.advance(10_000)
    provider.is_away = True
    assert status(provider.token()) == 503
