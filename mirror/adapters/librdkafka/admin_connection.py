"""An admin client that is there while its cluster answers, so that one that does not holds no resources."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

from confluent_kafka.admin import AdminClient

from mirror.errors import TimedOut, Unreachable

_MOMENT_SECONDS: Final = 1.0
"""How long a thread waits for another one's knock, and how long the failure of a knock stands before the next
one; a cluster that answers does so much sooner."""


class AdminConnection:
    """Thread-safe. `name`: of the cluster, for what is said; `open_client`: makes a client; `knock`: raises
    Unreachable where nothing answers. Without a knock the client itself tries the addresses for as long as it
    has patience."""

    def __init__(
        self,
        name: str,
        open_client: Callable[[], AdminClient],
        knock: Callable[[], None] | None,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._name = name
        self._open_client = open_client
        self._knock = knock
        self._now = now
        self._client: AdminClient | None = None
        self._opening = threading.Lock()
        self._failure: Unreachable | None = None
        self._failed_at = 0.0

    def client(self) -> AdminClient:
        """The open client. While a cluster that did not answer is tried again, the others that ask get its
        last failure: one thread waits. Raises Unreachable, NotAuthorized."""
        client, failure = self._client, self._failure
        if client is not None:
            return client
        if failure is not None and self._now() - self._failed_at < _MOMENT_SECONDS:
            raise self._again(failure)
        if not self._opening.acquire(timeout=_MOMENT_SECONDS if failure is None else 0):
            raise self._again(failure)
        try:
            if self._client is None:
                if self._failure is not None and self._failure is not failure:
                    raise self._again(self._failure)
                self._client = self._open()
            return self._client
        finally:
            self._opening.release()

    def drop(self, client: AdminClient, failure: Unreachable) -> None:
        """Close it when nobody uses it any more: a question to it got no answer."""
        if self._client is client:
            self._failure, self._client = failure, None

    def _open(self) -> AdminClient:
        try:
            if self._knock is not None:
                self._knock()
        except Unreachable as error:
            self._failure, self._failed_at = error, self._now()
            raise
        self._failure = None
        return self._open_client()

    def _again(self, failure: Unreachable | None) -> Unreachable:
        if failure is None:
            return TimedOut(f"{self._name}: no answer yet")
        return type(failure)(failure.message, advice=failure.advice)


class Loan:
    """A connection's client for one question. Errors keep the frames that they went through, and somebody may
    keep an error for long: after `end` none of these frames holds the client."""

    def __init__(self, connection: AdminConnection) -> None:
        self._connection = connection
        self._client: AdminClient | None = connection.client()

    def client(self) -> AdminClient:
        """The client, to be called at once and not to be kept."""
        assert self._client is not None, "the loan has ended"
        return self._client

    def refuse(self, failure: Unreachable) -> None:
        """The question got no answer."""
        self._connection.drop(self.client(), failure)

    def end(self) -> None:
        """The question is over."""
        self._client = None
