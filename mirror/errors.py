"""Every error that Headrace raises on purpose, in one tree.

    HeadraceError
    ├── ConfigError                 a setting is wrong; names the key            fatal
    ├── InvalidRequest              a request or definition cannot be accepted
    │   ├── NotFound                there is no such thing
    │   ├── AlreadyExists           there is one by that name already
    │   │   └── KeyReused           the key of a creation was given to another one
    │   ├── IllegalTransition       not from the present state
    │   ├── NothingStored           nothing is known of it yet
    │   ├── RefusedFields           fields of a change cannot be as they are asked for
    │   ├── NotAuthenticated        it is not known who asks
    │   ├── Forbidden               who asks has no right to it
    │   │   └── QuotaExceeded       its owner has no more of it
    │   └── VersionNotGiven         a change does not say which version it is a change of
    ├── Unreachable                 a server does not answer                     retriable
    │   ├── UnexpectedCluster       another cluster answers at the address       retriable
    │   └── TimedOut                it answered too late                         retriable
    │       └── ResponseStalled     it stopped within a response                 retriable
    ├── Refused                     a server answered no; asking again changes nothing
    │   ├── NotAuthorized           credentials or access rules
    │   ├── UnsafeProgressTopic     the progress topic deletes checkpoints
    │   ├── TopicMissing            the topic or partition is not there
    │   ├── RecordTooLarge          larger than the destination accepts
    │   ├── RecordRejected          invalid for the destination topic
    │   ├── TransformFailed         a transform cannot treat the record
    │   └── BatchTooLarge           a batch opens into more than may be opened at a time
    ├── CoordinationError
    │   ├── VersionConflict         somebody else wrote first; read again        retriable
    │   │   └── StaleVersion        the version that a change names is not the present one
    │   ├── SessionLost             the ZooKeeper session is over                fatal for all tasks
    │   ├── Fenced                  a newer owner has taken the partition        fatal for the lane
    │   └── NewerFormat             state written by a newer version             fatal
    ├── DataLossDetected            records between our position and the source's log are gone
    │   ├── SourceTruncated         the log start moved past our position
    │   ├── TopicRecreated          same name, another topic id
    │   └── EpochDiverged           the leader's history is not the one we copied
    ├── CorruptData                 bytes that do not check out
    │   ├── DamagedState            what is stored in ZooKeeper cannot be read back
    │   ├── ResponseTooLarge        a broker announces more than it was asked for
    │   ├── PayloadTooLarge         compressed bytes that open into more than is allowed
    │   └── UndecodableBatch        the checksum of a batch is right, its records cannot be decoded
    ├── Unexpected                  a step failed in a way that nobody foresaw
    ├── PlanRejected                a plan breaks a rule; it is not published
    ├── Busy                        too many calls of a kind are under way       retriable
    │   └── TooOften                one caller makes more calls than it may      retriable
    ├── ServiceAnswerTooLarge       an instance answers with more bytes than are read
    ├── LoadUnavailable             no provider can say what partitions carry
    ├── HistoryUnavailable          nothing that keeps old measurements can be asked
    └── AnalyticsError              Pinot or Spark answered with an error or half an answer   retriable
        └── AnswerTooLarge          Pinot answers with more bytes than are read

`retriable`: the same call may succeed later. `fatal`: whatever raised it must stop.
`advice`: one sentence that says what a person can do; shown by the CLI and in REST answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple


class HeadraceError(Exception):
    """Root of the tree; catch it only at the top of a loop, a command or a request."""

    retriable: ClassVar[bool] = False
    fatal: ClassVar[bool] = False

    def __init__(self, message: str, *, advice: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.message}: {self.advice}" if self.advice else self.message


class ConfigError(HeadraceError):
    """A setting is unknown, malformed or contradicts another; the message names the key."""

    fatal = True


class FieldProblem(NamedTuple):
    """What is wrong with one field; `pointer` says which (RFC 6901)."""

    pointer: str
    detail: str


class InvalidRequest(HeadraceError):
    """A request or a definition cannot be accepted as it stands. `fields`: what is wrong with each of its
    fields, as far as that is known."""

    def __init__(self, message: str, *, fields: Sequence[FieldProblem] = (), advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.fields = tuple(fields)


class NotFound(InvalidRequest):
    """What the request names does not exist."""


class AlreadyExists(InvalidRequest):
    """A thing of that name exists already."""


class KeyReused(AlreadyExists):
    """The key of a creation was given to another one before."""


class IllegalTransition(InvalidRequest):
    """The present state does not allow the requested one."""


class NothingStored(InvalidRequest):
    """What the answer would be made of has not been stored, yet or any more."""


class RefusedFields(InvalidRequest):
    """Fields of a change cannot be as they are asked for."""


class NotAuthenticated(InvalidRequest):
    """It is not known who asks, or what proves it is wrong."""


class Forbidden(InvalidRequest):
    """Who asks is known, and has no right to what is asked."""


class QuotaExceeded(Forbidden):
    """The datastreams of one owner would be, or take, more than that owner has."""


class VersionNotGiven(InvalidRequest):
    """A change does not say which version it is a change of."""


class Unreachable(HeadraceError):
    """A server does not answer or the connection broke."""

    retriable = True


class UnexpectedCluster(Unreachable):
    """Another cluster answers at the address of a source or destination. Nothing is read, created or
    written there."""

    @classmethod
    def at(cls, cluster: str, expected: str, found: str) -> UnexpectedCluster:
        """Return the error for an address at which `found` answers; both are cluster ids, and an empty one
        is none."""
        return cls(
            f"another cluster ({found or 'without an id'}) answers at the address of {cluster};"
            f" expected {expected}",
            advice=f"correct bootstrap_servers of {cluster}; if the cluster was rebuilt, accept it with"
            " headrace datastream restart-from",
        )


class TimedOut(Unreachable):
    """A server did not answer within the deadline."""


class ResponseStalled(TimedOut):
    """A broker began a response and stopped sending it, or sends it too slowly."""


class Refused(HeadraceError):
    """A server understood the request and said no."""


class NotAuthorized(Refused):
    """Credentials or access rules forbid it."""


class UnsafeProgressTopic(Refused):
    """The progress topic has settings by which checkpoints expire."""


class TopicMissing(Refused):
    """The topic or partition does not exist on that cluster."""


class RecordTooLarge(Refused):
    """A record or batch is larger than the destination topic accepts. `offset`: where a single record lies
    at the source, -1 when it is not known which one is at fault."""

    def __init__(self, message: str, *, offset: int = -1, advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.offset = offset


class RecordRejected(Refused):
    """A record is invalid for the destination topic."""


class TransformFailed(Refused):
    """A transform raised an exception, or returned no record. `offset`: of the record at the source."""

    def __init__(self, message: str, *, offset: int = -1, advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.offset = offset


class BatchTooLarge(Refused):
    """A batch holds more records or bytes than may be opened at a time. `offset`, `last_offset`: its first
    record at the source that has not been copied, and its last one."""

    def __init__(self, message: str, *, offset: int = -1, last_offset: int = -1, advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.offset = offset
        self.last_offset = last_offset


class CoordinationError(HeadraceError):
    """The shared state in ZooKeeper does not allow the step."""


class VersionConflict(CoordinationError):
    """Somebody else wrote the node since it was read."""

    retriable = True


class StaleVersion(VersionConflict):
    """The version that a change names is not the present one any more."""

    retriable = False


class SessionLost(CoordinationError):
    """The ZooKeeper session ended; everything owned through it is given up."""

    fatal = True


class Fenced(CoordinationError):
    """A newer owner writes this partition; this one must stop."""

    fatal = True


class NewerFormat(CoordinationError):
    """The stored state was written by a newer version of Headrace."""

    fatal = True


class DataLossDetected(HeadraceError):
    """Records that should have been copied are no longer at the source."""


class SourceTruncated(DataLossDetected):
    """The source's log start lies beyond our position."""


