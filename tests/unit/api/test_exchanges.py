"""Replay every recorded exchange between Brooklin's client and server against the service in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from mirror.model.topics import TopicDescription
from tests.brooklin_exchanges import PROTOCOLS, STORIES, Replay, exchanges
from tests.fakes.site import ADDRESSES, Site

NAMES: Final = {f"{cluster}.example.org:9092": address for cluster, address in ADDRESSES.items()}
DATA: Final = Path(__file__).parents[2] / "data" / "brooklin" / "exchanges.json"


def a_site() -> Site:
    """Return a site with the recorded topics at the source."""
    site = Site()
    for topic in ("orders.a", "orders.b", "payments.a", "raw", "raw1", "raw2", "raw4"):
        site.source.topics[topic] = TopicDescription(topic, 4)
    return site


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("story", STORIES)
def test_every_exchange(story: str, protocol: str) -> None:
    site = a_site()

    def until(condition: Callable[[], bool], what: str) -> None:
        for _ in range(5):
            if condition():
                break
            site.tick()

    replay = Replay(site.client, "one", until)
    asked = 0
    for exchange in exchanges(story, protocol, NAMES):
        replay.ask(exchange)
        asked += 1
    assert asked > 40


def test_what_differs_has_a_reason() -> None:
    document = json.loads(DATA.read_text())
    told = list(document["differs"])
    for story in STORIES:
        names = [exchange["name"] for exchange in document[story]]
        assert len(set(names)) == len(names)
        told += [one for exchange in document[story] for one in exchange.get("differs", ())]
    assert all(one["of"] and one["because"] for one in told)
