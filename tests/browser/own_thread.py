"""The thread in which everything that touches the browser runs.

While playwright's synchronous interface is open, its event loop counts as the running loop of the thread that
opened it, and `asyncio.run` is refused there. In a thread of its own no other test can meet it, whatever a
browser test leaves open.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Final, TypeVar

_T = TypeVar("_T")
_THREADS: Final = ThreadPoolExecutor(1, "browser")
_INSIDE: Final = threading.local()


def in_browser_thread(function: Callable[[], _T]) -> _T:
    """What the function returns or raises there. The caller waits, also where it is interrupted itself."""
    if getattr(_INSIDE, "is_here", False):
        return function()
    running = _THREADS.submit(_marked, function)
    try:
        return running.result()
    finally:
        wait([running])


def _marked(function: Callable[[], _T]) -> _T:
    _INSIDE.is_here = True
    return function()
