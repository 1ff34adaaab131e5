"""Single-threaded event loop with socket callbacks, timers and coroutines.

Fetch and produce use callbacks, because they run most often. Sequences of requests, such as opening a
connection, are coroutines, because these are easier to read. An unhandled error of a coroutine is a bug:
`run_once` raises it, and the worker ends.
"""

from __future__ import annotations

import heapq
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from functools import partial
from itertools import count
from typing import Any, Final, Generic, TypeVar

from mirror.errors import HeadraceError
from mirror.ports import Clock

T = TypeVar("T")
Callback = Callable[[], object]

READ: Final = selectors.EVENT_READ
WRITE: Final = selectors.EVENT_WRITE


class Promise(Generic[T]):
    """A value that is set later, and that coroutines can `await`. Only the first call of `resolve` or `fail`
    has an effect."""

    __slots__ = ("_error", "_value", "_waiters", "is_awaited", "is_done")

    def __init__(self) -> None:
        self.is_done = False
        self.is_awaited = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._waiters: list[Callback] = []

    def resolve(self, value: T) -> None:
        """Set the value of the promise."""
        self._finish(value, None)

    def fail(self, error: BaseException) -> None:
        """Fail the promise with an error, which is raised in every waiter."""
        self._finish(None, error)

    def when_done(self, callback: Callback) -> None:
        """Call the callback when the promise is done, or at once if it is done already."""
        self.is_awaited = True
        if self.is_done:
            callback()
        else:
            self._waiters.append(callback)

    def result(self) -> T:
        """Return the value of the promise, or raise its error."""
        assert self.is_done, "the promise is not done"
        self.is_awaited = True
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value

    def __await__(self) -> Generator[Promise[T], None, T]:
        if not self.is_done:
            yield self
        return self.result()

    def _finish(self, value: Any, error: BaseException | None) -> None:
        if not self.is_done:
            self.is_done = True
            self._value, self._error = value, error
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                waiter()


class Timer:
    """A callback scheduled for a later time, unless cancelled."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callback) -> None:
        self.callback: Callback | None = callback

    def cancel(self) -> None:
        """Cancel the scheduled callback."""
        self.callback = None


class Loop:
    """Runs callbacks, timers and coroutines on one thread. `selector`: waits for sockets. A test's selector
    may instead advance `clock`."""

    def __init__(self, clock: Clock, selector: selectors.BaseSelector | None = None) -> None:
        self.clock = clock
        self._selector = selector or selectors.DefaultSelector()
        self.new_socket: Callable[[int, int], socket.socket] = socket.socket
        """Creates the socket of a connection. Receives the address family and the socket type."""
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = count()
        self._soon: deque[Callback] = deque()
        self._coroutines: dict[int, Coroutine[Any, Any, Any]] = {}
        self._failure: BaseException | None = None
        self._waking = threading.Lock()
        self._waker, self._wakee = socket.socketpair()
        for end in (self._waker, self._wakee):
            end.setblocking(False)
        self._selector.register(self._wakee, READ, self._woken)

    def now(self) -> float:
        """Return the current monotonic time in seconds."""
        return self.clock.monotonic()

    def watch(self, sock: socket.socket, events: int, callback: Callable[[int], None]) -> None:
        """Call `callback` with the ready events of the socket. Replaces an earlier callback."""
        if sock.fileno() in self._selector.get_map():
            self._selector.modify(sock, events, callback)
        else:
            self._selector.register(sock, events, callback)

    def unwatch(self, sock: socket.socket) -> None:
        """Remove the callback for the socket."""
        watched = self._selector.get_map()  # None after close, although typeshed disagrees
        if watched and sock.fileno() in watched:
            self._selector.unregister(sock)

    def call_soon(self, callback: Callback) -> None:
        """Call `callback` in the next iteration of the loop."""
        self._soon.append(callback)

    def call_later(self, seconds: float, callback: Callback) -> Timer:
        """Call `callback` after `seconds`."""
        timer = Timer(callback)
        heapq.heappush(self._timers, (self.now() + seconds, next(self._numbers), timer))
        return timer

    def wake(self) -> None:
        """End the current wait of the loop. The only thread-safe method. Has no effect on a closed loop."""
        with self._waking:  # the number of a closed socket may be reused
            if self._waker.fileno() < 0:
                return
            try:
                self._waker.send(b"\x00")
            except BlockingIOError:
                return  # already awake

    def sleep(self, seconds: float) -> Promise[None]:
        """Return a promise that is done after `seconds`."""
        promise = Promise[None]()
        self.call_later(seconds, lambda: promise.resolve(None))
        return promise

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> Promise[T]:
        """Run a coroutine. `run_once` raises its error, unless another coroutine awaits it."""
        done = Promise[T]()
        number = next(self._numbers)
        self._coroutines[number] = coroutine
        self._advance(number, coroutine, done)
        return done

    async def see_through(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to completion, even if the caller is interrupted."""
        return await self.spawn(coroutine)

    async def together(self, coroutines: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
        """Run coroutines concurrently, and return the results in order.

        Raises the first error after all coroutines have ended.
        """
        promises = [self.spawn(coroutine) for coroutine in coroutines]
        for promise in promises:
            promise.is_awaited = True  # marked before awaiting, as one may fail while another is awaited
        results: list[T] = []
        failure: HeadraceError | None = None
        for promise in promises:
            try:
                results.append(await promise)
            except HeadraceError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return results

    def run_once(self, timeout_seconds: float) -> None:
        """Wait for an event, up to the timeout, and process it. Raises unhandled errors of coroutines."""
        for key, events in self._selector.select(self._wait(timeout_seconds)):
            key.data(events)
        now = self.now()
        while self._timers and self._timers[0][0] <= now:
            callback = heapq.heappop(self._timers)[2].callback
            if callback is not None:
                callback()
        for _ in range(len(self._soon)):
            self._soon.popleft()()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def close(self) -> None:
        """Close all coroutines and the selector. Idempotent."""
        coroutines, self._coroutines = self._coroutines, {}
        for coroutine in coroutines.values():
            coroutine.close()
        self._timers.clear()
        self._soon.clear()
        self._selector.close()
        with self._waking:
            self._waker.close()
        self._wakee.close()

    def _wait(self, timeout_seconds: float) -> float:
        if self._soon:
            return 0.0
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        if self._timers:
            timeout_seconds = min(timeout_seconds, self._timers[0][0] - self.now())
        return max(timeout_seconds, 0.0)

    def _advance(self, number: int, coroutine: Coroutine[Any, Any, T], done: Promise[T]) -> None:
        if number not in self._coroutines:
            return
        try:
            awaited: Promise[Any] = coroutine.send(None)
        except StopIteration as stop:
            del self._coroutines[number]
            done.resolve(stop.value)
        except BaseException as error:  # noqa: BLE001 - passed on to the awaiter or to run_once
            del self._coroutines[number]
            done.fail(error)
            self.call_soon(partial(self._complain, done, error))
        else:
            again = partial(self._advance, number, coroutine, done)
            awaited.when_done(lambda: self._soon.append(again))

    def _complain(self, done: Promise[T], error: BaseException) -> None:
        if not done.is_awaited:
            self._failure = self._failure or error

    def _woken(self, _events: int) -> None:
        self._wakee.recv(4096)
