"""Tables and keys of the settings file, derived from the settings classes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from itertools import pairwise
from textwrap import dedent
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from headrace.settings import HeadraceSettings, model_of


class Section(NamedTuple):
    """A table of the settings file.

    `path`: path of the table, in which NAME stands for any name. `meaning`: purpose of the table. `meanings`:
    description of each key on one line.
    """

    path: str
    meaning: str
    keys: Mapping[str, FieldInfo]
    meanings: Mapping[str, str]


def sections() -> Iterator[Section]:
    """Yield every table. A table comes before its subtables."""
    for name, field in HeadraceSettings.model_fields.items():
        model = model_of(field)
        if model is not None:
            yield from _sections(f"{name}.NAME" if _is_mapping(field) else name, model)


def _sections(path: str, model: type[BaseModel]) -> Iterator[Section]:
    keys: dict[str, FieldInfo] = {}
    nested: list[tuple[str, type[BaseModel]]] = []
    for name, field in model.model_fields.items():
        inner = model_of(field)
        if inner is None:
            keys[name] = field
        else:
            nested.append((f"{path}.{name}.NAME" if _is_mapping(field) else f"{path}.{name}", inner))
    yield Section(path, " ".join((model.__doc__ or "").split()), keys, _meanings_of(model))
    for inner_path, inner in nested:
        yield from _sections(inner_path, inner)


def _is_mapping(field: FieldInfo) -> bool:
    return str(field.annotation).startswith("dict")


def default_of(field: FieldInfo) -> Any:
    """Return the default of a setting's field."""
    return field.get_default(call_default_factory=True, validated_data={})


def toml_text(value: object) -> str:
    """Format the value of a setting as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(toml_text, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _meanings_of(model: type[BaseModel]) -> dict[str, str]:
    """Map each setting of a class to its description: the string after it in the source.

    Processes of the service do not use this function. pydantic's own search would take a tenth of the CPU
    time of their start.
    """
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if is_dataclass(base) or (issubclass(base, BaseModel) and not base.__module__.startswith("pydantic")):
            (definition,) = ast.parse(dedent(inspect.getsource(base))).body
            assert isinstance(definition, ast.ClassDef)
            found |= dict(filter(None, map(_described, pairwise(definition.body))))
    return found


def _described(pair: tuple[ast.stmt, ast.stmt]) -> tuple[str, str] | None:
    match pair:
        case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
            return name, " ".join(text.split())
    return None
