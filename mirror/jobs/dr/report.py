"""Creates the report on one operation of a pair of clusters, to be signed. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from mirror.audit.certificate import FORMAT
from mirror.errors import NotFound
from mirror.jobs.dr.operation import STEPS, Kind, PairState, PastSwitchover, Switchover
from mirror.jobs.dr.settings import PairSettings

KIND: Final = "dr-report"
"""Value of the field `kind` in reports of operations."""
DRILL_SUFFIX: Final = "~drill"
"""Suffix of the pair's name under which the state of drills is stored."""
COMPLETED: Final = "completed"
UNDONE: Final = "undone"
IN_PROGRESS: Final = "in progress"
FAILED: Final = "failed"
REPEATED: Final = "repeated"
_SCENARIOS: Final = {Kind.SWITCHOVER: "switch-over"}
_Account = Switchover | PastSwitchover


def report_of(
    state: PairState, identity: str, settings: PairSettings, issued_ms: int, issuer: str
) -> dict[str, Any]:
    """Return the report on a switch-over or another operation of a pair. Raises NotFound.

    `identity`: id of the operation; if empty, the operation in progress or the last operation is used.
    `issuer`: user who requests the report.

    Positions, groups, audits and gaps are null for operations before the latest one.
    """
    known: list[_Account] = [*state.history, *([] if state.operation is None else [state.operation])]
    found = [account for account in known if identity in ("", account.identity)]
    if not found:
        what = f"{state.name} has no operation {identity}".rstrip()
        raise NotFound(what, advice=f"headrace dr status {state.name} --json lists the last operations")
    account = found[-1]
    outcome = _outcome_of(account)
    return {
        "format": FORMAT,
        "kind": KIND,
        "pair": state.name,
        "operation": account.identity,
        "scenario": "drill"
        if state.name.endswith(DRILL_SUFFIX)
        else _SCENARIOS.get(account.kind, account.kind),
        "origin": account.origin,
        "target": account.target,
        "operator": account.operator,
        "continued_by": list(account.continued_by),
        "issuer": issuer,
        "issued_ms": issued_ms,
        "begun_ms": account.begun_ms,
        "ended_ms": _ended_ms(account),
        "outcome": outcome,
        "failure": account.failure,
        "fenced_principals": list(settings.principals),
        "targets": _targets(account, settings, outcome),
        "stages": _stages(account, outcome),
        "notes": list(account.notes),
        **(_results(account) if account is known[-1] else dict.fromkeys(_results(account))),
    }


def _outcome_of(account: _Account) -> str:
    if isinstance(account, Switchover):
        return IN_PROGRESS
    return UNDONE if account.failure else COMPLETED


def _ended_ms(account: _Account) -> int | None:
    return account.ended_ms if isinstance(account, PastSwitchover) else None


def _targets(account: _Account, settings: PairSettings, outcome: str) -> list[dict[str, Any]]:
    """Compare the targets for time and loss (RTO, RPO) with actual values. Unknown or inapplicable values are
    None."""
    closed = account.closed_ms / 1000 if isinstance(account, PastSwitchover) else None
    lag = _lost_seconds(account) if outcome == COMPLETED else None
    return [_target("RTO", settings.rto_seconds, closed), _target("RPO", settings.rpo_seconds, lag)]


def _lost_seconds(account: _Account) -> float | None:
    """Return the age of the oldest lost record in seconds, or None if it is unknown."""
    if account.kind is Kind.SWITCHOVER:
        return 0.0  # DRAINED: the target had every record
    if account.loss is None:
        return None
    seconds = [partition.seconds for partition in account.loss.partitions]
    known = [lag for lag in seconds if lag is not None]
    return max(known, default=0.0) if len(known) == len(seconds) else None


def _target(name: str, seconds: float, actual: float | None) -> dict[str, Any]:
    return {
        "name": name,
        "target_seconds": seconds,
        "actual_seconds": actual,
        "passed": None if actual is None else actual <= seconds,
    }


def _stages(account: _Account, outcome: str) -> list[dict[str, Any]]:
    """Return the steps of an operation with their start and end times.

    A step ends when the next step starts. The end time of a failed step is unknown. A step that was repeated
    after an interruption is listed several times.
    """
    rows, order = [], STEPS[account.kind]
    for begun, following in pairwise((*account.steps, None)):
        assert begun is not None
        if following is None:
            ended_ms = _ended_ms(account) if outcome == COMPLETED else None
            result = {COMPLETED: COMPLETED, UNDONE: FAILED}.get(outcome, IN_PROGRESS)
        else:
            ended_ms = following.at_ms
            has_advanced = order.index(following.step) > order.index(begun.step)
            result = COMPLETED if has_advanced else REPEATED
        rows.append(
            {"step": begun.step.value, "begun_ms": begun.at_ms, "ended_ms": ended_ms, "outcome": result}
        )
    return rows


def _results(account: _Account) -> dict[str, Any]:
    places = sorted(
        (topic, number)
        for topic in account.ends.keys() | account.starts.keys()
        for number in account.ends.get(topic, {}).keys() | account.starts.get(topic, {}).keys()
    )
    return {
        "positions": [
            {
                "topic": topic,
                "partition": number,
                "origin_end": account.ends.get(topic, {}).get(number),
                "target_start": account.starts.get(topic, {}).get(number),
            }
            for topic, number in places
        ],
        "groups": [{**group.model_dump(), "read_again": group.read_again} for group in account.groups],
        "audits": [audit.model_dump() for audit in account.audits],
        "gaps": list(account.gaps),
        "loss": account.loss and account.loss.model_dump(mode="json"),
    }
