"""Hierarchy of all exceptions that Headrace raises on purpose.

    HeadraceError
    ├── ConfigError                 unknown, invalid or inconsistent setting     fatal
    ├── InvalidRequest              invalid request or definition
    │   ├── NotFound                no such object
    │   ├── AlreadyExists           name already in use
    │   │   └── KeyReused           idempotency key already used for a different creation
    │   ├── IllegalTransition       not allowed in the current state
    │   ├── NothingStored           no data stored yet
    │   ├── RefusedFields           invalid fields of a change
    │   ├── NotAuthenticated        missing or invalid credentials
    │   ├── Forbidden               caller lacks permission
    │   │   └── QuotaExceeded       quota of the owner exceeded
    │   └── VersionNotGiven         a change names no version
    ├── Unreachable                 a server does not respond                    retriable
    │   ├── UnexpectedCluster       another cluster responds at the address      retriable
    │   └── TimedOut                no response within the deadline              retriable
    │       └── ResponseStalled     a response stopped midway                    retriable
    ├── Refused                     a server rejected the request; retrying does not help
    │   ├── NotAuthorized           credentials or access rules
    │   ├── UnsafeProgressTopic     the progress topic deletes checkpoints
    │   ├── TopicMissing            missing topic or partition
    │   │   └── DestinationMissing  missing destination topic, which the leader creates
    │   ├── RecordTooLarge          record or batch larger than the destination accepts
    │   ├── RecordRejected          invalid for the destination topic
    │   ├── TransformFailed         a transform cannot process the record
    │   └── BatchTooLarge           a batch exceeds the limit for decompression
    ├── CoordinationError
    │   ├── VersionConflict         concurrent write; read again                 retriable
    │   │   └── StaleVersion        a change names an outdated version
    │   ├── SessionLost             the coordination session ended               fatal for all tasks
    │   ├── Fenced                  a newer owner has taken the partition        fatal for the lane
    │   ├── NewerFormat             state written by a newer version             fatal
    │   └── StoreInUse              another process uses the embedded store      fatal
    ├── DataLossDetected            records were deleted at the source before they were copied
    │   ├── SourceTruncated         the log start moved past the lane's position
    │   ├── TopicRecreated          same name, different topic id
    │   └── EpochDiverged           the leader's history differs from the copied one
    ├── CorruptData                 wrong checksum or structure
    │   ├── DamagedState            unreadable node of the coordination store
    │   ├── DamagedStore            unreadable coordination store                fatal
    │   ├── ResponseTooLarge        a broker announces more than was requested
    │   ├── PayloadTooLarge         decompressed data exceeds the limit
    │   └── UndecodableBatch        a batch with a correct checksum cannot be decoded
    ├── Unexpected                  a step failed with an unexpected exception
    ├── PlanRejected                a plan breaks a rule; it is not published
    ├── Busy                        too many concurrent calls of a kind          retriable
    │   └── TooOften                one caller exceeds its rate limit            retriable
    ├── ServiceAnswerTooLarge       response of an instance exceeds the limit
    ├── LoadUnavailable             no provider returned partition loads         retriable
    │   └── NoSamples               nothing was measured on the cluster          retriable
    ├── HistoryUnavailable          no store of past measurements is available
    └── AnalyticsError              error or incomplete result of Pinot or Spark retriable
        └── AnswerTooLarge          response of Pinot exceeds the limit

`retriable`: the same call may succeed later. `fatal`: the component that raised it must stop. `advice`: one
sentence on how to fix the problem; shown by the CLI and in REST responses.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple


class HeadraceError(Exception):
    """Base class of Headrace's exceptions. Catch it only at the top of a loop, a command or a request."""

    retriable: ClassVar[bool] = False
    fatal: ClassVar[bool] = False

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(f"{message}: {advice}" if advice else message)
        self.message = message
        self.advice = advice


class ConfigError(HeadraceError):
    """A setting is unknown, malformed or contradicts another setting. The message names the key."""

    fatal = True


class FieldProblem(NamedTuple):
    """Error of one field; `pointer` locates it (RFC 6901)."""

    pointer: str
    detail: str


