"""Test that the leadership of a sampler ends by its own clock without its group coordinator."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.errors import KafkaConfigurationError, KafkaTimeoutError

from mirror.settings import KafkaCluster
from pmp.adapters.group_leadership import GroupLeadership
from tests.fakes.clock import ManualClock


class Coordinator:
    """A consumer whose coordinator responds, or does not."""

    is_away = False
    asked = 0

    def committed(self, _: Any, *, timeout_ms: int) -> None:
        self.asked += 1
        if self.is_away:
            raise KafkaTimeoutError(f"no response within {timeout_ms} ms")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def sampler(clock: ManualClock) -> GroupLeadership:
    return GroupLeadership(KafkaCluster(bootstrap_servers="h:1"), "__samples", clock.monotonic)


def run_once(sampler: GroupLeadership, coordinator: Any) -> None:
    sampler._renew(coordinator)
    sampler._lead(True)


def test_a_leader_leads_while_its_coordinator_responds(sampler: GroupLeadership, clock: ManualClock) -> None:
    coordinator = Coordinator()
    for _ in range(100):
        run_once(sampler, coordinator)
        assert sampler.is_leader()
        clock.advance(0.5)
    assert coordinator.asked == 25, "once per heartbeat"


def test_a_leader_without_its_coordinator_leads_no_longer_than_its_session(
    sampler: GroupLeadership, clock: ManualClock
) -> None:
    coordinator = Coordinator()
    run_once(sampler, coordinator)
    coordinator.is_away = True
    for _ in range(9):
        clock.advance(1)
        run_once(sampler, coordinator)
        assert sampler.is_leader()
    clock.advance(1)
    assert not sampler.is_leader(), "even if the thread of the group is frozen"
    with pytest.raises(KafkaTimeoutError, match="group coordinator"):
        sampler._renew(coordinator)


def test_a_frozen_leader_joins_again_before_it_leads(sampler: GroupLeadership, clock: ManualClock) -> None:
    coordinator = Coordinator()
    run_once(sampler, coordinator)
    clock.advance(60)
    assert not sampler.is_leader()
    with pytest.raises(KafkaTimeoutError):
        sampler._renew(coordinator)
    assert not sampler.is_leader()


def test_a_sampler_never_leads_before_its_coordinator_has_responded(sampler: GroupLeadership) -> None:
    coordinator = Coordinator()
    coordinator.is_away = True
    run_once(sampler, coordinator)
    assert not sampler.is_leader()


@pytest.mark.parametrize("error", [FileNotFoundError("ca.pem"), ValueError("x"), KafkaConfigurationError()])
def test_a_thread_that_ends_by_an_error_says_so(error: Exception) -> None:
    class Broken(GroupLeadership):
        def _take_part(self) -> None:
            self._lead(True)
            raise error

    broken = Broken(KafkaCluster(bootstrap_servers="h:1"), "__samples")
    broken.start()
    broken.stop(10)
    assert broken.failure is error, "otherwise the sampler would exit with status 0"
    assert not broken.is_leader()
