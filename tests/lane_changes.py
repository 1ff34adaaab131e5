"""Modules that change a lane's fields, counted through method calls, and other measures of its structure.

python -m tests.lane_changes        print the measures

A module changes a field if it assigns it, if it calls a method of the lane that assigns it (directly or
through other methods), or if it does either to the mutable object in the field. Lanes are recognized by name
(`lane`), by annotation, and through the objects that refer to one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from scripts.architecture import ROOT, nodes_of, tree_of

MODULES: Final = sorted((ROOT / "mirror").rglob("*.py"))
SIZED: Final = ("mirror/client/", "mirror/instance/", "mirror/lane/", "mirror/replication/", "mirror/worker/")
"""Packages whose classes are limited in size."""
LANE: Final = "Lane"
PARTS: Final = (
    "Lane",
    "LaneRead",
    "FetchSize",
    "LaneQueue",
    "LaneOwnership",
    "TransactionState",
    "LaneProgress",
    "LaneObservation",
)
"""Classes whose fields are those of a lane."""
MUTATORS: Final = frozenset(
    ("append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "add", "discard", "sort")
)
"""Methods of lists, dictionaries and sets that change them."""

Functions = ast.FunctionDef | ast.AsyncFunctionDef


class Kind(NamedTuple):
    """A class of the product: its module, its syntax tree, and the names of its bases."""

    module: str
    node: ast.ClassDef
    bases: tuple[str, ...]


@cache
def kinds() -> dict[str, Kind]:
    """Return the classes of `mirror` by name."""
    return {
        node.name: Kind(
            str(file.relative_to(ROOT)),
            node,
            tuple(base.id for base in node.bases if isinstance(base, ast.Name)),
        )
        for file in MODULES
        for node in tree_of(file).body
        if isinstance(node, ast.ClassDef)
    }


@cache
def lineage(name: str) -> tuple[str, ...]:
    """Return a class and its bases in `mirror`."""
    known = kinds().get(name)
    if known is None:
        return ()
    return (name, *(one for base in known.bases for one in lineage(base)))


@cache
def methods_of(name: str) -> dict[str, Functions]:
    """Return the methods of a class and of its bases by name."""
    found: dict[str, Functions] = {}
    for one in reversed(lineage(name)):
        found |= {node.name: node for node in kinds()[one].node.body if isinstance(node, Functions)}
    return found


@cache
def fields_of(name: str) -> set[str]:
    """Return the fields that a class itself declares, or that its methods assign if it declares none."""
    node, found = kinds()[name].node, set[str]()
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            found |= {part.target.id} if "ClassVar" not in ast.unparse(part.annotation) else set()
        elif isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "__slots__":
            found |= {str(one.value) for one in ast.walk(part.value) if isinstance(one, ast.Constant)}
    if found:
        return found
    for store in (one for one in ast.walk(node) if isinstance(one, ast.Attribute)):
        if isinstance(store.ctx, ast.Store) and ast.unparse(store.value) == "self":
            found.add(store.attr)
    return found


@cache
def field_types(name: str) -> dict[str, str]:
    """Return the class of each field of a class that holds an object of `mirror`."""
    found: dict[str, str] = {}
    for one in reversed(lineage(name)):
        for node in ast.walk(kinds()[one].node):
            pairs: list[tuple[ast.expr, ast.expr]]
            if isinstance(node, ast.AnnAssign):
                pairs = [(node.target, node.annotation)]
            elif isinstance(node, ast.Assign):
                pairs = [(target, node.value) for target in node.targets]
            else:
                continue
            for target, value in pairs:
                kind = _named_kind(value)
                if kind and isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                    found[target.attr] = kind
                elif kind and isinstance(target, ast.Name) and isinstance(node, ast.AnnAssign):
                    found[target.id] = kind
        for function in methods_of(one).values():
            if _is_property(function) and (kind := _named_kind(function.returns)):
                found[function.name] = kind
    return found


def _is_property(function: Functions) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "property" for one in function.decorator_list)


def _named_kind(node: ast.expr | None) -> str:
    """Return the class of `mirror` that an annotation or a call names, empty if none."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.BinOp):
        return _named_kind(node.left) or _named_kind(node.right)
    name = node.id if isinstance(node, ast.Name) else ""
    return name if name in kinds() and not {"Protocol", "NamedTuple"} & set(kinds()[name].bases) else ""


