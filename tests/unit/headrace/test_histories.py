"""Test which source of history the settings select, and the errors if there is none."""

from __future__ import annotations

import sys

import pytest

from api.services import LatencyHistoryQuery, LoadHistoryQuery
from headrace.histories import histories_of
from headrace.settings import HeadraceSettings
from mirror.errors import HistoryUnavailable, Unreachable
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.topics import TopicPartition
from pinot.settings import PinotSettings
from pinot.time_range import TimeRange
from stack.ports import free_ports

WHEN = TimeRange(0, 3_600_000)
LOADS = LoadHistoryQuery(ClusterRef("source"), WHEN, [TopicPartition("t", 0)], ())
LATENCY = LatencyHistoryQuery(GroupName("orders"), WHEN, 10, None)


def ask_both(settings: HeadraceSettings, kind: type[Exception], words: str) -> None:
    load_history, latency_history = histories_of(settings)
    with pytest.raises(kind, match=words):
        load_history(LOADS)
    with pytest.raises(kind, match=words):
        latency_history(LATENCY)


def test_without_a_pinot_in_the_settings_none_is_asked() -> None:
    ask_both(HeadraceSettings(clusters={}), HistoryUnavailable, "not configured")


def test_a_pinot_that_does_not_answer_is_named() -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    settings = HeadraceSettings(clusters={}, pinot=PinotSettings(broker=address))
    ask_both(settings, Unreachable, f"broker {address}")


def test_without_its_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pinotdb", None)
    monkeypatch.delitem(sys.modules, "pinot.client", raising=False)
    settings = HeadraceSettings(clusters={}, pinot=PinotSettings())
    ask_both(settings, HistoryUnavailable, "pinotdb is not installed")
