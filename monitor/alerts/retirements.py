"""Alerts about topics that are being retired, so that their owners can stop the retirement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pydantic import TypeAdapter

from mirror.coordination.topic_retirement import Retirement, RetirementPhase
from mirror.errors import NotFound
from mirror.wording import first_few
from monitor.alerts.alert import Alert, rfc3339
from monitor.alerts.catalogue import TOPIC_RETIREMENT
from monitor.ports import InstanceClient

_ANNOUNCED: Final = frozenset({RetirementPhase.SEALED, RetirementPhase.DELETING})
_RETIREMENT: Final = TypeAdapter(Retirement)


def retirement_alerts(retirements: Iterable[Retirement]) -> Iterator[Alert]:
    """Yield an alert for each datastream that selects only a sealed topic or, if there is no such datastream,
    one alert."""
    for retirement in retirements:
        if retirement.phase in _ANNOUNCED:
            for name in retirement.selected or ("",):
                summary = f"topic {retirement.topic} of {retirement.cluster} is being retired"
                since_ms = retirement.due_ms - retirement.wait_ms
                yield Alert(
                    TOPIC_RETIREMENT,
                    summary,
                    _description(retirement),
                    since_ms,
                    name,
                    retirement.cluster,
                    topic=retirement.topic,
                )


def _description(retirement: Retirement) -> str:
    topic, cluster = retirement.topic, retirement.cluster
    owners = f"; owners: {first_few(list(retirement.owners))}" if retirement.owners else ""
    names = list(retirement.selected)
    paused = f"; datastreams: {first_few(names)}" if names else ""
    due = f"its records can be deleted from {rfc3339(retirement.due_ms)} on"
    if retirement.phase is RetirementPhase.DELETING:
        due = "its records are being deleted"
    stop = f"to stop it: headrace topics restore {topic} --cluster {cluster}"
    return f"topic {topic} of {cluster} is sealed against writes, and {due}{paused}{owners}; {stop}"


def retirements_of_answer(rest: InstanceClient) -> Sequence[Retirement]:
    """Return the retirements in a response of the service. Empty if the service's version has no
    retirements."""
    try:
        answer = rest.get("/v1/retirements")
    except NotFound:
        return ()
    known = frozenset(RetirementPhase)
    return [_RETIREMENT.validate_python(entry) for entry in answer if entry["phase"] in known]
