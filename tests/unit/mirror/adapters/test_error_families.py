"""Test that every kazoo exception is translated into a class of `mirror.errors`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from mirror import errors
from mirror.adapters.zookeeper_errors import translated
from mirror.errors import HeadraceError


def kazoo_family(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for child in kind.__subclasses__():
        yield from kazoo_family(child)


KAZOO = sorted({*kazoo_family(KazooException), KazooTimeoutError}, key=lambda one: one.__name__)


def ours(error: Exception) -> HeadraceError:
    with pytest.raises(HeadraceError) as raised, translated("/some/path"):
        raise error
    assert raised.value.__cause__ is error
    return raised.value


@pytest.mark.parametrize("kind", KAZOO, ids=lambda one: one.__name__)
def test_every_kazoo_error_becomes_one_of_ours(kind: type[Exception]) -> None:
    found = ours(kind())
    assert type(found) is not HeadraceError
    expected = KAZOO_MEANINGS.get(kind.__name__)
    if expected is not None:
        assert type(found) is expected


KAZOO_MEANINGS: dict[str, type[HeadraceError]] = {
    "NoNodeError": errors.NotFound,
    "NodeExistsError": errors.AlreadyExists,
    "BadVersionError": errors.VersionConflict,
    "NotEmptyError": errors.VersionConflict,
    "SessionExpiredError": errors.SessionLost,
    "ConnectionClosedError": errors.SessionLost,
    "NoAuthError": errors.NotAuthorized,
    "AuthFailedError": errors.NotAuthorized,
    "KazooTimeoutError": errors.TimedOut,
    "OperationTimeoutError": errors.TimedOut,
    "ConnectionLoss": errors.Unreachable,
    "SessionMovedError": errors.Unreachable,
    "ConnectionDropped": errors.Unreachable,
    "NoChildrenForEphemeralsError": errors.Refused,
    "BadArgumentsError": errors.Refused,
    "InvalidACLError": errors.Refused,
    "UnimplementedError": errors.Refused,
    "MarshallingError": errors.Refused,
    "QuotaExceededError": errors.Refused,
    "EphemeralOnLocalSessionError": errors.Refused,
}


def test_the_meanings_are_of_errors_that_exist() -> None:
    assert set(KAZOO_MEANINGS) <= {kind.__name__ for kind in KAZOO}


def test_a_program_error_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), translated("/x"):
        raise ZeroDivisionError
