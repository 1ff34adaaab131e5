"""Thread of everything that uses the browser.

While playwright's synchronous interface is open, its event loop counts as the running loop of its thread, in
which `asyncio.run` then fails. A separate thread keeps other tests unaffected, whatever a browser test leaves
open.
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
    """Run the function in that thread; return or raise its result. The caller waits even if interrupted."""
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
