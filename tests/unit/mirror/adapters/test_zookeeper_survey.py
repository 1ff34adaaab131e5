"""Test the parsing of ZooKeeper's responses to four-letter words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.adapters.zookeeper_survey import ServerFacts, server_facts

SRVR = """Zookeeper version: 3.9.3-c26634f34490bb0ea7a09cc51e05ede3b4e320ee, built on 2024-10-17 23:21 UTC
Latency min/avg/max: 0/0.5/4
Connections: 2
Mode: follower
Node count: 42
"""
DIRS = "datadir_size: 1024\nlogdir_size: 67108880\n"
REFUSED = "dirs is not executed because it is not in the whitelist."


def test_both_answers_give_version_role_and_sizes() -> None:
    expected = ServerFacts("a:1", "", True, "3.9.3", "follower", 42, 1_024, 67_108_880)
    assert server_facts("a:1", SRVR, DIRS) == expected


@pytest.mark.parametrize(
    "srvr", ["", "srvr is not executed because it is not in the whitelist.\n", "HTTP/1.1"]
)
def test_a_refusal_says_nothing(srvr: str) -> None:
    assert server_facts("a:1", srvr, REFUSED) == ServerFacts("a:1")


def test_a_server_without_a_majority_serves_nobody() -> None:
    said = "This ZooKeeper instance is not currently serving requests\n"
    assert server_facts("a:1", said, said) == ServerFacts("a:1", is_serving=False)


@given(st.text(), st.text())
def test_whatever_another_program_answers_is_read(srvr: str, dirs: str) -> None:
    facts = server_facts("a:1", srvr, dirs)
    assert facts.problem == ""
    assert facts.nodes is None or facts.nodes >= 0
