"""Commands that edit the token file keep its comments, whatever they contain."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.access.rights import Principal, Role
from api.access.tokens import add_entry, new_token, read_entries, revoke


@pytest.mark.parametrize(
    "comment",
    [
        "# für das Team",
        "# a form feed \x0c in the middle",
        "# a separator \u2028 in the middle",
        "# an old line end \x85 too",
        "# in Latin-1: für".encode("latin-1"),
    ],
)
def test_comments_of_the_operator_are_kept(tmp_path: Path, comment: str | bytes) -> None:
    path = tmp_path / "tokens"
    line = comment if isinstance(comment, bytes) else comment.encode()
    path.write_bytes(line + b"\n\n")
    path.chmod(0o600)
    _, entry = new_token(Principal("ci", Role.VIEWER), 1)
    add_entry(path, entry)
    assert read_entries(path) == {entry.identity: entry}, "an unreadable file would admit no token at all"
    assert revoke(path, entry.identity) == entry
    assert path.read_bytes() == line + b"\n\n"
