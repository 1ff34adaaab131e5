"""Run benchmarks: `python -m bench NAME …`; without a name, list them."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from types import ModuleType
from typing import Final

import bench
from bench.machine import print_machine

_ENTRY: Final = "__main__"


def names() -> list[str]:
    """Return the names of all benchmarks, sorted: `mirror_drain` is `mirror/drain.py`. `rig` is skipped.

    A subpackage with a `__main__.py` is a single benchmark with the name of the subpackage.
    """
    found: list[str] = []
    for room in pkgutil.iter_modules(bench.__path__):
        if room.ispkg:
            modules = list(pkgutil.iter_modules([f"{path}/{room.name}" for path in bench.__path__]))
            single = any(module.name == _ENTRY for module in modules)
            named = [f"{room.name}_{module.name}" for module in modules if not module.ispkg]
            found.extend([room.name] if single else named)
    return sorted(found)


def module_of(name: str) -> ModuleType:
    """Return the module of a benchmark."""
    room, _, module = name.partition("_")
    return importlib.import_module(f"bench.{room}.{module or _ENTRY}")


def main(wanted: list[str]) -> int:
    """Run the given benchmarks, or list all. Returns the exit code: 2 for an unknown name."""
    known = names()
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        print(f"unknown benchmark {', '.join(unknown)}; available:", file=sys.stderr)
    if not wanted or unknown:
        for name in known:
            summary = (module_of(name).__doc__ or "").strip().partition("\n")[0]
            print(f"  {name:24} {summary}")
        if not wanted:
            print('\nRun one or more by name: make bench ONLY="placement_full pmp_decode"')
        return 2 if unknown else 0
    print_machine()
    for name in wanted:
        module_of(name).main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
