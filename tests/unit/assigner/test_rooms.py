"""Import rules inside the assigner."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import assigner

ROOMS = sorted(Path(assigner.__file__).parent.rglob("*.py"))


@cache
def nodes_of(file: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(file.read_text())))


def imported(file: Path) -> set[str]:
    names = set()
    for node in nodes_of(file):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


@pytest.mark.parametrize("library", ["ortools", "scipy"])
def test_one_room_each_for_the_solver_and_for_matching(library: str) -> None:
    users = [room.name for room in ROOMS if any(name.split(".")[0] == library for name in imported(room))]
    assert users == {"ortools": ["exact.py"], "scipy": ["relabel.py"]}[library]


def test_the_verifier_shares_no_code_with_the_stages() -> None:
    ours = {
        name
        for name in imported(Path(assigner.__file__).parent / "answer/check.py")
        if name.startswith("assigner")
    }
    assert ours == {"assigner.problem.loads", "assigner.answer.placement_answer"}


def test_no_room_reads_a_clock() -> None:
    for room in ROOMS:
        assert "time" not in imported(room), room.name
        clocks = {f"{kind}.{name}" for kind in ("datetime", "date") for name in ("now", "utcnow", "today")}
        methods = {clock.partition(".")[2] for clock in clocks}
        names = {
            ast.unparse(node)
            for node in nodes_of(room)
            if isinstance(node, ast.Attribute) and node.attr in methods
        }
        assert not clocks & names, room.name


def test_no_plan_leaves_unchecked() -> None:
    """Every plan is verified before its return, and no other code makes plans."""
    tree = ast.parse((Path(assigner.__file__).parent / "planner.py").read_text())
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "plan")
    assert [ast.unparse(line) for line in function.body[-2:]] == [
        "check_plan(result, capacity, limits)",
        "return result",
    ]
    users = [room.name for room in ROOMS if "assigner.answer.assemble" in imported(room)]
    assert users == ["planner.py"]


def test_only_one_module_knows_what_a_task_may_hold_besides_its_load() -> None:
    """A further rule changes only `problem/limits.py`, besides the independent check of the verifier."""
    knowing = {
        str(room.relative_to(Path(assigner.__file__).parent))
        for room in ROOMS
        if "max_partitions_per_task" in room.read_text() and room.parent.name != "what_if"
    }
    assert knowing == {"problem/problem.py", "answer/check.py"}
