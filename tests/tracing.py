"""Tracing of the functions of the product that are entered, for the walks of `tests/walk.py`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
WINGS: Final = ("mirror", "pinot", "pmp", "assigner", "monitor", "api", "headrace")


class Visit(NamedTuple):
    """Entered function. `file` is relative to the repository; `lines`: length of the function."""

    file: str
    function: str
    lines: int


class Length(NamedTuple):
    """Length of a walk: files, their lines as a whole, and returns to a file left before."""

    files: int
    lines: int
    returns: int


def lines_of(file: str) -> int:
    """Return the number of lines of a file."""
    return len((ROOT / file).read_text(encoding="utf-8").splitlines())


def stays(visits: Sequence[Visit]) -> list[str]:
    """Return the files in the order entered, without consecutive repeats."""
    files: list[str] = []
    for visit in visits:
        if not files or files[-1] != visit.file:
            files.append(visit.file)
    return files


def length_of(visits: Sequence[Visit]) -> Length:
    """Return the length of a walk."""
    files = stays(visits)
    distinct = set(files)
    return Length(len(distinct), sum(map(lines_of, distinct)), len(files) - len(distinct))


class Tracer:
    """Recorder of the functions of the product that are entered, on all threads started from now on."""

    def __init__(self) -> None:
        self._entered: list[Visit] | None = None
        self._by_tests = False
        self._files: dict[str, str] = {}

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Trace this thread and new ones meanwhile."""
        before = sys.getprofile()
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(before)
            threading.setprofile(before)

    def entered_by(self, run: Callable[[], object], *, by_tests: bool = False) -> list[Visit]:
        """Return the functions that `run` enters; with `by_tests`, also those that tests call themselves."""
        entered, self._by_tests = list[Visit](), by_tests
        self._entered = entered
        try:
            run()
        finally:
            self._entered = None
        return entered

    def _note(self, frame: FrameType, event: str, _argument: Any) -> None:
        entered, code, caller = self._entered, frame.f_code, frame.f_back
        if entered is None or event != "call" or caller is None or code.co_name.startswith("<"):
            return
        file = self._file(code)
        if file.startswith(WINGS) and (self._by_tests or not self._file(caller.f_code).startswith("tests/")):
            entered.append(Visit(file, code.co_qualname, _length(code)))

    def _file(self, code: CodeType) -> str:
        """Return the file relative to the repository, empty outside of it."""
        name = self._files.get(code.co_filename)
        if name is None:
            path = Path(code.co_filename)
            is_ours = path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / ".venv")
            name = self._files[code.co_filename] = str(path.relative_to(ROOT)) if is_ours else ""
        return name


def described(visits: Sequence[Visit]) -> str:
    """Return the walk as text: each file with its lines and the first function entered, then the length."""
    first: dict[str, Visit] = {}
    for visit in visits:
        first.setdefault(visit.file, visit)
    width = max(map(len, first))
    rows = [f"{one.file:{width}}  {lines_of(one.file):4}  {one.function}" for one in first.values()]
    length = length_of(visits)
    return "\n".join([*rows, f"{length.files} files, {length.lines} lines, {length.returns} returns"])


def _length(code: CodeType) -> int:
    lines = {line for _, _, line in code.co_lines() if line}
    return max(lines) - code.co_firstlineno + 1
