"""Test /v1/ready: whether this process can serve requests, regardless of problems of datastreams."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from api.access.gate import AccessMethods
from api.access.rights import Action
from api.access.tokens import TokenFile
from mirror.instance.workers.lane_table import LanePhase
from mirror.model.nodes import SessionState
from tests.builders import a_key
from tests.fakes.clock import ManualClock
from tests.fakes.site import HOSTS, Site


def ready(site: Site) -> tuple[int, dict[str, Any]]:
    answer = site.client.get("/v1/ready")
    return answer.status_code, answer.json()


def unready_parts(site: Site) -> list[str]:
    """Return the unhealthy parts; assert that the status matches."""
    status, found = ready(site)
    parts = [name for name, part in found["parts"].items() if not part["is_well"]]
    assert (status, found["is_ready"]) == ((503, False) if parts else (200, True))
    return parts


@pytest.fixture
def site() -> Site:
    made = Site()
    made.create()
    return made


def test_an_instance_that_serves_is_ready(site: Site) -> None:
    status, found = ready(site)
    assert (status, found["instance"], found["is_ready"]) == (200, "one", True)
    assert set(found["parts"]) == {"session", "threads", "workers", "tokens", "certificate"}


def test_a_lane_that_cannot_start_takes_the_service_from_nobody(site: Site) -> None:
    key, states = a_key("t-0"), site.follower.workers._states
    states[key] = replace(states[key], phase=LanePhase.PAUSED, reason="unknown transform")
    site.follower.run_loop()
    assert site.client.get("/v1/health").status_code == 503
    assert unready_parts(site) == []


@pytest.mark.parametrize("part", ["datastream orders", "lanes of orders", "loads of source", "leader"])
def test_no_part_that_datastreams_can_turn_red_counts(site: Site, part: str) -> None:
    site.health.report(part, False, "it hurts")
    assert site.client.get("/v1/health").status_code == 503
    assert unready_parts(site) == []


def test_documents_that_cannot_be_read_count_for_health_alone(site: Site) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    site.follower.workers.before_start = fail
    site.source.grow("t", 4)
    for _ in range(3):
        site.tick()
    assert site.client.get("/v1/health").status_code == 503
    assert unready_parts(site) == []


def test_without_its_session_it_is_not_ready(site: Site) -> None:
    site.follower.follower.session_changed(SessionState.SUSPENDED)
    site.follower.run_loop()
    assert unready_parts(site) == ["session"]
    site.follower.follower.session_changed(SessionState.CONNECTED)
    site.follower.run_loop()
    assert unready_parts(site) == []


def test_a_thread_that_has_died_is_not_ready(site: Site) -> None:
    site.health.died("leader", ValueError("a bug"))
    assert unready_parts(site) == ["threads"]


def test_worker_processes_that_cannot_start_are_not_ready(site: Site) -> None:
    site.follower.workers.is_up = False
    assert unready_parts(site) == ["workers"]


def test_a_token_file_that_cannot_be_read_is_not_ready(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.touch(0o600)
    tokens = TokenFile(file, ManualClock())
    site = Site(access=AccessMethods(tokens, hosts=HOSTS, open_to_all=frozenset({Action.HEALTH})))
    site.tick()
    assert unready_parts(site) == []
    file.unlink()
    assert unready_parts(site) == ["tokens"]


def test_a_certificate_that_cannot_be_read_is_not_ready(site: Site) -> None:
    services = replace(site.services, is_certificate_readable=lambda: False)
    site.app.state.services = services
    assert unready_parts(site) == ["certificate"]
    assert "/" not in ready(site)[1]["parts"]["certificate"]["sentence"], "the endpoint may be public"


def test_it_is_open_where_health_is(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.touch(0o600)
    tokens = TokenFile(file, ManualClock())
    for open_to_all, status in ((frozenset({Action.HEALTH}), 200), (frozenset[Action](), 401)):
        site = Site(access=AccessMethods(tokens, hosts=HOSTS, open_to_all=open_to_all))
        site.tick()
        found = {path: site.client.get(path).status_code for path in ("/v1/health", "/v1/ready")}
        assert found == {"/v1/health": status, "/v1/ready": status}
        wrong = site.client.get("/v1/ready", headers={"Authorization": "Bearer x"})
        assert wrong.status_code == 401
