"""Files of the product that a batch or a request passes through, traced on fakes.

python -m tests.walk            print the walk of a batch, from its Fetch response to its durable checkpoint
python -m tests.walk create     print the walk of a creation, from the REST request to the running lanes

Every file of the product is listed in which a function is entered, except those entered in every round even
if nothing has arrived (timers, polls), and, for a creation, by a call that only reads. A creation is followed
in all threads; the worker process is a fake, so its walk ends with the command that the worker receives. A
return is a step back to a file that was entered before.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from tests.fakes.broker.mirrored import MirroredFakes
from tests.fakes.site import Site, a_body

ROOT: Final = Path(__file__).parents[1]
WINGS: Final = ("mirror", "librdkafka", "pinot", "pmp", "assigner", "monitor", "api", "headrace")
_WARM_SECONDS: Final = 2.0
_ROUND_SECONDS: Final = 0.05
_QUIET_ROUNDS: Final = 20
_QUIET_TICKS: Final = 6
_TICKS: Final = 4
_RECORDS: Final = 50


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


class _Tracer:
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


@cache
def walk_of_batch() -> tuple[Visit, ...]:
    """Return everything that a plain batch enters, in order."""
    tracer = _Tracer()
    with tracer.installed():
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
            entered = tracer.entered_by(lambda: fakes.run(_ROUND_SECONDS))
            if _requests(fakes) == asked and not any(one.function.endswith("._on_answer") for one in entered):
                always.update(entered)
                quiet += 1
        fakes.write("t", _RECORDS, _RECORDS)

        def copied() -> None:
            fakes.run_to("t", 2 * _RECORDS)
            fakes.run(_ROUND_SECONDS)  # the response of the progress topic

        found = tuple(one for one in tracer.entered_by(copied) if one not in always)
        fakes.close()
    return found


def _requests(fakes: MirroredFakes) -> int:
    return sum(len(cluster.server.requests) for cluster in (fakes.source, fakes.target))


@cache
def walk_of_creation() -> tuple[Visit, ...]:
    """Return everything that the creation of a datastream enters, in order."""
    tracer, quiet, found = _Tracer(), set[Visit](), list[Visit]()
    with tracer.installed():
        for _ in range(2):  # the first creation fills caches
            site = Site()
            quiet.update(tracer.entered_by(partial(site.tick, _QUIET_TICKS), by_tests=True))
            quiet.update(tracer.entered_by(partial(site.client.get, "/v1/ready"), by_tests=True))
            found = tracer.entered_by(partial(_create, site))
        quiet.update(tracer.entered_by(partial(site.tick, _QUIET_TICKS), by_tests=True))
    return tuple(one for one in found if one not in quiet)


def _create(site: Site) -> None:
    assert site.client.post("/v1/datastreams", json=a_body("orders")).status_code == 201
    site.tick(_TICKS)
    assert len(site.follower.follower.view.lanes) == 2


WALKS: Final = {"batch": walk_of_batch, "create": walk_of_creation}


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


def main(arguments: Sequence[str]) -> int:
    """Print a walk; return the exit code."""
    name = arguments[0] if arguments else "batch"
    if len(arguments) > 1 or name not in WALKS:
        print(__doc__, file=sys.stderr)
        return 2
    with redirect_stdout(sys.stderr):  # for the log
        text = described(WALKS[name]())
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
