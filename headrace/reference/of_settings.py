"""The configuration reference, generated from the settings classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import AwareDatetime, BaseModel, SecretStr
from pydantic.fields import FieldInfo

from headrace.console.access.document import PREFIX
from headrace.settings import HeadraceSettings

_INTRODUCTION = f"""# Configuration

One TOML file for everything: `headrace serve --config FILE`, or `HEADRACE_CONFIG`, or `./headrace.toml`.
The environment wins over the file: `{PREFIX}ZOOKEEPER__SERVERS=host:2181` sets `zookeeper.servers`.
The defaults fit the servers of `headrace stack up`. An unknown key is an error that names it;
`headrace config check --verbose` shows what is in force. This page is generated: `headrace config reference`.
"""


class Section(NamedTuple):
    """One table of the file: its path, in which NAME stands for any name, what it is for, and its keys."""

    path: str
    meaning: str
    keys: Mapping[str, FieldInfo]


def sections() -> Iterator[Section]:
    """Every table, each before those below it."""
    for name, field in HeadraceSettings.model_fields.items():
        model = _model_of(field)
        if model is not None:
            yield from _sections(f"{name}.NAME" if _is_mapping(field) else name, model)


def settings_reference() -> str:
    """Markdown: a section for each settings class, a row for each key."""
    parts = [_INTRODUCTION]
    for section in sections():
        parts.append(f"## `[{section.path}]`\n\n{section.meaning}\n")
        rows = [
            f"| `{name}` | {_type(field.annotation)} | {_default(field)} | {meaning_of(field)} |"
            for name, field in section.keys.items()
        ]
        if rows:
            parts.append("| key | type | default | meaning |\n|---|---|---|---|")
            parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def _sections(path: str, model: type[BaseModel]) -> Iterator[Section]:
    keys: dict[str, FieldInfo] = {}
    nested: list[tuple[str, type[BaseModel]]] = []
    for name, field in model.model_fields.items():
        inner = _model_of(field)
        if inner is None:
            keys[name] = field
        else:
            nested.append((f"{path}.{name}.NAME" if _is_mapping(field) else f"{path}.{name}", inner))
    yield Section(path, " ".join((model.__doc__ or "").split()), keys)
    for inner_path, inner in nested:
        yield from _sections(inner_path, inner)


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
        return ", ".join(f"`{toml_text(value)}`" for value in arguments)
    if origin in (UnionType, Union):
        return " or ".join(_type(one) for one in arguments if one is not NoneType)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(f"`{toml_text(one.value)}`" for one in annotation)
    if origin is list:
        return f"list of {_type(arguments[0])}"
    return _WORDS[origin or annotation]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = default_of(field)
    if value is None:
        return "unset"
    if isinstance(value, SecretStr) or value in ("", {}):
        return "empty"
    return f"`{toml_text(value)}`"


def default_of(field: FieldInfo) -> Any:
    """The value of a key that nobody sets."""
    return field.get_default(call_default_factory=True, validated_data={})


def toml_text(value: object) -> str:
    """A value as it is written in the file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(toml_text, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def meaning_of(field: FieldInfo) -> str:
    """What a key is for, on one line of a table."""
    return " ".join((field.description or "").split()).replace("|", "\\|")