class InvalidRequest(HeadraceError):
    """A request or a definition is invalid. `fields`: errors of individual fields, if known."""

    def __init__(self, message: str, *, fields: Sequence[FieldProblem] = (), advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.fields = tuple(fields)


class NotFound(InvalidRequest):
    """The requested object does not exist."""


class AlreadyExists(InvalidRequest):
    """An object of that name already exists."""


class KeyReused(AlreadyExists):
    """The idempotency key was already used for a different creation."""


class IllegalTransition(InvalidRequest):
    """The current state does not allow the requested state."""


class NothingStored(InvalidRequest):
    """The requested data is not stored yet, or is no longer stored."""


class RefusedFields(InvalidRequest):
    """Fields of a change are invalid or cannot be changed."""


class NotAuthenticated(InvalidRequest):
    """Credentials are missing or invalid."""


class Forbidden(InvalidRequest):
    """The caller lacks the required permission."""


class QuotaExceeded(Forbidden):
    """The request would exceed the owner's quota of datastreams or their resources."""


class VersionNotGiven(InvalidRequest):
    """A change does not name the version that it modifies."""


class Unreachable(HeadraceError):
    """A server does not respond, or the connection broke."""

    retriable = True


class UnexpectedCluster(Unreachable):
    """Another cluster responds at the address of a source or destination. Headrace does not use that
    cluster."""

    @classmethod
    def at(cls, cluster: str, expected: str, found: str) -> UnexpectedCluster:
        """Return the error for an address at which another cluster responds.

        `expected`, `found`: cluster ids. `found` is empty for a cluster without an id.
        """
        return cls(
            f"another cluster ({found or 'without an id'}) responds at the address of {cluster};"
            f" expected {expected}",
            advice=f"correct bootstrap_servers of {cluster}; if the cluster was rebuilt, accept it with"
            " headrace datastream restart-from",
        )


class TimedOut(Unreachable):
    """A server did not respond within the deadline."""


class ResponseStalled(TimedOut):
    """A broker started a response and stopped sending it, or sends it too slowly."""


class Refused(HeadraceError):
    """A server understood the request and rejected it."""


class NotAuthorized(Refused):
    """The credentials or access rules do not permit the request."""


class UnsafeProgressTopic(Refused):
    """The progress topic has settings that let checkpoints expire."""


class TopicMissing(Refused):
    """The topic or partition does not exist on that cluster."""


class DestinationMissing(TopicMissing):
    """The destination topic, or its partition, does not exist; the leader creates it."""


class RecordTooLarge(Refused):
    """A record or batch is larger than the destination topic accepts.

    `offset`: source offset of the record, -1 if unknown.
    """

    def __init__(self, message: str, *, offset: int = -1, advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.offset = offset


class RecordRejected(Refused):
    """A record is invalid for the destination topic."""


class TransformFailed(Refused):
    """A transform raised an exception, or returned no record.

    `offset`: source offset of the record.
    """

    def __init__(self, message: str, *, offset: int = -1, advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.offset = offset


class BatchTooLarge(Refused):
    """A batch has too many records or bytes to be decompressed.

    `offset`: source offset of the first uncopied record of the batch. `last_offset`: source offset of its
    last record.
    """

    def __init__(self, message: str, *, offset: int = -1, last_offset: int = -1, advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.offset = offset
        self.last_offset = last_offset


class CoordinationError(HeadraceError):
    """The state in the coordination store does not allow the operation."""


class VersionConflict(CoordinationError):
    """The node was modified concurrently since it was read."""

    retriable = True


class StaleVersion(VersionConflict):
    """The version named by a change is outdated."""

    retriable = False


class SessionLost(CoordinationError):
    """The session with the coordination store has ended. The store has deleted its ephemeral nodes."""

    fatal = True


ONE_OWNER_ADVICE: Final = (
    "run only one service, or one copy per state; to copy here again, stop the other one, and pause and"
    " resume the datastream"
)


class Fenced(CoordinationError):
    """A newer owner writes the partition; the former owner must stop."""

    fatal = True


class NewerFormat(CoordinationError):
    """The stored state was written by a newer version of Headrace."""

    fatal = True


class StoreInUse(CoordinationError):
    """Another process uses the embedded store in the folder; the message names it."""

    fatal = True


class DataLossDetected(HeadraceError):
    """Records were deleted at the source before they were copied."""


class SourceTruncated(DataLossDetected):
    """Retention or truncation has removed the source offset at which the lane continues."""


class TopicRecreated(DataLossDetected):
    """The source topic was recreated: its topic id has changed."""


class EpochDiverged(DataLossDetected):
    """The source's leader history differs from the history of the copied records."""


class CorruptData(HeadraceError):
    """Data has a wrong checksum or structure."""


class DamagedState(CorruptData):
    """A node of the coordination store is unreadable; only the object that it describes is affected."""


class DamagedStore(CorruptData):
    """The file of the embedded store, or the topics of the store on Kafka, are damaged. Data of a damaged
    store is not used."""

    fatal = True


class ResponseTooLarge(CorruptData):
    """A broker announces a larger response than the request allows."""


class Unexpected(HeadraceError):
    """An operation of one lane failed with an unexpected exception, which the message names."""


class PayloadTooLarge(CorruptData):
    """Decompressed data exceeds the limit."""


class UndecodableBatch(CorruptData):
    """A batch matches its checksum, but its records cannot be decoded.

    `offset`: source offset of the first uncopied record of the batch. `last_offset`: source offset of its
    last record.
    """

    def __init__(self, message: str, *, offset: int = -1, last_offset: int = -1, advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.offset = offset
        self.last_offset = last_offset


class PlanRejected(HeadraceError):
    """A plan violates an invariant and is not published."""


class Busy(HeadraceError):
    """Too many concurrent calls of this kind."""

    retriable = True


class TooOften(Busy):
    """A caller exceeds its limit of calls per second or of concurrent calls.

    `after_seconds`: delay before a retry.
    """

    def __init__(self, message: str, *, advice: str = "", after_seconds: int = 1) -> None:
        super().__init__(message, advice=advice)
        self.after_seconds = after_seconds


class ServiceAnswerTooLarge(HeadraceError):
    """A response of a Headrace service is larger than `commands.largest_answer_bytes`."""


class LoadUnavailable(HeadraceError):
    """Partition loads are unavailable from every provider."""

    retriable = True


class NoSamples(LoadUnavailable):
    """No load of the cluster has been measured yet, or none in the time window of the provider."""


class HistoryUnavailable(HeadraceError):
    """Past measurements are unavailable: no metrics store can be queried."""


class AnalyticsError(HeadraceError):
    """Pinot or Spark returned an error or an incomplete result."""

    retriable = True


class AnswerTooLarge(AnalyticsError):
    """A result has more rows, or a response of Pinot more bytes, than a limit allows."""

    retriable = False


def kind_named(name: str) -> type[HeadraceError] | None:
    """Return the error class with this name, or None if unknown. The name comes from another process. Every
    such class accepts a message and advice."""
    found = getattr(sys.modules[__name__], name, None)
    return found if isinstance(found, type) and issubclass(found, HeadraceError) else None
