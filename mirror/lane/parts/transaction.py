"""Transactions of an exactly-once lane."""

from __future__ import annotations

from enum import IntEnum


class TransactionPhase(IntEnum):
    """Phase of an exactly-once lane's transaction."""

    CLOSED = 0
    BEGINNING = 1
    """The transaction was requested."""
    UNCERTAIN = 2
    """The request to begin failed; the transaction may be open."""
    OPEN = 3
    ENDING = 4
    FAILED = 5
    """The transaction must be aborted; its records are copied again."""


class TransactionState:
    """State of a lane's transaction with exactly-once delivery. `started_at`: start of the open transaction
    (monotonic seconds). `progress_sequence`: sequence number of the next record in the progress topic."""

    __slots__ = (
        "floor",
        "phase",
        "progress_sequence",
        "requested_at",
        "started_at",
        "target_next",
    )

    def __init__(self, floor: int) -> None:
        self.floor = floor
        """Destination offset below which no transaction was open when the lane acquired its producer id. A
        batch stored below `floor` shows that the log has lost records, perhaps a marker."""
        self.phase = TransactionPhase.CLOSED
        self.requested_at = 0.0
        """Time at which the current transaction was requested, before the coordinator started it."""
        self.started_at = 0.0
        self.progress_sequence = 0
        self.target_next: int | None = None
        """The lane's `target_next` before the first batch of the current transaction."""

    @property
    def is_open(self) -> bool:
        """Return whether the transaction coordinator has started the transaction."""
        return self.phase >= TransactionPhase.OPEN

    @property
    def may_begin(self) -> bool:
        """Return whether a new transaction may begin."""
        return self.phase is TransactionPhase.CLOSED or self.phase is TransactionPhase.UNCERTAIN

    @property
    def may_be_open(self) -> bool:
        """Return whether a transaction was requested and may not have ended."""
        return self.phase is not TransactionPhase.CLOSED
