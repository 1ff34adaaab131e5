"""Copying with brokers of each other release of Kafka (tests/compatibility.py)."""

from __future__ import annotations

import pytest

from stack.jars.coordinates import KAFKA_RELEASES
from tests.compatibility import TESTS, run

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]


@pytest.mark.parametrize("set_name", KAFKA_RELEASES)
def test_the_tests_of_copying_pass_with_this_release(set_name: str) -> None:
    passed, failed = run(set_name)
    assert failed == []
    assert [file for file in TESTS.values() if not passed.get(file)] == []
