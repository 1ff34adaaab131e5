"""Fixtures: the application with and without access control."""

from __future__ import annotations

from pathlib import Path

import pytest
from httpx import Client

from tests.fakes.site import Site
from tests.unit.api.guarded import Guarded


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def client(site: Site) -> Client:
    return site.client


@pytest.fixture
def guarded(tmp_path: Path) -> Guarded:
    return Guarded(tmp_path)
