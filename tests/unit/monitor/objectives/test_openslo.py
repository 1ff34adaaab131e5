"""Test reading OpenSLO documents, and the fields that are rejected."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from headrace.console.documents import read_documents
from mirror.errors import InvalidRequest, RefusedFields
from mirror.model.datastreams.objectives import Objective
from monitor.objectives.openslo import NamedObjective, by_datastream, from_document, to_document

BY_HAND = """
apiVersion: openslo/v1
kind: SLO
metadata:
  name: orders-latency
  displayName: Orders are copied in time
  labels: {team: [orders]}
spec:
  service: checkout
  indicator:
    metadata: {name: orders-latency}
    spec:
      thresholdMetric:
        metricSource:
          type: Headrace
          spec: {datastream: orders}
  timeWindow:
  - duration: 4w
    isRolling: true
  budgetingMethod: Occurrences
  objectives:
  - {displayName: most, op: lte, value: 2000, target: 0.995}
  - {displayName: nearly all, op: lte, value: 10000, targetPercent: 99.9}
"""


def test_a_document_that_somebody_wrote_has_the_defaults() -> None:
    (document,) = read_documents(BY_HAND, "x")
    assert from_document(document) == (
        NamedObjective("orders", Objective(2_000, 99.5, period_days=28)),
        NamedObjective("orders", Objective(10_000, 99.9, period_days=28)),
    )


METRIC = ("spec", "indicator", "spec", "thresholdMetric", "metricSource")


@pytest.mark.parametrize(
    ("place", "value", "pointer"),
    [
        (("apiVersion",), "openslo/v2alpha", "/apiVersion"),
        (("kind",), "Service", "/kind"),
        (("spec", "budgetingMethod"), "Timeslices", "/spec/budgetingMethod"),
        (("spec", "indicatorRef"), "orders-latency", "/spec/indicatorRef"),
        (("spec", "alertPolicies"), [], "/spec/alertPolicies"),
        (("spec", "indicator", "spec", "ratioMetric"), {}, "/spec/indicator/spec/ratioMetric"),
        ((*METRIC, "type"), "Prometheus", "/spec/indicator/spec/thresholdMetric/metricSource/type"),
        (
            (*METRIC, "spec", "query"),
            "up",
            "/spec/indicator/spec/thresholdMetric/metricSource/spec/query",
        ),
        (
            (*METRIC, "spec", "window"),
            "soon",
            "/spec/indicator/spec/thresholdMetric/metricSource/spec/window",
        ),
        (("spec", "timeWindow", 0, "duration"), "1M", "/spec/timeWindow/0/duration"),
        (("spec", "timeWindow", 0, "isRolling"), False, "/spec/timeWindow/0/isRolling"),
        (("spec", "timeWindow", 0, "calendar"), {}, "/spec/timeWindow/0/calendar"),
        (("spec", "objectives", 0, "op"), "gte", "/spec/objectives/0/op"),
        (("spec", "objectives", 0, "targetPercent"), 99.5, "/spec/objectives/0"),
        (("spec", "objectives", 0, "target"), 99.5, "/spec/objectives/0/target"),
        (("spec", "objectives", 0, "value"), 0.5, "/spec/objectives/0"),
        (("spec", "objectives", 1, "timeSliceTarget"), 0.9, "/spec/objectives/1/timeSliceTarget"),
        (("spec", "objectives"), [], "/spec/objectives"),
    ],
    ids=str,
)
def test_what_means_something_else_is_refused_by_its_field(
    place: tuple[Any, ...], value: object, pointer: str
) -> None:
    (document,) = read_documents(BY_HAND, "x")
    level = document
    for part in place[:-1]:
        level = level[part]
    level[place[-1]] = value
    with pytest.raises(RefusedFields) as refused:
        from_document(document)
    assert [one.pointer for one in refused.value.fields] == [pointer]


def test_documents_of_datastreams_whose_names_are_alike_have_names_of_their_own() -> None:
    names = ("orders-created", "orders.created", "Orders-created", "订单", "заказы", "x" * 200, "x" * 199)
    documents = [to_document(NamedObjective(one, Objective(5, 99.0))) for one in names]
    found = [one["metadata"]["name"] for one in documents]
    assert len(set(found)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", one) for one in found)
    assert found[0].startswith("orders-created-99-")
    assert len({one["spec"]["indicator"]["metadata"]["name"] for one in documents}) == len(names)


def test_what_is_wrong_is_said_of_every_document_and_field() -> None:
    good = to_document(NamedObjective("orders", Objective(5, 99.0)))
    with pytest.raises(InvalidRequest, match=r"second: .*/kind.*third: "):
        by_datastream([("first", good), ("second", {**good, "kind": "AlertPolicy"}), ("third", "text")])
    with pytest.raises(InvalidRequest, match=r"\borders\b.*\btwice\b"):
        by_datastream([("first", good), ("second", good)])


REFERRING = """
apiVersion: openslo/v1
kind: Service
metadata: {name: checkout}
spec: {description: what people buy with}
---
apiVersion: openslo/v1
kind: SLO
metadata: {name: orders}
spec:
  service: checkout
  indicatorRef: latency-of-orders
  timeWindow: [{duration: 30d, isRolling: true}]
  budgetingMethod: Occurrences
  objectives: [{op: lte, value: 2000, targetPercent: 99.5}]
---
apiVersion: openslo/v1
kind: SLI
metadata: {name: latency-of-orders, displayName: Age of orders}
spec:
  description: from source to destination
  thresholdMetric:
    metricSource:
      type: Headrace
      spec: {datastream: orders, percentile: 95.0}
"""


def referring() -> list[tuple[str, Any]]:
    return [(f"document {number}", one) for number, one in enumerate(read_documents(REFERRING, "x"))]


def test_an_indicator_may_be_a_document_of_its_own() -> None:
    assert by_datastream(referring()) == {"orders": (Objective(2_000, 99.5, 95.0),)}
    assert by_datastream(reversed(referring())) == by_datastream(referring())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda all_: all_.pop(), "document 1: .*/spec/indicatorRef: .*'latency-of-orders'"),
        (lambda all_: all_.append(("again", all_[2][1])), "again: .*'latency-of-orders'"),
        (lambda all_: all_[1][1]["spec"].update(indicatorRef=7), "/spec/indicatorRef: .*SLI 7"),
        (lambda all_: all_[1][1]["spec"].update(indicator={}), "/spec/indicatorRef: .*indicator"),
        (lambda all_: all_[2][1].pop("metadata"), r"document 2: .*/metadata"),
        (lambda all_: all_[2][1]["metadata"].update(name=""), "/metadata/name: "),
        (lambda all_: all_[0][1].update(apiVersion="v2"), "document 0: .*/apiVersion"),
        (lambda all_: all_[2][1].update(spec=None), r"document 1: .*/spec/indicator/spec"),
        (
            lambda all_: all_[2][1]["spec"]["thresholdMetric"]["metricSource"].update(type="Prometheus"),
            r"document 1: .*/spec/indicator/spec/thresholdMetric/metricSource/type",
        ),
    ],
    ids=range(9),
)
def test_an_indicator_that_is_not_there_or_not_ours_is_refused(
    change: Callable[[list[tuple[str, Any]]], object], said: str
) -> None:
    documents = referring()
    change(documents)
    with pytest.raises(InvalidRequest, match=said):
        by_datastream(documents)
