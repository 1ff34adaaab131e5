"""The part of PyYAML that Headrace uses."""

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar

class YAMLError(Exception): ...

class Mark:
    line: int
    column: int

class MarkedYAMLError(YAMLError):
    problem: str | None
    problem_mark: Mark | None
    def __init__(
        self,
        context: str | None = None,
        context_mark: Mark | None = None,
        problem: str | None = None,
        problem_mark: Mark | None = None,
    ) -> None: ...

class Node:
    tag: str
    value: object
    start_mark: Mark

class ScalarNode(Node):
    value: str

class MappingNode(Node):
    value: list[tuple[Node, Node]]

class SafeLoader:
    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]]
    @classmethod
    def add_implicit_resolver(cls, tag: str, regexp: re.Pattern[str], first: list[str]) -> None: ...
    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[object, object]: ...

class SafeDumper:
    def ignore_aliases(self, data: object) -> bool: ...

def safe_load(stream: str | bytes) -> object: ...
def load_all(stream: str, Loader: type[SafeLoader]) -> Iterator[object]: ...
def dump_all(
    documents: Iterable[object],
    stream: None = None,
    Dumper: type[SafeDumper] = ...,
    *,
    allow_unicode: bool = ...,
    default_flow_style: bool = ...,
    explicit_start: bool = ...,
    sort_keys: bool = ...,
    width: int = ...,
) -> str: ...
def safe_dump(data: object, *, sort_keys: bool = ...) -> str: ...
