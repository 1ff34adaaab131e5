"""Build extension modules from the sources in the working folder, with `mypyc` and the C compiler.

The C files of several modules are compiled as one unit, because half of the compilation time of a unit is
spent on common headers. The units are compiled on all cores in parallel. By default, `mypyc` compiles one
unit with -O3, which takes five times as long on one core. The resulting code is not faster: only code that
runs once per record benefits from optimization, and other code mainly calls functions of the Python runtime.
"""

from __future__ import annotations

import gc
import os
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol

from mypyc.build import mypycify

from headrace.process.machine_code import MODULES, PER_RECORD

_UNITS: Final = 3
"""Number of units for the modules that run once per batch.

There is one more unit for the modules that run once per record, and one for all entry points.
"""
_PER_RECORD: Final = "-O1"
_PER_BATCH: Final = "-Og"
_FLAGS: Final = ("-w", "-fPIC", "-fwrapv", "-DNDEBUG")
_SUFFIX: Final = str(sysconfig.get_config_var("EXT_SUFFIX"))


class Extension(Protocol):
    """The attributes of a setuptools extension that this module uses. setuptools has no type annotations."""

    name: str
    sources: list[str]
    include_dirs: list[str]


def make_extensions(settings: Path, target: Path) -> None:
    """Write the extension modules of MODULES, and their shared library, into `target`.

    Raises:
        subprocess.CalledProcessError: the C compiler rejected a unit; the compiler's messages are on stderr.
        SystemExit: `mypyc` rejected a source.
    """
    gc.disable()  # a quarter of mypyc's time, for a process that ends soon
    modules = [f"{module}.py" for module in MODULES]
    arguments = ["--config-file", str(settings), "--cache-dir", "types"]
    library, *entries = mypycify([*arguments, *modules], multi_file=True)
    includes = [sysconfig.get_paths()["include"], *library.include_dirs]
    units = list(_units(library, entries))
    with ThreadPoolExecutor(os.cpu_count()) as cores:
        objects = list(cores.map(lambda unit: _compile(unit[0], unit[1], includes), units))
        # Each module file contains the entry points of all modules; the file name selects the entry point.
        links = [(library, objects[:-1]), *((entry, objects[-1:]) for entry in entries)]
        list(cores.map(lambda link: _link(target, *link), links))


def _units(library: Extension, entries: Sequence[Extension]) -> Iterator[tuple[Path, str]]:
    """Write each C file to compile, and yield its name and optimization level.

    The largest unit comes first, the unit of the entry points last.
    """
    names = {_c_file(module) for module in PER_RECORD}
    generated = sorted(library.sources, key=os.path.getsize, reverse=True)
    per_batch = [source for source in generated if "__native_" in source and Path(source).name not in names]
    yield _unit("per_record", [source for source in generated if source not in per_batch]), _PER_RECORD
    for index in range(_UNITS):
        yield _unit(f"per_batch_{index}", per_batch[index::_UNITS]), _PER_BATCH
    yield _unit("entries", [source for entry in entries for source in entry.sources]), _PER_BATCH


def _c_file(module: str) -> str:
    """Return the name of the C file that `mypyc` writes for a module."""
    return f"__native_{module.replace('/', '___')}.c"


def _unit(name: str, sources: Iterable[str]) -> Path:
    """Write a C file that includes the files in `sources`.

    Each entry point file of mypyc defines an entry point for its package under the same name, so the unit
    renames it.
    """
    unit = Path(f"{name}.c")
    lines = [
        f'#define PyInit___init__ package_{index}\n#include "{source}"\n#undef PyInit___init__\n'
        for index, source in enumerate(sources)
    ]
    unit.write_text("".join(lines))
    return unit


def _compile(unit: Path, level: str, includes: Sequence[str]) -> Path:
    """Compile a C file to an object file."""
    object_file = unit.with_suffix(".o")
    folders = [f"-I{folder}" for folder in includes]
    _run("CC", [*_FLAGS, level, *folders, "-c", str(unit), "-o", str(object_file)])
    return object_file


def _link(target: Path, extension: Extension, objects: Sequence[Path]) -> None:
    """Link object files into the file that Python imports as the extension."""
    file = target / (extension.name.replace(".", "/") + _SUFFIX)
    file.parent.mkdir(parents=True, exist_ok=True)
    _run("LDSHARED", [*map(str, objects), "-o", str(file)])


def _run(tool: str, arguments: Sequence[str]) -> None:
    """Run a compiler or linker.

    The command is the environment variable `tool`, by default the command with which Python was built.
    """
    command = os.environ.get(tool) or str(sysconfig.get_config_var(tool))
    subprocess.run([*shlex.split(command), *arguments], check=True)


if __name__ == "__main__":
    make_extensions(Path(sys.argv[1]), Path(sys.argv[2]))
