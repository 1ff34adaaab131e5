"""Notices to the owners of a topic that is being retired."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from mirror.coordination.topic_retirement import Retirement, RetirementPhase, WriteDenial
from mirror.errors import NotFound
from mirror.model.identifiers import ClusterRef, DatastreamName
from monitor.alerts.alert import Alert
from monitor.alerts.catalogue import LATE, TOPIC_RETIREMENT
from monitor.alerts.retirements import retirement_alerts, retirements_of_answer
from monitor.alerts.stored_alerts import InheritedAlerts, read_alerts
from monitor.evaluation import Evaluation
from monitor.movement.summary import NOTHING_KNOWN
from tests.patience import wait_until
from tests.unit.monitor.alerts.test_dispatch import Memory, running

DUE_MS = 1_800_000_000_000
SEALED = Retirement(
    ClusterRef("east"),
    "old.orders",
    "id",
    "ends",
    3,
    RetirementPhase.SEALED,
    WriteDenial.MADE,
    (DatastreamName("orders"), DatastreamName("orders-eu")),
    (DatastreamName("orders"),),
    ("sales",),
    60,
    1_000,
    started_ms=5,
    due_ms=DUE_MS,
)


def alerts(**changes: Any) -> list[Alert]:
    return [*retirement_alerts([replace(SEALED, **changes)])]


def test_each_datastream_of_a_sealed_topic_has_a_notice_with_the_date_and_the_way_to_stop_it() -> None:
    found = alerts()
    assert [(one.kind, one.datastream, one.cluster, one.topic, one.since_ms) for one in found] == [
        (TOPIC_RETIREMENT, name, "east", "old.orders", DUE_MS - 1_000) for name in ("orders", "orders-eu")
    ]
    for part in ("2027-01-15T08:00:00", "sales", "headrace topics restore old.orders --cluster east"):
        assert part in found[0].description


def test_a_topic_without_a_datastream_has_one_notice() -> None:
    assert [one.datastream for one in alerts(selected=(), owners=())] == [""]


@pytest.mark.parametrize(
    ("phase", "count"),
    [
        (RetirementPhase.SEALING, 0),
        (RetirementPhase.SEALED, 2),
        (RetirementPhase.DELETING, 2),
        (RetirementPhase.RESTORING, 0),
    ],
)
def test_owners_are_told_from_the_seal_until_the_end(phase: RetirementPhase, count: int) -> None:
    assert len(alerts(phase=phase)) == count


def test_a_topic_and_its_copy_of_the_same_name_are_told_separately_and_once() -> None:
    copy = replace(SEALED, cluster=ClusterRef("west"))
    retirements = [SEALED]
    receiver = Memory()
    findings: dict[DatastreamName, Evaluation] = {}
    with running(receiver) as rig:
        rig.dispatch.watch(lambda _: [*retirement_alerts(retirements)])
        for _ in range(3):
            rig.dispatch.judged(findings, NOTHING_KNOWN)
        wait_until(lambda: len(receiver.heard()) == 2)
        retirements.append(copy)
        for _ in range(3):
            rig.dispatch.judged(findings, NOTHING_KNOWN)
        wait_until(lambda: len(receiver.heard()) == 4)
        retirements.clear()
        rig.dispatch.judged(findings, NOTHING_KNOWN)
        wait_until(lambda: len(receiver.heard()) == 8)
    labels = [notice.labels for message in receiver.messages for notice in message if notice.is_firing]
    assert sorted((each["cluster"], each["datastream"]) for each in labels) == [
        (cluster, name) for cluster in ("east", "west") for name in ("orders", "orders-eu")
    ]
    assert {each["topic"] for each in labels} == {"old.orders"}


def test_the_next_monitor_recognizes_what_was_told() -> None:
    firing = [*retirement_alerts([SEALED, replace(SEALED, cluster=ClusterRef("west"), topic="übrig")])]
    stored = InheritedAlerts().records(firing)
    found = read_alerts(stored.values())
    assert sorted(one.alert.key for one in found) == sorted(one.key for one in firing)


def test_the_next_monitor_ends_the_alert_with_the_labels_that_were_sent() -> None:
    """A datastream that was created again with another source has an alert with other labels."""
    told, first = InheritedAlerts(), Alert(LATE, "late", "", 1_000, "orders", "east")
    told.records([first])
    told.records([replace(first, summary="still late")])
    (one,) = read_alerts(told.records([replace(first, cluster="west", since_ms=9_000)]).values())
    assert (one.alert.cluster, one.alert.since_ms) == ("west", 9_000)


class Answering:
    """A service that answers every request in the same way."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def get(self, path: str, **parameters: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_retirements_are_read_over_rest() -> None:
    newer = {**asdict(SEALED), "phase": "of a newer version"}
    answer = [{**asdict(SEALED), "more": 1}, newer]
    older: Any = Answering(NotFound("no such path"))
    current: Any = Answering(answer)
    assert retirements_of_answer(current) == [SEALED]
    assert retirements_of_answer(older) == ()
