"""Error messages and exit codes of the command line."""

from __future__ import annotations

import errno
import re
from importlib.metadata import requires
from typing import Final

from mirror.errors import ConfigError, HeadraceError, InvalidRequest

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_ROOM_IS_NEEDED: Final = "free some space or choose another location"

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2


def explain(error: BaseException) -> str | None:
    """Return the message for an expected failure; None if the error is unexpected, that is, a bug.

    The traceback of an unexpected failure is shown. Errors of `stack/` are not HeadraceErrors, because
    `stack` imports no other package. Such errors are recognised by their attribute `advice`.
    """
    if isinstance(error, HeadraceError) or hasattr(error, "advice"):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        return _missing_extra(error.name)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        return f"{text}: {_ROOM_IS_NEEDED}" if error.errno in _NO_ROOM else text
    return None


def exit_code_of(error: BaseException) -> int:
    """Return the exit code: 2 for an invalid request or setting, 1 for any other failure."""
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
    "tenacity": "pinot",
    "kazoo": "zookeeper",
    "jwt": "oidc",
    "matplotlib": "plots",
}
"""Extra in pyproject.toml that installs each optional module."""


def _missing_extra(module: str) -> str | None:
    """Return the message for a missing Python module, or None if no extra installs it.

    The message lists the packages of the extra, because `headrace` itself is not on a package index.
    """
    extra = EXTRAS.get(module.partition(".")[0])
    if extra is None:
        return None
    wanted = " ".join(f"'{requirement}'" for requirement in sorted(requirements_of(extra)))
    return f"this command needs {module}, which is not installed (the extra {extra}): pip install {wanted}"


def requirements_of(extra: str) -> frozenset[str]:
    """Return the requirements of an extra, such as "numpy>=2.1". Nested extras are expanded."""
    found: set[str] = set()
    for text in requires("headrace") or ():
        wanted, _, marker = text.partition(";")
        if marker.strip() in (f"extra == '{extra}'", f'extra == "{extra}"'):
            included = re.fullmatch(r"headrace\[(.+)\]", wanted.strip())
            nested = included.group(1).split(",") if included else ()
            found.update(*map(requirements_of, nested), () if nested else (wanted.strip(),))
    return frozenset(found)
