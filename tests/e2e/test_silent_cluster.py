"""A frozen broker, and two principals that query it continuously."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

import httpx
import pytest

from api.access.rights import Principal, Role
from api.access.tokens import add_entry, new_token
from stack.kafka import KafkaCluster
from tests.e2e.conftest import NewInstance
from tests.kafka_data import make_topic
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair, NewKafka

pytestmark = [pytest.mark.servers, pytest.mark.deep]

PEOPLE: Final = {
    "petra": Principal("petra", Role.OPERATOR),
    "oscar": Principal("oscar", Role.OPERATOR),
    "otto": Principal("otto", Role.OPERATOR),
}
CALLS_EACH: Final = 8
ROUNDS: Final = 2


@contextmanager
def frozen(server: KafkaCluster) -> Iterator[None]:
    for node in server.nodes:
        node.suspend()
    try:
        yield
    finally:
        for node in server.nodes:
            node.resume()


class GuardedInstance:
    """An instance with authentication, and a datastream to each destination."""

    def __init__(self, instance: RunningInstance, tokens: dict[str, str]) -> None:
        self._client = httpx.Client(base_url=f"http://{instance.address}", timeout=PATIENCE_SECONDS)
        self._tokens = tokens

    def ask(self, who: str, method: str, path: str, body: object = None) -> httpx.Response:
        """Send one request of a principal."""
        headers = {"Authorization": f"Bearer {self._tokens[who]}"}
        return self._client.request(method, path, json=body, headers=headers)

    def create(self, topic: str, name: str, destination: str) -> None:
        """Create a datastream for a topic, and wait until the first checkpoint is stored."""
        body = {
            "name": name,
            "source": {"cluster": "source", "topics": topic},
            "destination": {"cluster": destination, "name": f"{name}.*"},
            "metadata": {"owner": "tests"},
        }
        assert self.ask("otto", "POST", "/v1/datastreams", body).status_code == 201
        progress = f"/v1/datastreams/{name}/progress"
        wait_until(lambda: self.ask("otto", "GET", progress).status_code == 200, f"progress of {name}")

    def close(self) -> None:
        self._client.close()


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, str]:
    found = {}
    for name, principal in PEOPLE.items():
        found[name], entry = new_token(principal, int(time.time() * 1000))
        add_entry(tmp_path / "tokens", entry)
    return found


def test_two_principals_that_ask_about_a_frozen_cluster_hold_up_no_other_call(
    kafka_pair: KafkaPair,
    new_kafka: NewKafka,
    new_instance: NewInstance,
    tokens: dict[str, str],
    tmp_path: Path,
) -> None:
    quiet, topic = new_kafka("quiet"), f"quiet-{uuid4().hex[:8]}"
    make_topic(kafka_pair.source.address, topic, 1)
    instance = new_instance(
        "one",
        clusters__quiet__bootstrap_servers=quiet.address,
        api__access__token_file=str(tmp_path / "tokens"),
        api__access__open_to_all='["health", "metrics"]',
    )
    office = GuardedInstance(instance, tokens)
    office.create(topic, "fine", "destination")
    office.create(topic, "silent", "quiet")
    everyday: list[tuple[str, str, object]] = [
        ("POST", "/v1/datastreams/fine/pause?dry_run=true", {}),
        ("GET", "/v1/plan", None),
        ("GET", "/v1/datastreams/fine/gaps", None),
        ("GET", "/v1/datastreams/fine/progress", None),
    ]
    with frozen(quiet), ThreadPoolExecutor(2 * CALLS_EACH) as callers:
        for _ in range(ROUNDS):
            about = "/v1/datastreams/silent/progress"
            asked = [
                callers.submit(office.ask, who, "GET", about)
                for who in ("petra", "oscar")
                for _ in range(CALLS_EACH)
            ]
            answers = [office.ask("otto", *call) for call in everyday]
            assert [one.text for one in answers if one.status_code != 200] == []
            assert {one.result().status_code for one in asked} <= {429, 503}
    office.close()
