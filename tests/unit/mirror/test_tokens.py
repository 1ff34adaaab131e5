"""Test bearer tokens read from a file that another process renews."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from mirror.errors import NotAuthorized
from mirror.tokens import expiry_of, token_from_file


def web_token(claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.c2lnbmF0dXJl"


def test_the_file_is_read_anew_for_every_authentication(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    give = token_from_file(str(file))
    assert give() == "one"
    file.write_text("two\n")
    assert give() == "two"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotAuthorized, match="no-token"):
        token_from_file(str(tmp_path / "no-token"))()


@pytest.mark.parametrize("claims", [{"exp": 5000}, {"exp": 5000.0, "sub": "somebody else"}])
def test_a_web_token_says_when_it_ends(claims: object) -> None:
    assert expiry_of(web_token(claims), 100.0) == 5000.0


@pytest.mark.parametrize(
    "token",
    ["", "opaque", "a.b.c", "a.!!!!.c", web_token({}), web_token([]), web_token({"exp": "soon"}), "é.é"],
)
def test_any_other_is_used_for_a_minute(token: str) -> None:
    assert expiry_of(token, 100.0) == 160.0