class TopicRecreated(DataLossDetected):
    """The source topic has another topic id than the one that was copied."""


class EpochDiverged(DataLossDetected):
    """The source's leader history differs from the one that was copied."""


class CorruptData(HeadraceError):
    """Bytes whose checksum or structure is wrong."""


class DamagedState(CorruptData):
    """What is stored in ZooKeeper cannot be read back; the problem is limited to what it describes."""


class ResponseTooLarge(CorruptData):
    """A broker announces a larger response than the request allows."""


class Unexpected(HeadraceError):
    """A step of one lane failed in a way that nobody foresaw; the message names the exception."""


class PayloadTooLarge(CorruptData):
    """Compressed bytes open into more than is allowed."""


class UndecodableBatch(CorruptData):
    """A batch matches its checksum, but its records cannot be decoded. `offset`, `last_offset`: its first
    record at the source that has not been copied, and its last one."""

    def __init__(self, message: str, *, offset: int = -1, last_offset: int = -1, advice: str = "") -> None:
        super().__init__(message, advice=advice)
        self.offset = offset
        self.last_offset = last_offset


class PlanRejected(HeadraceError):
    """A plan breaks an invariant and is not published."""


class Busy(HeadraceError):
    """Too many calls of this kind are under way."""

    retriable = True


class TooOften(Busy):
    """One caller makes more calls than it may, a second or at once. `after_seconds`: when to ask again."""

    def __init__(self, message: str, *, advice: str = "", after_seconds: int = 1) -> None:
        super().__init__(message, advice=advice)
        self.after_seconds = after_seconds


class ServiceAnswerTooLarge(HeadraceError):
    """A response of a Headrace service is larger than `commands.largest_answer_bytes`."""


class LoadUnavailable(HeadraceError):
    """No provider can say what the partitions carry."""

    retriable = True


class HistoryUnavailable(HeadraceError):
    """Nothing that keeps what was measured long ago can be asked."""


class AnalyticsError(HeadraceError):
    """Pinot or Spark answered with an error, or with half an answer."""

    retriable = True


class AnswerTooLarge(AnalyticsError):
    """An answer of Pinot is larger than `pinot.largest_answer_bytes`, after decompression."""

    retriable = False


LONGEST_REASON: Final = 1_000
"""Characters of a reason that are kept."""


def reason_of(error: BaseException) -> str:
    """What a person reads of an error: its message; for an unexpected one also its class."""
    if isinstance(error, HeadraceError):
        return legible(str(error))
    return legible(f"unexpected {named(error)}")


def damage_of(error: BaseException) -> str:
    """What a person reads of a stored document that raised this where it was taken apart."""
    if isinstance(error, HeadraceError):
        return legible(str(error))
    if isinstance(error, KeyError):
        return legible(f"it has no {', '.join(map(repr, error.args))}")
    return legible(f"it is not as it was written: {named(error)}")


def named(error: BaseException) -> str:
    """An error of code that is not ours by its class, with its message where it has one that can be had."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - what says what is wrong may be wrong, too
        message = ""
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def legible(text: str, longest: int = LONGEST_REASON) -> str:
    """The text cut to a length, with nothing in it that cannot be stored, logged or sent as UTF-8."""
    clean = str(text).encode("utf-8", "backslashreplace").decode("utf-8")
    return clean if len(clean) <= longest else f"{clean[: longest - 1]}…"
