"""Any stored JSON or bytes are read as a value of the model or rejected, without other errors."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mirror.coordination.plan_decision import FleetState
from mirror.coordination.proposals.application import next_application
from mirror.coordination.proposals.proposal import Proposal, from_stored, to_stored
from mirror.coordination.proposals.proposal_store import ProposalStore
from mirror.coordination.stores import node_codec, znodes
from mirror.coordination.stores.definition_document import from_document, to_document
from mirror.coordination.stores.definitions import (
    DamagedDefinition,
    DefinitionStore,
)
from mirror.coordination.stores.events import EventLog
from mirror.coordination.stores.measured_load import MeasuredLoads
from mirror.coordination.stores.membership import Membership
from mirror.coordination.stores.plan_store import NO_PLAN, PlanStore
from mirror.coordination.stores.requests import ApplyRequest, RequestQueue
from mirror.errors import DamagedState, InvalidRequest, LoadUnavailable
from mirror.model.datastreams.creation import Creation
from mirror.model.datastreams.datastream import LatencyObjective, PartitionPause, StartPosition
from mirror.model.identifiers import ClusterRef, DatastreamName, Epoch, GroupName, InstanceName, TaskName
from tests.builders import a_datastream, a_plan, a_task, an_instance, partitions
from tests.fakes.node_store import FakeZooKeeper

TEXTS = st.text(st.characters(exclude_categories=[]), max_size=20) | st.sampled_from(
    ["*", ".*", "t", "0-3", "READY", "earliest", "source", "host:1", "(", "1" * 5_000, "\ud800", "orders"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.just(10**4_000)
ANYTHING = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(TEXTS, below, max_size=4),
    max_leaves=8,
)
WHOLE = to_document(
    a_datastream(
        objective=LatencyObjective(5),
        pauses={"t": PartitionPause(frozenset({1}), "why", 7)},
        creation=Creation("key", "wish"),
    )
)


SINCE = to_document(a_datastream(start=StartPosition.TIMESTAMP, start_ms=1_795_248_000_500))


def with_some_changed(document: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw the document with any fields replaced or missing, including nested ones."""

    def below(value: object) -> st.SearchStrategy[Any]:
        inner = with_some_changed(value) if isinstance(value, dict) else st.just(value)
        return st.one_of(inner, inner, inner, ANYTHING)

    optional = {name: below(value) for name, value in document.items()}
    return st.fixed_dictionaries({}, optional=optional).flatmap(
        lambda some: st.dictionaries(TEXTS, ANYTHING, max_size=1).map(lambda more: {**more, **some})
    )


DOCUMENTS = with_some_changed(WHOLE) | with_some_changed(SINCE) | st.dictionaries(TEXTS, ANYTHING, max_size=5)
STORED = st.binary(max_size=200) | (DOCUMENTS | ANYTHING).map(
    lambda value: json.dumps(value, default=str).encode() if not _is_too_long(value) else b"1" * 5_000
)


def _is_too_long(value: object) -> bool:
    """Return whether Python refuses to write a number in it."""
    try:
        json.dumps(value)
    except ValueError:
        return True
    return False


@given(DOCUMENTS)
def test_a_definition_reads_as_one_that_can_be_stored_again_or_is_refused(document: dict[str, Any]) -> None:
    try:
        datastream = from_document(document)
    except InvalidRequest as error:
        error.message.encode()
        return
    written = node_codec.decode(node_codec.encode(to_document(datastream)), "x")
    assert from_document(written) == datastream
    assert len(znodes.child("", datastream.group).encode()) < 4_000
    datastream.consumer_group.encode()
    assert datastream.expires_ms is None or datastream.expires_ms >= 0


@given(STORED)
def test_whatever_a_znode_holds_a_definition_is_read_or_damaged(data: bytes) -> None:
    server = FakeZooKeeper()
    server.session().create("/datastreams/orders", data)
    found = DefinitionStore(server.session()).read(DatastreamName("orders"))
    if isinstance(found, DamagedDefinition):
        found.problem.encode()


@given(STORED)
def test_a_request_is_read_or_damaged(data: bytes) -> None:
    server = FakeZooKeeper()
    server.session().create("/requests/r-", data, sequential=True)
    (found,) = RequestQueue(server.session()).pending()
    found.requested_by.encode()
    found.reason.encode()


PROPOSAL = to_stored(
    Proposal(
        GroupName("orders"),
        Epoch(1),
        "of these definitions",
        partitions("t-0", "t-1"),
        (a_task("orders-0", ["t-0"], "one"),),
        frozenset({TaskName("orders-1")}),
        5,
        {"sentence": "x"},
    )
)


@given(with_some_changed(PROPOSAL))
def test_a_proposed_plan_is_read_or_damaged_and_keeps_no_leader_from_its_work(
    document: dict[str, Any],
) -> None:
    assume(not _is_too_long(document))
    session = FakeZooKeeper().session()
    session.create("/proposals/p-", zlib.compress(json.dumps(document).encode()), sequential=True)
    store = ProposalStore(session)
    try:
        found = store.get("p-0000000000").proposal
    except DamagedState:
        pass
    else:
        assert from_stored(to_stored(found)) == found
    request = ApplyRequest(GroupName("orders"), "p-0000000000", "me", 1, "r-1")
    fleet = FleetState((a_datastream("orders", "t"),), (an_instance("one"),), a_plan(), {}, (request,))
    assert next_application(fleet, store, 1) is not None


@given(STORED)
def test_an_instance_and_its_holding_are_read_or_count_as_unreadable(data: bytes) -> None:
    server = FakeZooKeeper()
    session = server.session()
    me = Membership(session).join(an_instance("one"))
    session.write(f"/holdings/i-{me.sequence:010}", data, 0)
    session.write(f"/live/i-{me.sequence:010}", data, 0)
    members = Membership(server.session())
    (found,) = members.live()
    assert found.sequence == me.sequence
    assert members.holding(found) is not None


@given(STORED)
def test_rates_events_and_plans_are_read_or_left_out(data: bytes) -> None:
    server = FakeZooKeeper()
    session = server.session()
    session.create("/loads/two/0000", data)
    session.create("/events/e-", data, sequential=True)
    with pytest.raises(LoadUnavailable):
        MeasuredLoads(session).loads(ClusterRef("source"), [])
    assert len(EventLog(session).newest(10)) <= 1
    plan = a_plan(a_task("a-0", ["t-0"]), a_task("b-0", ["t-0"]))
    PlanStore(session, "w").publish(plan, NO_PLAN)
    (name,) = session.children("/plan/a")
    session.write(f"/plan/a/{name}", data, 0)
    assert [one.task for one in PlanStore(session, "r").read().plan.tasks] == ["b-0"]
    session.write("/plan", data, session.read("/plan").version)
    if data:
        with pytest.raises(DamagedState):
            PlanStore(session, "r").read()
        with pytest.raises(DamagedState):
            PlanStore(session, "r").read_for(InstanceName("one"))
