"""The measure of prose used by `make lint`."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.voice import main, measure

_ODD = '"""What is known of it."""\n'
_PLAIN = '"""Return the lag of each partition."""\n'


def test_docstrings_with_odd_phrases_and_openers_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(_ODD)
    (tmp_path / "b.py").write_text(_PLAIN + 'TEXT = "short"\n')
    found = measure(tmp_path)
    assert (found.words, found.openers_percent) == (5 + 6, 50.0)
    assert found.per_10000_words == pytest.approx(1e4 * 4 / 11)
    assert [text.place for _, text in found.worst] == [f"{tmp_path / 'a.py'}:1"]


def test_pages_are_measured_without_code_and_generated_references(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("Nobody says that here.\n\n```\nnobody says what it is\n```\n")
    (tmp_path / "rest.md").write_text("Nobody says that here.\n")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "page.md").write_text("Nobody says that here.\n")
    found = measure(tmp_path)
    assert (found.words, found.openers_percent) == (4, None)
    assert found.per_10000_words == pytest.approx(5000)


@pytest.mark.parametrize(("text", "status"), [(_ODD, 1), (_PLAIN, 0), ("", 0)])
def test_a_path_above_the_limit_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, status: int
) -> None:
    (tmp_path / "a.py").write_text(text)
    assert main(["--max", "25", "--worst", "1", str(tmp_path)]) == status
    assert ("a.py:1" in capsys.readouterr().out) == bool(status)
