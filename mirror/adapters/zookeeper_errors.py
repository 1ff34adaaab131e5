"""Translates kazoo's errors into errors of Headrace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kazoo.exceptions import (
    AuthFailedError,
    BadArgumentsError,
    BadVersionError,
    EphemeralOnLocalSessionError,
    InvalidACLError,
    KazooException,
    MarshallingError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    QuotaExceededError,
    SessionExpiredError,
    UnimplementedError,
)
from kazoo.handlers.threading import KazooTimeoutError

from mirror.errors import (
    AlreadyExists,
    NotAuthorized,
    NotFound,
    Refused,
    SessionLost,
    TimedOut,
    Unreachable,
    VersionConflict,
)

_REFUSALS: Final = (
    BadArgumentsError,
    EphemeralOnLocalSessionError,
    InvalidACLError,
    MarshallingError,
    NoChildrenForEphemeralsError,
    QuotaExceededError,
    UnimplementedError,
)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Translate the errors of a kazoo call that concerns `path`."""
    try:
        yield
    except NoNodeError as error:
        raise NotFound(f"znode {path} does not exist") from error
    except NodeExistsError as error:
        raise AlreadyExists(f"znode {path} already exists") from error
    except (BadVersionError, NotEmptyError) as error:
        raise VersionConflict(f"znode {path} was modified concurrently") from error
    except SessionExpiredError as error:
        raise SessionLost("the ZooKeeper session has expired") from error
    except (NoAuthError, AuthFailedError) as error:
        raise NotAuthorized(f"ZooKeeper denied access to znode {path}") from error
    except _REFUSALS as error:
        raise Refused(f"ZooKeeper rejected the request for znode {path} ({type(error).__name__})") from error
    except (KazooTimeoutError, OperationTimeoutError) as error:
        raise TimedOut(f"ZooKeeper timed out on znode {path}") from error
    except KazooException as error:
        raise Unreachable(f"ZooKeeper is unavailable for znode {path} ({type(error).__name__})") from error
