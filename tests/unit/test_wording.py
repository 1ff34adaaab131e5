"""Agreement of numbers with their nouns."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from mirror.wording import counted, with_place
from scripts.architecture import nodes_of

ROOT: Final = Path(__file__).parents[2]
WINGS: Final = ("mirror", "pinot", "pmp", "assigner", "monitor", "api", "headrace")
NOUNS: Final = (
    "partition|datastream|task|observation|record|rebalance|setting|instance|lane|position|warning|problem|topic|core|"
    "rollup|sample|worker|request|definition|group|hour|package|interval|znode|host|offset"
)
PLURAL: Final = re.compile(rf" (?:\w+ )?(?:{NOUNS})s\b")
PARTS: Final = ("mirror/protocol", "mirror/lane")
"""Folders whose messages about corrupt or oversized data never count a single object."""

EXEMPT: Final = {
    "action",
    "command.action",
    "count",
    "counted(found.observations, 'interval')",
    "'pause' if command.pause else 'resume'",
    "datastream.group",
    "found.hours",
    "kind",
    "new.group",
    "observations",
    "rate",
    "self._name",
    "self.name",
    "self.topic",
    "share",
    "shown(answer.measured)",
}
"""Values that are not counts, or that are known to be more than one."""


def test_one_is_one() -> None:
    assert counted(1, "task") == "1 task"
    assert counted(0, "task") == "0 tasks"
    assert counted(2, "search", "searches") == "2 searches"
    assert counted(1, "part is well", "parts are well") == "1 part is well"
    assert counted(12_345, "record", form=",") == "12,345 records"


def _files() -> Iterator[Path]:
    for wing in WINGS:
        for file in sorted((ROOT / wing).rglob("*.py")):
            if not str(file.relative_to(ROOT)).startswith(PARTS):
                yield file


def _is_constant(value: ast.expr) -> bool:
    name = ast.unparse(value).rpartition(".")[2]
    return name.isupper()


def _counts(file: Path) -> Iterator[str]:
    for node in nodes_of(file):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, text in zip(node.values, node.values[1:], strict=False):
            if not isinstance(value, ast.FormattedValue) or not isinstance(text, ast.Constant):
                continue
            found = ast.unparse(value.value)
            if PLURAL.match(str(text.value)) and found not in EXEMPT and not _is_constant(value.value):
                yield f"{file.relative_to(ROOT)}:{value.lineno}: {{{found}}}{text.value!r}"


def test_every_count_agrees_with_its_noun() -> None:
    """`counted` formats numbers before a noun."""
    assert [one for file in _files() for one in _counts(file)] == []


@pytest.mark.parametrize(
    ("place", "reason", "text"),
    [
        ("t-0", "paused", "t-0: paused"),
        ("t-0", "cannot read t-0 of source", "cannot read t-0 of source"),
        ("t-0", "t-0 has no leader", "t-0 has no leader"),
        ("t-1", "cannot read t-10 of source", "t-1: cannot read t-10 of source"),
        ("t-0", "cannot read a.t-0", "t-0: cannot read a.t-0"),
        ("t.0-1", "cannot read t-0-1", "t.0-1: cannot read t-0-1"),
    ],
)
def test_a_reason_names_its_place_once(place: str, reason: str, text: str) -> None:
    assert with_place(place, reason) == text