Changed = tuple[str, str]
"""Class and field."""


def _owner_of(kind: str, field: str) -> str:
    """Return the class in the lineage of `kind` that declares the field."""
    return next((one for one in lineage(kind) if field in fields_of(one)), kind)


class _Changes:
    """Fields that a function changes. `names`: classes of the local names that refer to objects."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names
        self.found: set[Changed] = set()
        self.calls: set[tuple[str, str]] = set()

    def kind_of(self, node: ast.expr) -> str:
        """Return the class of an expression, empty if unknown."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, LANE if node.id == "lane" else "")
        if isinstance(node, ast.Attribute):
            if node.attr in ("lane", "_lane"):
                return LANE
            kind = self.kind_of(node.value)
            return field_types(kind).get(node.attr, "") if kind else ""
        if isinstance(node, ast.NamedExpr):
            return self.kind_of(node.value)
        return ""

    def visit(self, function: ast.AST) -> None:
        """Collect what a function changes, including its inner functions."""
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._alias(node.targets[0], node.value)
            elif isinstance(node, ast.NamedExpr):
                self._alias(node.target, node.value)
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute):
                self._attribute(node)
            elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
                if isinstance(node.value, ast.Attribute):
                    self._change(node.value)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                holder = node.func.value
                if node.func.attr in MUTATORS and isinstance(holder, ast.Attribute):
                    self._change(holder)

    def _alias(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for one, other in zip(target.elts, value.elts, strict=False):
                self._alias(one, other)
        elif isinstance(target, ast.Name) and (kind := self.kind_of(value)):
            self.names[target.id] = kind

    def _attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name) and node.value.id in PARTS:
            self.calls.add((node.value.id, node.attr))  # such as `Lane.restore`, passed as a function
            return
        kind = self.kind_of(node.value)
        if not kind:
            return
        if not isinstance(node.ctx, ast.Load):
            self._change(node)
        elif node.attr in methods_of(kind):
            self.calls.add((kind, node.attr))
            if isinstance(node.value, ast.Attribute) and kind not in PARTS and mutates(kind, node.attr):
                self._change(node.value)

    def _change(self, node: ast.Attribute) -> None:
        """Record a change of the field, and of the field that holds an object which is no part of a lane."""
        kind = self.kind_of(node.value)
        if kind:
            self.found.add((_owner_of(kind, node.attr), node.attr))
            if isinstance(node.value, ast.Attribute) and kind not in PARTS:
                self._change(node.value)


@cache
def _own_changes(kind: str, method: str) -> _Changes:
    function = methods_of(kind)[method]
    changes = _Changes({"self": kind} | _annotated(function))
    changes.visit(function)
    return changes


def _annotated(function: Functions) -> dict[str, str]:
    arguments = function.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    return {one.arg: kind for one in every if (kind := _named_kind(one.annotation))}


@cache
def changes_of(kind: str, method: str) -> frozenset[Changed]:
    """Return the fields that a method changes, directly or through other methods."""
    found, waiting, seen = set[Changed](), [(kind, method)], set[tuple[str, str]]()
    while waiting:
        call = waiting.pop()
        if call in seen or call[1] not in methods_of(call[0]):
            continue
        seen.add(call)
        own = _own_changes(*call)
        found |= own.found
        waiting += own.calls
    return frozenset(found)


@cache
def mutates(kind: str, method: str) -> bool:
    """Return whether a method changes its object."""
    return any(owner in lineage(kind) for owner, _ in changes_of(kind, method))


