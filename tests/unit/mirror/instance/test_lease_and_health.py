"""Test the lease of an instance's session, and its health."""

from __future__ import annotations

import pytest

from mirror.instance.health import Health, HealthCondition
from mirror.instance.own_session import Lease
from tests.fakes.instances import FakeContact


@pytest.mark.parametrize("timeout", [1.0, 6.0, 60.0])
def test_the_lease_ends_before_the_session_can_by_the_last_answered_request(timeout: float) -> None:
    contact = FakeContact(100.0, timeout)
    lease = Lease(contact)
    assert 100.0 < lease.ends_at() <= 100.0 + timeout * 0.75
    assert not lease.is_over(100.0)
    assert lease.is_over(lease.ends_at())
    contact.moment = 200.0
    assert not lease.is_over(150.0)
    assert lease.ends_at() > 200.0


def test_health_is_what_every_part_said_last() -> None:
    health = Health()
    assert health.is_well
    health.report("a", True, "fine")
    health.report("b", False, "ill")
    assert not health.is_well
    health.report("b", True, "well again")
    assert health.is_well
    assert health.conditions() == {
        "a": HealthCondition(True, "fine"),
        "b": HealthCondition(True, "well again"),
    }


def test_a_part_that_is_forgotten_counts_no_more() -> None:
    health = Health()
    health.report("a", False, "ill")
    health.forget("a")
    health.forget("a")
    assert health.is_well


def test_death_is_not_forgiven() -> None:
    health = Health()
    health.died("a", ValueError("a bug"))
    assert health.has_died.is_set()
    assert health.conditions()["a"] == HealthCondition(False, "died: ValueError: a bug")
    health.report("a", True, "fine")
    assert health.has_died.is_set()
