"""Test bearer tokens read from a file that another process renews."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror.errors import NotAuthorized
from mirror.tokens import token_from_file


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


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(NotAuthorized, match="token"):
        token_from_file(str(file))()