@cache
def modules_by_field() -> dict[Changed, frozenset[str]]:
    """Return the modules that change each field of a lane. The lane's own classes do not count."""
    found: dict[Changed, set[str]] = {
        (name, field): set() for name in PARTS if name in kinds() for field in fields_of(name)
    }
    for file in MODULES:
        name = str(file.relative_to(ROOT))
        for function in _outer_functions(tree_of(file)):
            changes = _Changes(_annotated(function) | _self_of(file, function))
            changes.visit(function)
            calls = [call for call in changes.calls if call[0] in PARTS]
            changed = changes.found.union(*(changes_of(*call) for call in calls))
            for field in changed & found.keys():
                found[field].add(name)
    return {field: frozenset(modules) for field, modules in found.items()}


def _outer_functions(tree: ast.Module) -> Iterator[Functions]:
    for node in tree.body:
        if isinstance(node, Functions):
            yield node
        elif isinstance(node, ast.ClassDef) and node.name not in PARTS:
            yield from (one for one in node.body if isinstance(one, Functions))


def _self_of(file: Path, function: Functions) -> dict[str, str]:
    for node in tree_of(file).body:
        if isinstance(node, ast.ClassDef) and function in node.body:
            return {"self": node.name}
    return {}


def shared_fields() -> dict[Changed, frozenset[str]]:
    """Return the fields of a lane that several modules change."""
    return {field: modules for field, modules in modules_by_field().items() if len(modules) > 1}


def booleans() -> set[Changed]:
    """Return the boolean fields of a lane."""
    return {
        (name, target.attr)
        for name in PARTS
        if name in kinds()
        for node in ast.walk(kinds()[name].node)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target, value in _assignments(node)
        if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"
        if target.attr in fields_of(name)
        if isinstance(value, ast.Constant) and isinstance(value.value, bool)
    } | {
        (name, node.target.id)
        for name in PARTS
        if name in kinds()
        for node in kinds()[name].node.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if ast.unparse(node.annotation) == "bool"
    }


def _assignments(node: ast.Assign | ast.AnnAssign) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=True)
        else:
            yield target, node.value


def chains() -> list[str]:
    """Return the accesses to an object through another: through the runner of lanes, or to a `bench`."""
    found = []
    for file in MODULES:
        for node in nodes_of(file):
            if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Attribute):
                continue
            text = ast.unparse(node)
            if re.fullmatch(r"(self\._?)?runner\.\w+\.\w+|.*\w\.bench\.\w+", text):
                found.append(f"{file.relative_to(ROOT)}:{node.lineno} {text}")
    return found


def large_classes(most_methods: int = 25, most_fields: int = 20) -> dict[str, tuple[int, int]]:
    """Return methods and fields of each class of the sized packages that has more."""
    sizes = {
        name: (sum(isinstance(one, Functions) for one in kind.node.body), len(fields_of(name)))
        for name, kind in kinds().items()
        if kind.module.startswith(SIZED)
    }
    return {name: size for name, size in sizes.items() if size[0] > most_methods or size[1] > most_fields}


def _lines() -> Iterable[str]:
    fields, shared = modules_by_field(), shared_fields()
    yield f"{len(fields)} fields of a lane, {len(shared)} changed by several modules:"
    for (name, field), modules in sorted(shared.items(), key=lambda one: (-len(one[1]), one[0])):
        yield f"  {name}.{field}: {len(modules)}: {', '.join(sorted(modules))}"
    flags = sorted(".".join(one) for one in booleans())
    yield f"{len(flags)} booleans: {', '.join(flags)}"
    yield f"{len(chains())} chains"
    yield "classes with more than 25 methods or 20 fields:"
    for name, (methods, count) in sorted(large_classes().items()):
        yield f"  {name}: {methods} methods, {count} fields"


if __name__ == "__main__":
    print("\n".join(_lines()))
