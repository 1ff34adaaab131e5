"""Reads and prints YAML and JSON documents for commands.

YAML is read with the core schema of YAML 1.2: `no`, `on`, `12:30` and dates are strings. A duplicate key is
an error, and `<<` is an ordinary key.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any, Final

import yaml

from mirror.errors import InvalidRequest
from mirror.model.documents import mapping_of

_TAG: Final = "tag:yaml.org,2002:"
_MOST_VALUES: Final = 1_000_000
_WIDTH: Final = 110
_ADVICE: Final = "see the output of headrace datastream get NAME -o yaml for an example"


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML reads the class attribute

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.MarkedYAMLError(None, None, f"duplicate key {key.value!r}", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?[0-9]+\.[0-9]*(?:[eE][-+][0-9]+)?", "-+0123456789"),
    ("null", r"~|null|Null|NULL|", "~nN"),
):
    _firsts = [*_first, ""] if _tag == "null" else [*_first]
    _Loader.add_implicit_resolver(_TAG + _tag, re.compile(f"(?:{_pattern})$"), _firsts)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def yaml_text(documents: Iterable[object], *, several: bool = False) -> str:
    """Return a value as YAML, without a trailing line feed.

    `several`: start each document with `---`. Invisible characters are written as YAML escapes.
    """
    given = list(documents)

    def dump(allow_unicode: bool) -> str:
        text = yaml.dump_all(
            given,
            Dumper=_Dumper,
            allow_unicode=allow_unicode,
            default_flow_style=False,
            explicit_start=several,
            sort_keys=False,
            width=_WIDTH,
        )
        return text.removesuffix("\n")

    text = dump(allow_unicode=True)
    return text if text.replace("\n", "").isprintable() else dump(allow_unicode=False)


def read_documents(text: str, where: str, *, is_json: bool = False) -> list[Any]:
    """Parse the YAML or JSON documents in a text. Raises InvalidRequest.

    Each item of a top-level list is a document. A text that starts with a brace or bracket is parsed as JSON.
    `where`: location of the text, for errors.
    """
    try:
        if is_json or text.lstrip()[:1] in ("{", "["):
            found = [json.loads(text, object_pairs_hook=mapping_of)]
        else:
            found = [document for document in yaml.load_all(text, _Loader) if document is not None]
        documents = [document for each in found for document in (each if isinstance(each, list) else [each])]
        _check(documents)
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InvalidRequest(
            f"cannot parse {where}{line} as YAML: {error.problem}", advice=_ADVICE
        ) from error
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidRequest(f"cannot parse {where}: {str(error)[:200]}", advice=_ADVICE) from error
    except RecursionError as error:
        raise InvalidRequest(f"cannot parse {where}: nesting too deep") from error
    return documents


def _check(documents: list[Any]) -> None:
    """Raise ValueError for values that JSON cannot represent, and for excessive YAML aliases."""
    waiting, count = list(documents), 0
    while waiting:
        value = waiting.pop()
        count += 1
        if count > _MOST_VALUES:
            raise ValueError(f"more than {_MOST_VALUES:,} values")
        if isinstance(value, dict):
            odd = [key for key in value if not isinstance(key, str)]
            if odd:
                raise ValueError(f"key {odd[0]!r} is not a string; put it in quotes")
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is not a valid JSON number")
        elif not isinstance(value, str | int | float | None):
            raise ValueError(f"{str(value)[:50]!r} is not a string, number, list or mapping")
