"""Responses are compressed only for clients that accept gzip (RFC 9110, 12.5.3)."""

from __future__ import annotations

import pytest
from httpx import Client

from tests.fakes.site import Site


@pytest.fixture(scope="module")
def client() -> Client:
    site = Site()
    site.create()
    return site.client


@pytest.mark.parametrize("path", ["/v1/overview", "/ui/"])
@pytest.mark.parametrize(
    ("accepted", "is_compressed"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("br , gzip ; q=1.0", True),
        ("gzip;q=0", False),
        ("gzip ; Q=0.000, identity", False),
        ("not-gzip", False),
        ("identity", False),
        ("", False),
    ],
)
def test_gzip_is_used_only_if_the_client_accepts_it(
    client: Client, path: str, accepted: str, is_compressed: bool
) -> None:
    plain = client.get(path, headers={"Accept-Encoding": "identity"})
    answer = client.get(path, headers={"Accept-Encoding": accepted})
    assert answer.status_code == 200
    assert (int(answer.headers["Content-Length"]) < int(plain.headers["Content-Length"])) is is_compressed
    assert answer.headers["Vary"] == plain.headers["Vary"] == "Accept-Encoding"
