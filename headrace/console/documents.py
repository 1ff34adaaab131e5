"""YAML and JSON documents, as commands read and print them.

YAML is read by its core schema (1.2): `no`, `on`, `12:30` and dates are texts. A key that is given twice is
an error, and `<<` is a key like others.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any, Final

import yaml

from mirror.errors import InvalidRequest

_TAG: Final = "tag:yaml.org,2002:"
_MOST_VALUES: Final = 1_000_000
_WIDTH: Final = 110
_ADVICE: Final = "headrace datastream get NAME -o yaml shows how a definition is written"


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML looks for it in the class

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.MarkedYAMLError(None, None, f"{key.value!r} is given twice", key.start_mark)
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
    """YAML without a last line feed; each of `several` documents begins with `---`. What is not to be seen is
    escaped, so that it is the same to a program."""
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
    """The documents of a text; those of a list stand for themselves. `where` names it in errors; JSON is told
    by its first character too. Raises InvalidRequest."""
    try:
        if is_json or text.lstrip()[:1] in ("{", "["):
            found = [json.loads(text, object_pairs_hook=mapping_of)]
        else:
            found = [one for one in yaml.load_all(text, _Loader) if one is not None]
        documents = [one for each in found for one in (each if isinstance(each, list) else [each])]
        _check(documents)
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InvalidRequest(f"{where}{line} is not YAML: {error.problem}", advice=_ADVICE) from error
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidRequest(f"{where} cannot be read: {str(error)[:200]}", advice=_ADVICE) from error
    except RecursionError as error:
        raise InvalidRequest(f"{where} is nested too deeply") from error
    return documents


def mapping_of(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, in linear time. Raises ValueError where a key is given twice."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{key!r} is given twice")
        found[key] = value
    return found


def _check(documents: list[Any]) -> None:
    """Raises ValueError for what JSON cannot say, and for references that make much of little."""
    waiting, count = list(documents), 0
    while waiting:
        one = waiting.pop()
        count += 1
        if count > _MOST_VALUES:
            raise ValueError(f"it has more than {_MOST_VALUES:,} values")
        if isinstance(one, dict):
            odd = [key for key in one if not isinstance(key, str)]
            if odd:
                raise ValueError(f"the key {odd[0]!r} is no text; write it in quotes")
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, float) and not math.isfinite(one):
            raise ValueError(f"{one} is no number of JSON")
        elif not isinstance(one, str | int | float | None):
            raise ValueError(f"{str(one)[:50]!r} is no text, number, list or mapping")
