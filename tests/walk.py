"""The way of one plain batch through the engine, from the answer to a fetch to its durable checkpoint.

A whole engine copies a batch between fake clusters while every function of `mirror` that is entered is noted.
What it enters in any round, also when nothing has arrived (timers, looks at what waits), is left out.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

import mirror
from tests.fakes.broker.mirrored import MirroredFakes

_ROOM: Final = Path(mirror.__file__).parent
_WARM_SECONDS: Final = 2.0
_ROUND_SECONDS: Final = 0.05
_QUIET_ROUNDS: Final = 20
_RECORDS: Final = 50


class Visit(NamedTuple):
    """A function that was entered. `file` within `mirror`; `lines` of the function."""

    file: str
    function: str
    lines: int


def lines_of(file: str) -> int:
    """Of a whole file of `mirror`."""
    return len((_ROOM / file).read_text(encoding="utf-8").splitlines())


def stays(visits: tuple[Visit, ...]) -> list[str]:
    """The files one after the other, as long as each is stayed in."""
    files: list[str] = []
    for visit in visits:
        if not files or files[-1] != visit.file:
            files.append(visit.file)
    return files


@cache
def walk() -> tuple[Visit, ...]:
    """Everything that a plain batch enters, in order."""
    fakes = MirroredFakes()
    fakes.make_topic("t")
    fakes.write("t", 0, _RECORDS)
    fakes.start("t")
    fakes.run_to("t", _RECORDS)
    fakes.run(_WARM_SECONDS)
    always: set[Visit] = set()
    quiet = 0
    while quiet < _QUIET_ROUNDS:
        asked = _requests(fakes)
        entered = _entered_by(lambda: fakes.run(_ROUND_SECONDS))
        if _requests(fakes) == asked and not any(one.function.endswith("._on_answer") for one in entered):
            always.update(entered)
            quiet += 1
    fakes.write("t", _RECORDS, _RECORDS)

    def copied() -> None:
        fakes.run_to("t", 2 * _RECORDS)
        fakes.run(_ROUND_SECONDS)  # the answer of the progress topic

    found = tuple(one for one in _entered_by(copied) if one not in always)
    fakes.close()
    return found


def _requests(fakes: MirroredFakes) -> int:
    return sum(len(cluster.server.requests) for cluster in (fakes.source, fakes.target))


def _entered_by(run: Callable[[], None]) -> list[Visit]:
    """Functions of `mirror` that the engine enters; not what a test reads of it."""
    entered: list[Visit] = []

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(_ROOM)) or code.co_name.startswith("<"):
            return
        caller = frame.f_back
        if caller is not None and caller.f_code.co_filename.startswith(str(_ROOM)):
            file = str(Path(code.co_filename).relative_to(_ROOM))
            entered.append(Visit(file, code.co_qualname, _length(code)))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return entered


def _length(code: CodeType) -> int:
    lines = {line for _, _, line in code.co_lines() if line}
    return max(lines) - code.co_firstlineno + 1


class Step(NamedTuple):
    """One line of the map: who holds the batch, and what that calls on the way."""

    file: str
    function: str
    beside: tuple[str, ...]


def steps() -> list[Step]:
    """The map of docs/data-plane/batch-path.md."""
    page = (_ROOM.parent / "docs/data-plane/batch-path.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d+ \| `(.+?)` \| `(.+?)` \| .* \|(.*)\|$", page, re.MULTILINE)
    return [Step(file, function, tuple(re.findall(r"`(.+?)`", beside))) for file, function, beside in rows]


class Length(NamedTuple):
    """How long a way is. `lines` of the functions that are entered, `file_lines` of the files that have them;
    `returns` to a file that was left before."""

    files: int
    lines: int
    file_lines: int
    returns: int


def length_of(files: list[str]) -> Length:
    """Of a way through these files, in this order, on the walk."""
    entered = sum(visit.lines for visit in {*walk()} if visit.file in files)
    distinct = set(files)
    return Length(len(distinct), entered, sum(map(lines_of, distinct)), len(files) - len(distinct))
