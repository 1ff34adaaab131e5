"""Test SASL DIGEST-MD5 with the example of RFC 2831, section 4."""

from __future__ import annotations

import pytest

from mirror.adapters.digest_md5 import DigestMd5, directives
from mirror.errors import NotAuthorized

CHALLENGE = b'realm="elwood.innosoft.com",nonce="OA6MG9tEQGm2hh",qop="auth",algorithm=md5-sess,charset=utf-8'
FINAL = b"rspauth=ea40f60335c427b5527b84dbabcdfffd"


def exchange(password: str = "secret", username: str = "chris") -> DigestMd5:
    return DigestMd5(username, password, "imap/elwood.innosoft.com", "OA6MHXh6VqTrRk")


def test_the_proof_is_that_of_the_standards_example() -> None:
    answer = directives(exchange().answer(CHALLENGE))
    assert answer == {
        "username": "chris",
        "realm": "elwood.innosoft.com",
        "nonce": "OA6MG9tEQGm2hh",
        "cnonce": "OA6MHXh6VqTrRk",
        "nc": "00000001",
        "qop": "auth",
        "digest-uri": "imap/elwood.innosoft.com",
        "response": "d388dad90d4bbd760a152321f2143af7",
        "charset": "utf-8",
    }


def test_the_servers_proof_is_checked() -> None:
    client = exchange()
    client.answer(CHALLENGE)
    client.check(FINAL)
    other = exchange("another")
    other.answer(CHALLENGE)
    for said in (FINAL, b"", b"rspauth="):
        with pytest.raises(NotAuthorized, match="failed to prove"):
            other.check(said)


def test_nothing_is_believed_before_the_challenge_is_answered() -> None:
    with pytest.raises(NotAuthorized):
        exchange().check(b"rspauth=")


@pytest.mark.parametrize("challenge", [b"", b"hello", b'realm="r"', b'nonce="n",qop="auth-int,auth-conf"'])
def test_another_mechanisms_challenge_is_refused(challenge: bytes) -> None:
    with pytest.raises(NotAuthorized, match="DIGEST-MD5 challenge"):
        exchange().answer(challenge)


def test_a_server_may_offer_more_and_leave_the_realm_out() -> None:
    answer = directives(exchange().answer(b'nonce="n",qop="auth-conf,auth"'))
    assert (answer["realm"], answer["qop"]) == ("", "auth")


@pytest.mark.parametrize("name", ['a"b', "a\\b", "ü,=", 'end\\"'])
def test_names_of_any_shape_are_quoted(name: str) -> None:
    assert directives(exchange(username=name).answer(CHALLENGE))["username"] == name
