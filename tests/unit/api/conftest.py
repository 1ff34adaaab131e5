"""The application of every test here."""

from __future__ import annotations

import pytest
from httpx import Client

from tests.fakes.site import Site


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def client(site: Site) -> Client:
    return site.client
