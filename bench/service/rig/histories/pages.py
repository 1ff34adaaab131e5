"""Receiver of alerts that records when each one came."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.fakes.alert_receivers import HttpReceiver, Reply, Request


@dataclass(frozen=True)
class Page:
    """A new alert, or its resolution. `at`: epoch seconds of its arrival."""

    at: float
    name: str
    severity: str
    datastream: str
    is_firing: bool
    summary: str
    description: str
    action: str = ""
    datastreams: str = ""

    @property
    def is_critical(self) -> bool:
        """True for a critical alert that fires."""
        return self.is_firing and self.severity == "critical"


@dataclass
class Pages:
    """Alerts in the order of their arrival, without repetitions."""

    found: list[Page] = field(default_factory=list)
    firing: set[str] = field(default_factory=set)
    _known: set[tuple[str, str, str]] = field(default_factory=set)

    def note(self, request: Request) -> Reply:
        """Record a message."""
        now = time.time()
        for one in request.document["alerts"]:
            key = one["fingerprint"], one["startsAt"], one["status"]
            is_firing = one["status"] == "firing"
            (self.firing.add if is_firing else self.firing.discard)(one["fingerprint"])
            if key not in self._known:
                self._known.add(key)
                self.found.append(_page(now, one))
        return Reply()

    def since(self, moment: float) -> list[Page]:
        """Return the alerts that arrived at `moment` or later."""
        return [one for one in self.found if one.at >= moment]


def _page(now: float, one: dict[str, Any]) -> Page:
    labels, texts = one["labels"], one["annotations"]
    return Page(
        now,
        labels["alertname"],
        labels["severity"],
        labels.get("datastream", ""),
        one["status"] == "firing",
        texts.get("summary", ""),
        texts.get("description", ""),
        texts.get("action", ""),
        texts.get("datastreams", ""),
    )


@contextmanager
def receiver() -> Iterator[tuple[str, Pages]]:
    """Run a webhook receiver; yield its address and the alerts."""
    pages = Pages()
    with HttpReceiver() as hook:
        hook.answer = pages.note
        yield hook.url, pages
