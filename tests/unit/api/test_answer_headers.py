"""Test that every response, errors and defects included, prevents caching and content type sniffing."""

from __future__ import annotations

from typing import Final

import httpx
import pytest

from tests.fakes.site import Site

SAFE: Final = ("nosniff", "no-store")
NO_JSON: Final = {"Content-Type": "text/plain"}
CALLS: Final = [
    ("GET", "/v1/nothing", {}, 404),
    ("GET", "/v1/datastreams/nothing", {}, 404),
    ("PUT", "/v1/plan", {}, 405),
    ("POST", "/v1/datastreams", NO_JSON, 415),
    ("GET", "/v1/plan", {"Host": "evil.example.com"}, 403),
    ("GET", "/v1/openapi.json", {}, 200),
    ("GET", "/v1/docs", {}, 200),
    ("GET", "/datastream", {}, 200),
    ("GET", "/datastream", {"X-RestLi-Protocol-Version": "9.9.9"}, 400),
    ("GET", "/metrics", {}, 200),
]


def safety_of(answer: httpx.Response) -> tuple[str | None, str | None]:
    return answer.headers.get("X-Content-Type-Options"), answer.headers.get("Cache-Control")


@pytest.fixture(scope="module")
def site() -> Site:
    return Site()


@pytest.mark.parametrize(("method", "path", "headers", "status"), CALLS)
def test_every_answer_has_both(
    site: Site, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    answer = site.client.request(method, path, headers=headers)
    assert answer.status_code == status
    assert safety_of(answer) == SAFE


def test_a_defect_has_them_too(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(site.app.state, "services")
    answer = site.client.get("/v1/plan")
    assert answer.status_code == 500
    assert safety_of(answer) == SAFE


def test_pages_are_kept_and_asked_for_again(site: Site) -> None:
    assert safety_of(site.client.get("/ui/")) == ("nosniff", "no-cache")
