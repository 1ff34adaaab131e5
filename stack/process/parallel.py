"""Parallel actions on several servers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def for_each(items: Collection[T], action: Callable[[T], object]) -> None:
    """Run the action on all things in parallel threads and wait; raises the first error in their order."""
    with ThreadPoolExecutor(max(1, len(items))) as pool:
        results = [pool.submit(action, thing) for thing in items]
    for result in results:
        result.result()
