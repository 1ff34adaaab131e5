"""Parallel actions on several servers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def for_each(items: Collection[T], action: Callable[[T], object]) -> None:
    """Run an action on all items in parallel threads and wait. Raises the first error in the order of the
    items."""
    with ThreadPoolExecutor(max(1, len(items))) as pool:
        results = [pool.submit(action, thing) for thing in items]
    for result in results:
        result.result()
