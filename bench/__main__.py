"""`python -m bench NAME …` runs measurements; without a name it lists them."""

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
    """Run them, or list all. Returns an exit code: 2 for an unknown name."""
    known = names()
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        print(f"there is no measurement {', '.join(unknown)}; there are:", file=sys.stderr)
    if not wanted or unknown:
        for name in known:
            summary = (importlib.import_module(f"bench.{name}").__doc__ or "").strip().partition("\n")[0]
            print(f"  {name:24} {summary}")
        if not wanted:
            print('\nRun one or more by name: make bench ONLY="placement_full pmp_decode"')
        return 2 if unknown else 0
    print_machine()
    for name in wanted:
        importlib.import_module(f"bench.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
