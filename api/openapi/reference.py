"""The reference page of /v1, generated from its OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from api.schemas.problems import EVERYWHERE, OF_CHANGES

_SCHEMAS: Final = "#/components/schemas/"
_JSON: Final = "application/json"
_ANYWHERE: Final = dict(sorted({**EVERYWHERE, **OF_CHANGES}.items()))
_INTRODUCTION: Final = """\
# REST reference

{description}
The document itself is at `/v1/openapi.json`, a page to try it at `/v1/docs`. This page is generated:
`headrace config reference --rest`.

Any call may be answered with one of these, and then the body is a [ProblemDocument](#problemdocument):
"""


def rest_reference(document: Mapping[str, Any]) -> str:
    """Markdown: a section for each operation and each type."""
    lines = [_INTRODUCTION.format(description=document["info"]["description"])]
    lines += ["| status | meaning |", "|---|---|"]
    lines += [f"| {status} | {_text(one['description'])} |" for status, one in _ANYWHERE.items()]
    for tag in document["tags"]:
        lines += ["", f"## {tag['name'].capitalize()}", "", tag["description"]]
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                if tag["name"] in operation["tags"]:
                    lines += ["", f"### `{method.upper()} {path}`", "", _text(operation["description"])]
                    lines += [*_parameters(operation), *_body(operation), *_answers(operation)]
    lines += ["", "## Types"]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += ["", f"### {name}", "", _text(schema.get("description", "")), *_fields(schema)]
    return "\n".join(lines) + "\n"


def _parameters(operation: Mapping[str, Any]) -> Iterator[str]:
    if operation.get("parameters"):
        yield from ("", "| parameter | in | type | meaning |", "|---|---|---|---|")
    for one in operation.get("parameters", ()):
        where = f"{one['in']}, required" if one.get("required") else one["in"]
        yield f"| `{one['name']}` | {where} | {_type(one['schema'])} | {_text(one['description'])} |"


def _body(operation: Mapping[str, Any]) -> Iterator[str]:
    for media, one in operation.get("requestBody", {}).get("content", {}).items():
        kind = "" if media == _JSON else f" (`{media}`)"
        yield from ("", f"Body{kind}: {_type(one['schema'])}, such as", "", *_block(one["example"]))


def _answers(operation: Mapping[str, Any]) -> Iterator[str]:
    yield from ("", "| status | body | headers | meaning |", "|---|---|---|---|")
    everywhere = {str(status) for status in _ANYWHERE}
    for status, one in sorted(operation["responses"].items()):
        media = one.get("content", {}).get(_JSON)
        if media is None and status in everywhere:
            continue
        content = [_type(found["schema"]) for found in one.get("content", {}).values() if "schema" in found]
        headers = ", ".join(f"`{name}`" for name in one["headers"] if name != "X-Request-ID")
        yield f"| {status} | {' or '.join(content)} | {headers} | {_meaning(one['description'])} |"


def _meaning(description: str) -> str:
    return "" if description == "Successful Response" else _text(description)


def _fields(schema: Mapping[str, Any]) -> Iterator[str]:
    if "enum" in schema:
        yield from ("", f"One of {_type(schema)}.")
    if not schema.get("properties"):
        return
    yield from ("", "| field | type | default | meaning |", "|---|---|---|---|")
    for name, one in schema["properties"].items():
        default = "required" if name in schema.get("required", ()) else _default(one)
        yield f"| `{name}` | {_type(one)} | {default} | {_text(one.get('description', ''))} |"
    yield from ("", *_block(schema["examples"][0]))


def _default(schema: Mapping[str, Any]) -> str:
    value = schema.get("default")
    return "" if value in (None, "", {}, []) else f"`{json.dumps(value, ensure_ascii=False)}`"


def _type(schema: Mapping[str, Any]) -> str:
    """In words; types of this document with a link."""
    if "$ref" in schema:
        name = str(schema["$ref"]).removeprefix(_SCHEMAS)
        return f"[{name}](#{name.lower()})"
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum") or [schema["const"]])
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return " or ".join(_type(one) for one in options)
    kind = str(schema.get("type", "anything"))
    if kind == "array" and "items" in schema:
        return f"list of {_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return " ".join([kind, *_bounds(schema)])


def _bounds(schema: Mapping[str, Any]) -> Iterator[str]:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    for key, sign in signs.items():
        if key in schema:
            yield f"{sign} {schema[key]:.10g}"


def _block(value: Any) -> Iterator[str]:
    """JSON, a line for each member."""
    yield "```json"
    if isinstance(value, dict) and value:
        members = [f"  {json.dumps(key)}: {_line(one)}" for key, one in value.items()]
        yield "{\n" + ",\n".join(members) + "\n}"
    elif isinstance(value, list) and value:
        yield "[\n" + ",\n".join(f"  {_line(one)}" for one in value) + "\n]"
    else:
        yield _line(value)
    yield "```"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _text(text: str) -> str:
    """On one line of a table."""
    return " ".join(text.split()).replace("|", "\\|")
