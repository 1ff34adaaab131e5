"""Test `headrace datastream update` if partitions would stop: shown first, then confirmed."""

from __future__ import annotations

import io
import sys

import pytest

from mirror.model.topics import TopicDescription
from tests.fakes.site import Site
from tests.unit.headrace.conftest import Headrace

TYPO = ("datastream", "update", "orders", "--topics", "t|clcks")


class Keyboard(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def copying(site: Site) -> Site:
    """Return a site whose datastream `orders` copies t and clicks."""
    site.source.create(TopicDescription("clicks", 6))
    site.create("orders", source={"cluster": "source", "topics": "t|clicks"})
    return site


def lanes(site: Site) -> int:
    site.tick()
    return len(site.follower.workers.lanes)


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_without_a_terminal_it_is_refused(more: tuple[str, ...], copying: Site, headrace: Headrace) -> None:
    refused = headrace(*TYPO, *more)
    assert (refused.code, refused.out) == (2, "")
    assert "--yes" in refused.err
    assert "clicks (6)" in refused.err
    assert lanes(copying) == 8
    assert headrace(*TYPO, "--yes", *more).code == 0
    assert lanes(copying) == 2


@pytest.mark.parametrize(("answer", "code", "left"), [("y\n", 0, 2), ("n\n", 1, 8)])
def test_on_a_terminal_it_shows_what_stops_and_asks(
    answer: str, code: int, left: int, copying: Site, headrace: Headrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Keyboard(answer))
    done = headrace(*TYPO)
    assert done.code == code
    assert "6 partitions would stop" in done.out
    assert "clcks" in done.out
    assert lanes(copying) == left


@pytest.mark.parametrize("change", [("--topics", "t|c.*"), ("--owner", "others"), ("--max-tasks", "3")])
def test_what_stops_nothing_is_not_asked_about(
    change: tuple[str, ...], copying: Site, headrace: Headrace
) -> None:
    assert headrace("datastream", "update", "orders", *change).code == 0
    assert lanes(copying) == 8
