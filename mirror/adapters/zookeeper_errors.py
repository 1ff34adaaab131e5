"""kazoo's errors in our words."""

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
    """Run a kazoo call about `path`."""
    try:
        yield
    except NoNodeError as error:
        raise NotFound(f"there is no znode {path}") from error
    except NodeExistsError as error:
        raise AlreadyExists(f"there is a znode {path} already") from error
    except (BadVersionError, NotEmptyError) as error:
        raise VersionConflict(f"znode {path} was changed by somebody else") from error
    except SessionExpiredError as error:
        raise SessionLost("the ZooKeeper session is over") from error
    except (NoAuthError, AuthFailedError) as error:
        raise NotAuthorized(f"ZooKeeper does not allow it: {path}") from error
    except _REFUSALS as error:
        raise Refused(f"ZooKeeper refuses it ({type(error).__name__}): {path}") from error
    except (KazooTimeoutError, OperationTimeoutError) as error:
        raise TimedOut(f"ZooKeeper did not answer in time: {path}") from error
    except KazooException as error:
        raise Unreachable(f"ZooKeeper does not answer ({type(error).__name__}): {path}") from error
