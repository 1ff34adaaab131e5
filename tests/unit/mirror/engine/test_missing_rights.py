"""Errors of brokers about missing rights name the right and to whom to grant it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import mirror
from mirror.client.access import ClusterAccess
from mirror.errors import NotAuthorized
from mirror.lane.lifecycle import LaneState
from mirror.lane.parts.ownership import identity_name
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.policy import CopyPolicy, Guarantee
from mirror.protocol.codes import Code as BrokerCode
from mirror.protocol.codes import error_of
from mirror.protocol.control.sasl import SaslAccess
from tests.fakes.broker.faults import Code
from tests.fakes.broker.mirrored import MirroredFakes

PRODUCE, FETCH, METADATA, OFFSET_FETCH, FIND_COORDINATOR, INIT_PRODUCER_ID = 0, 1, 3, 9, 10, 22
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 29, 30, 31, 53
COORDINATOR_NOT_AVAILABLE = 15
GRANT = r"grant .*%s.* to User:ANONYMOUS"


@pytest.mark.parametrize(
    ("side", "api", "code", "right"),
    [
        ("source", FETCH, TOPIC, "Read on topic t"),
        ("target", PRODUCE, TOPIC, "Write on topic t"),
        ("target", INIT_PRODUCER_ID, CLUSTER, "IdempotentWrite on the cluster"),
        ("target", INIT_PRODUCER_ID, TRANSACTIONAL_ID, "Write on transactional id headrace"),
        ("target", FIND_COORDINATOR, TRANSACTIONAL_ID, "on transactional id headrace"),
        ("source", OFFSET_FETCH, GROUP, "Describe on group readers"),
        ("source", FIND_COORDINATOR, GROUP, "on group readers"),
    ],
)
def test_the_reason_of_a_lane_names_the_right_the_resource_and_the_principal(
    fakes: MirroredFakes, side: str, api: int, code: int, right: str
) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 10)
    cluster = fakes.source if side == "source" else fakes.target
    cluster.faults.plant(api, Code(code, "t" if api == FETCH else None), times=None)
    guarantee = Guarantee.EFFECTIVELY_ONCE if code == CLUSTER else Guarantee.EXACTLY_ONCE
    start = StartPosition.COMMITTED if "readers" in right else StartPosition.EARLIEST
    group = "readers" if "readers" in right else ""
    fakes.start("t", policy=CopyPolicy(guarantee=guarantee), start=start, consumer_group=group)
    reason = fakes.run_until_paused("t")
    assert right in reason
    assert reason.partition("grant ")[2].partition(" to ")[2].startswith("User:ANONYMOUS"), reason


@pytest.mark.parametrize("code", [TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID])
def test_every_authorization_error_has_advice(code: int) -> None:
    for right in ("", "Read on topic é", "Read on group g", "anything"):
        error = error_of(code, "doing", right=right, principal="User:one")
        assert isinstance(error, NotAuthorized)
        assert error.advice.startswith("grant ")
        assert error.advice.endswith(" to User:one")


def test_other_errors_have_none() -> None:
    for code in set(BrokerCode) - {TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID}:
        assert error_of(code, "doing", right="Read on topic t").advice == ""


def test_the_principal_is_the_one_that_brokers_know() -> None:
    assert ClusterAccess((), sasl=SaslAccess("PLAIN", "one")).principal == "User:one"
    assert "token" in ClusterAccess((), sasl=SaslAccess("OAUTHBEARER", token=lambda: "x")).principal
    assert "Kerberos" in ClusterAccess((), sasl=SaslAccess("GSSAPI")).principal
    assert ClusterAccess(()).principal == "User:ANONYMOUS"


BARE = {"client/cluster", "client/handshake", "client/log_reader", "client/log_writer"}
"""Where no right can be missing: the definition, authentication, and transient codes."""


def _callers() -> Iterator[str]:
    root = Path(mirror.__file__).parent
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "error_of":
                first = ast.unparse(node.args[1])
                if "producer state" not in first and "cannot write {lane.key.partition}" not in first:
                    yield file.relative_to(root).with_suffix("").as_posix()


def test_errors_of_a_cluster_are_made_where_its_principal_is_known() -> None:
    assert set(_callers()) <= BARE


@pytest.mark.parametrize("code", [TRANSACTIONAL_ID, COORDINATOR_NOT_AVAILABLE])
@pytest.mark.parametrize("start", [StartPosition.EARLIEST, StartPosition.LATEST])
def test_a_coordinator_that_cannot_be_found_stops_its_own_lane_only(
    fakes: MirroredFakes, start: StartPosition, code: int
) -> None:
    fakes.make_topic("t", 3)
    fakes.start("t", 3, policy=CopyPolicy(guarantee=Guarantee.EXACTLY_ONCE), start=start)
    lanes = [fakes.lane("t", number) for number in range(3)]
    fakes.target.faults.plant(FIND_COORDINATOR, Code(code, identity_name(lanes[1].key)), times=None)
    fakes.run_until(
        lambda: all(lane.state is LaneState.COPYING for lane in (lanes[0], lanes[2])), "they have started"
    )
    for number in range(3):
        fakes.write("t", 0, 10, number)
    for number in (0, 2):
        fakes.run_to("t", 10, number)
    assert lanes[1].checkpoint == 0
    fakes.target.faults.clear()
    fakes.run_until(lambda: lanes[1].checkpoint == 10, "the lane has started, too")
    fakes.check("t")
