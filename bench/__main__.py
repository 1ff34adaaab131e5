"""`python -m bench [NAME …]`: run the named measurements, or list them."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import bench
from bench.machine import print_machine

_NOT_MEASUREMENTS = {"__main__", "machine", "metrics_load", "pinot_rows"}


def names() -> list[str]:
    """Every measurement, sorted."""
    return sorted(
        m.name
        for m in pkgutil.iter_modules(bench.__path__)
        if not m.ispkg and m.name not in _NOT_MEASUREMENTS
    )


def main(wanted: list[str]) -> int:
    """Run them; an unknown name prints the list."""
    known = names()
    if not wanted or set(wanted) - set(known):
        for name in known:
            summary = (importlib.import_module(f"bench.{name}").__doc__ or "").strip().partition("\n")[0]
            print(f"  {name:24} {summary}")
        return 2 if wanted else 0
    print_machine()
    for name in wanted:
        importlib.import_module(f"bench.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
