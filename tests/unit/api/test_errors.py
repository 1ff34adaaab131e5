"""Test that every error class has a status and a response body with advice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from api.brooklin.protocol import restli_problem
from api.http.problems import STATUS, problem, status_of
from mirror import errors

OURS = {
    errors.HeadraceError,
    errors.ConfigError,
    errors.CorruptData,
    errors.DamagedStore,
    errors.PayloadTooLarge,
    errors.ResponseTooLarge,
    errors.UndecodableBatch,
    errors.Unexpected,
    errors.DataLossDetected,
    errors.SourceTruncated,
    errors.TopicRecreated,
    errors.EpochDiverged,
    errors.ServiceAnswerTooLarge,
}
"""Errors that the caller cannot fix (500)."""
BROOKLINS: dict[type[errors.HeadraceError], int] = {
    errors.RefusedFields: 400,
    errors.IllegalTransition: 405,
    errors.KeyReused: 409,
}
"""Errors for which Brooklin's server uses another status than /v1."""


def family(kind: type[errors.HeadraceError]) -> Iterator[type[errors.HeadraceError]]:
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == "mirror.errors":
            yield from family(child)


@pytest.mark.parametrize("kind", sorted(family(errors.HeadraceError), key=str))
def test_every_error_has_a_status(kind: type[errors.HeadraceError]) -> None:
    error = kind("what happened", advice="what to do")
    status = status_of(error)
    assert (status is HTTPStatus.INTERNAL_SERVER_ERROR) == (kind in OURS)
    assert problem(error, "a-call") == {
        "type": "about:blank",
        "title": status.phrase,
        "status": status.value,
        "kind": kind.__name__,
        "detail": "what happened",
        "advice": "what to do",
        "request_id": "a-call",
    }
    envelope = restli_problem(error, "one")
    assert envelope["status"] == BROOKLINS.get(kind, status)
    assert re.fullmatch(
        r"msg=what happened: what to do; cause=None; instance=one; id=[0-9a-f]{6};", envelope["message"]
    )


def test_what_may_succeed_later_is_never_the_callers_fault() -> None:
    """Errors that require action of the caller are excepted: read again, or send fewer requests."""
    callers = (errors.VersionConflict, errors.TooOften)
    for kind in family(errors.HeadraceError):
        if kind.retriable and kind not in callers:
            assert status_of(kind("x")) >= 500, kind


def test_the_table_names_no_error_twice_by_accident() -> None:
    for kind, status in STATUS.items():
        parents = [parent for parent in kind.__mro__[1:] if parent in STATUS]
        assert not parents or STATUS[parents[0]] != status, kind
