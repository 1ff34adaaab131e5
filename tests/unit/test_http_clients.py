"""Every HTTP client decides about proxies explicitly.

httpx sends plain requests, with their tokens and passwords, through the proxy of the environment unless
`trust_env` is off. These tests find every construction of a client in the product's source code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.unit.test_architecture import FILES, ROOT

CANDIDATE: Final = re.compile(r"httpx|pinotdb|urllib|aiohttp|pycurl|(?:import|from) requests")
SOURCES: Final = sorted(
    file
    for file in (*FILES, *(ROOT / "deploy").rglob("*.py"), *(ROOT / "scripts").rglob("*.py"))
    if CANDIDATE.search(file.read_text(encoding="utf-8"))
)
CLIENTS: Final = {"httpx.Client", "httpx.AsyncClient"}
TAKING_ANY_PROXY: Final = {
    *(f"httpx.{verb}" for verb in ("get", "post", "put", "patch", "delete", "head", "options", "request")),
    *("httpx.stream", "httpx.Proxy"),
}
OTHER_CLIENTS: Final = {"urllib.request", "requests", "aiohttp", "urllib3", "pycurl"}
"""Modules whose clients use the proxies of the environment by default."""

OF_TLS_ONLY: Final = {
    "False",
    "self._settings.tls",
    "url.startswith('https://')",
    "url.scheme == 'https'",
}
"""Values of `trust_env`; a new one is added together with a case of `test_proxies.py`."""


def trouble_in(tree: ast.Module) -> Iterator[str]:
    """Yield each use of a client that may send a plain request through a proxy."""
    annotations = {id(part) for node in ast.walk(tree) for part in _annotated(node)}
    called = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (f"import {one.name}" for one in node.names if one.name in OTHER_CLIENTS)
        elif isinstance(node, ast.ImportFrom):
            yield from _imported(node)
        elif isinstance(node, ast.Attribute) and id(node) not in annotations:
            yield from _used(ast.unparse(node), called.get(id(node)))


def _annotated(node: ast.AST) -> Iterator[ast.AST]:
    for name in ("annotation", "returns"):
        if part := getattr(node, name, None):
            yield from ast.walk(part)


def _imported(node: ast.ImportFrom) -> Iterator[str]:
    names = [one.name for one in node.names]
    if node.module in OTHER_CLIENTS or (node.module == "urllib" and "request" in names):
        yield f"from {node.module} import {names}"
    if node.module == "httpx":
        bad = {f"httpx.{name}" for name in names} & (CLIENTS | TAKING_ANY_PROXY)
        yield from (f"{name} under a name of its own" for name in sorted(bad))


def _used(name: str, call: ast.Call | None) -> Iterator[str]:
    if name in TAKING_ANY_PROXY:
        yield name
    if name == "pinotdb.connect" and not (call and "session" in _keywords(call)):
        yield "pinotdb.connect without a session makes a client of its own"
    if name in CLIENTS and not (call and _keywords(call).get("trust_env") in OF_TLS_ONLY):
        yield f"{name} without trust_env"


def _keywords(call: ast.Call) -> dict[str | None, str]:
    return {one.arg: ast.unparse(one.value) for one in call.keywords}


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_client_sends_plain_requests_through_a_proxy(file: Path) -> None:
    assert not list(trouble_in(ast.parse(file.read_text(encoding="utf-8"))))


@pytest.mark.parametrize(
    "source",
    [
        "import httpx\nhttpx.Client()",
        "import httpx\nhttpx.AsyncClient(trust_env=True)",
        "import httpx\nmake = httpx.Client",
        "import httpx\nclass Mine(httpx.Client): ...",
        "import httpx\nhttpx.get('http://a')",
        "from httpx import Client",
        "import urllib.request",
        "from urllib import request",
        "import pinotdb\npinotdb.connect(host='a')",
    ],
)
def test_the_check_finds_each_kind(source: str) -> None:
    assert list(trouble_in(ast.parse(source)))


def test_the_check_finds_the_clients_that_there_are() -> None:
    made = [file for file in SOURCES if any(name in file.read_text() for name in CLIENTS)]
    assert len(made) > 4
