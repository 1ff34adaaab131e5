"""The configuration reference, generated from the settings classes."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import AwareDatetime, BaseModel, SecretStr
from pydantic.fields import FieldInfo

from headrace.settings import PREFIX, HeadraceSettings

_INTRODUCTION = f"""# Configuration

One TOML file for everything: `headrace serve --config FILE`, or `HEADRACE_CONFIG`, or `./headrace.toml`.
The environment wins over the file: `{PREFIX}ZOOKEEPER__SERVERS=host:2181` sets `zookeeper.servers`.
The defaults fit the servers of `headrace stack up`. An unknown key is an error that names it;
`headrace config check` shows what is in force. This page is generated: `headrace config reference`.
"""


def settings_reference() -> str:
    """Markdown: a section for each settings class, a row for each key."""
    sections = [_INTRODUCTION]
    for name, field in HeadraceSettings.model_fields.items():
        model = _model_of(field)
        if model is None:
            continue
        path = f"{name}.NAME" if _is_mapping(field) else name
        sections.extend(_section(path, model))
    return "\n".join(sections)


def _section(path: str, model: type[BaseModel]) -> Iterator[str]:
    yield f"## `[{path}]`\n\n{' '.join((model.__doc__ or '').split())}\n"
    rows = []
    nested: list[tuple[str, type[BaseModel]]] = []
    for name, field in model.model_fields.items():
        inner = _model_of(field)
        if inner is not None:
            nested.append((f"{path}.{name}.NAME" if _is_mapping(field) else f"{path}.{name}", inner))
        else:
            rows.append(f"| `{name}` | {_type(field.annotation)} | {_default(field)} | {_text(field)} |")
    if rows:
        yield "| key | type | default | meaning |\n|---|---|---|---|"
        yield "\n".join(rows) + "\n"
    for inner_path, inner in nested:
        yield from _section(inner_path, inner)


def _model_of(field: FieldInfo) -> type[BaseModel] | None:
    for candidate in (field.annotation, *get_args(field.annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None


def _is_mapping(field: FieldInfo) -> bool:
    return str(field.annotation).startswith("dict")


_WORDS: Final = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    SecretStr: "text, secret",
    dict: "table",
    AwareDatetime: "date and time",
}


def _type(annotation: Any) -> str:
    """What a key takes, in the words of TOML."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(arguments[0])
    if origin is Literal:
        return ", ".join(f"`{_toml(value)}`" for value in arguments)
    if origin in (UnionType, Union):
        return " or ".join(_type(one) for one in arguments if one is not NoneType)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(f"`{_toml(one.value)}`" for one in annotation)
    if origin is list:
        return f"list of {_type(arguments[0])}"
    return _WORDS[origin or annotation]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None:
        return "unset"
    if isinstance(value, SecretStr) or value in ("", {}):
        return "empty"
    return f"`{_toml(value)}`"


def _toml(value: object) -> str:
    """A value as it is written in the file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _text(field: FieldInfo) -> str:
    return " ".join((field.description or "").split()).replace("|", "\\|")
