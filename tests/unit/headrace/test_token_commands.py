"""Test `headrace token`: output, stored hashes, and effect."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from api.access.rights import Principal, Role
from api.access.tokens import TokenFile, add_entry, new_token, read_entries
from mirror.errors import NotAuthenticated
from tests.fakes.clock import ManualClock
from tests.unit.headrace.conftest import Headrace


def test_a_token_is_printed_once_and_kept_as_a_hash(headrace: Headrace, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    made = headrace(
        "token", "add", "ci", "--role", "owner", "--owner", "a", "--owner", "b", "--file", str(file)
    )
    token = made.out.strip()
    assert (made.code, token[:3], "shown again" in made.err) == (0, "hr_", True)
    assert token.rpartition("_")[2] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    tokens = TokenFile(file, ManualClock())
    assert tokens.principal_of(token) == Principal("ci", Role.OWNER, frozenset({"a", "b"}))
    (row,) = json.loads(headrace("token", "list", "--file", str(file), "--json").out)
    assert (row["name"], row["owners"], row["expires"]) == ("ci", ["a", "b"], None)
    assert token[12:] not in json.dumps(row)
    assert headrace("token", "revoke", row["id"], "--file", str(file)).code == 0
    with pytest.raises(NotAuthenticated):
        tokens.principal_of(token)
    again = headrace("token", "revoke", row["id"], "--file", str(file))
    assert (again.code, "no token" in again.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("ci --role king", "king"),
        ("ci --role owner", "owners"),
        ("ci --role viewer --owner a", "owners"),
        ("ci --expires-in soon", "duration"),
        ("ci", "api.access.token_file"),
    ],
)
def test_what_cannot_be_is_refused(headrace: Headrace, tmp_path: Path, arguments: str, says: str) -> None:
    place = [] if says.startswith("api.") else ["--file", str(tmp_path / "tokens")]
    shown = headrace("token", "add", *arguments.split(), *place)
    assert (shown.code, says in shown.err) == (2, True), shown.err
    assert not (tmp_path / "tokens").exists()


def test_comments_stay_and_a_damaged_file_is_left_as_it_is(headrace: Headrace, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("# of the team\n")
    file.chmod(0o640)
    assert headrace("token", "add", "ci", "--file", str(file)).code == 0
    assert file.read_text().startswith("# of the team\n{")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    file.write_text('{"id": 1}\n')
    assert "line 1" in headrace("token", "add", "cd", "--file", str(file)).err
    assert file.read_text() == '{"id": 1}\n'


def test_of_tokens_that_are_added_at_once_none_is_lost(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    entries = [new_token(Principal(f"p{number}", Role.VIEWER), 0)[1] for number in range(20)]
    with ThreadPoolExecutor(5) as crew:
        list(crew.map(lambda one: add_entry(file, one), entries))
    assert set(read_entries(file)) == {one.identity for one in entries}
    assert [one.name for one in tmp_path.iterdir()] == ["tokens"]
