"""Names in documents and messages exist: commands, options, settings, metrics, files, measurements."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import Any, Final, get_args

import pytest
import typer
from pydantic import BaseModel
from typer.core import TyperGroup

from bench.__main__ import names
from headrace.__main__ import app
from headrace.commands.audit import DefaultCommandGroup
from headrace.settings import HeadraceSettings
from headrace_dev.__main__ import app as development_app
from headrace_dev.reference.of_metrics import described
from mirror.coordination.stores import znodes
from scripts.architecture import PACKAGES, ROOT, nodes_of
from tests.situations import SITUATIONS, situations_on
from tests.unit.test_worked_examples import examples, hunks_of

pytestmark = pytest.mark.long

ROOT_PAGES: Final = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/README.md")
PAGES: Final = sorted([*(ROOT / name for name in ROOT_PAGES), *(ROOT / "docs").rglob("*.md")])
SOURCES: Final = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))

_ROOTS: Final = "|".join(HeadraceSettings.model_fields)
_COMMAND: Final = re.compile(r"(?:^|[\s`(/'\"])(headrace(?:-dev)?) ((?:[a-z][a-z-]* ?)+)([^`\n#|,]*)")
_OPTION: Final = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")
_SETTING: Final = re.compile(rf"`((?:{_ROOTS})(?:\.[a-z_]+)+)`")
_TOPICS: Final = {"mirror.orders", "mirror.clicks", "coordination.records", "coordination.lock"}
"""Topics of the quickstart and files of the embedded store, which look like settings."""
_METRIC: Final = re.compile(r"`(headrace_(?!dev\b)[a-z_]+)")
_FOLDERS: Final = "|".join((*PACKAGES, "tests", "bench", "docs", "deploy", "scripts"))
_ROOMS: Final = "|".join(folder.name for folder in (ROOT / "mirror").iterdir() if folder.is_dir())
_FILE: Final = re.compile(rf"(?<![\w./-])((?:{_FOLDERS}|{_ROOMS})/[\w/-]+\.(?:py|md|sh|yaml))\b")
_MEASUREMENT: Final = re.compile(r"(?:bench ONLY=|python -m bench )([a-z]+_[a-z_]+[a-z])\b")
_TOML: Final = re.compile(r"(?:^(?: {4}.*)?\n)+", re.MULTILINE)
"""Indented blocks with the blank lines between them."""


@cache
def texts_of(file: Path) -> list[str]:
    """Return the lines of a page, or of every string in a source file."""
    if file.suffix == ".md":
        return file.read_text(encoding="utf-8").splitlines()
    strings = (node.value for node in nodes_of(file) if isinstance(node, ast.Constant))
    return [line for one in strings if isinstance(one, str) for line in one.splitlines()]


def found(pattern: re.Pattern[str], files: Iterable[Path]) -> Iterator[tuple[str, re.Match[str]]]:
    for file in files:
        for line in texts_of(file):
            for match in pattern.finditer(line):
                yield str(file.relative_to(ROOT)), match


@cache
def every_command(program: str) -> Any:
    """Return the command line as a Click command; creating it takes 30 ms."""
    return typer.main.get_command(development_app() if program == "headrace-dev" else app)


def complaint(words: list[str], options: list[str], program: str = "headrace") -> str:
    """Return the problem of a command line; empty if none."""
    command = every_command(program)
    while isinstance(command, TyperGroup) and words:
        if words[0] not in command.commands and not isinstance(command, DefaultCommandGroup):
            return f"no command {words[0]}"
        command, words = command.commands.get(words[0], command), words[1:]
    if isinstance(command, DefaultCommandGroup):
        command = command.commands[command.default]
    known = {"-h", "--help"} | {
        option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
    }
    unknown = [option for option in options if option not in known]
    return f"no option {', '.join(unknown)}" if unknown else ""


def is_module(name: str) -> bool:
    """Return whether it is a source module, as named on the pages for plug-in authors."""
    return (ROOT / name.replace(".", "/")).with_suffix(".py").exists()


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield prefix + name
        for inner in (field.annotation, *get_args(field.annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from keys_of(inner, f"{prefix}{name}.")


def test_every_command_that_is_named_exists_with_its_options() -> None:
    named = [
        (where, match[0].strip(), complaint(match[2].split(), _OPTION.findall(match[3]), match[1]))
        for where, match in found(_COMMAND, [*PAGES, *SOURCES])
    ]
    assert len(named) > 60
    assert [one for one in named if one[2]] == []
    assert complaint(["surgeon"], []) == "no command surgeon"
    assert complaint(["stack"], []) == "no command stack"
    assert complaint(["pmp", "run"], ["--nothing"]) == "no option --nothing"


def test_every_setting_that_a_page_names_exists() -> None:
    known = set(keys_of(HeadraceSettings))
    named = [
        (where, match[1])
        for where, match in found(_SETTING, PAGES)
        if match[1] not in _TOPICS and not is_module(match[1])
    ]
    assert len(named) > 20
    assert [one for one in named if one[1] not in known] == []


def test_every_toml_example_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = [
        (page.name, dedent(match[0]))
        for page in PAGES
        for match in _TOML.finditer(page.read_text(encoding="utf-8"))
        if match[0].lstrip().startswith("[") and "project.entry-points" not in match[0]
    ]
    assert len(examples) >= 4
    for _, text in examples:
        with monkeypatch.context() as page:
            if "[zookeeper.security]" in text:
                page.setenv("HEADRACE_ZOOKEEPER__SECURITY__PASSWORD", "as the page has it")
            if "[clusters.east.security]" in text:
                page.setenv("HEADRACE_CLUSTERS__EAST__SECURITY__PASSWORD", "as the page has it")
            HeadraceSettings.model_validate({"clusters": {}} | tomllib.loads(text))


def test_every_metric_that_a_page_names_is_exported() -> None:
    exported = {one.name for metrics in described().values() for one in metrics}
    named = [(where, match[1]) for where, match in found(_METRIC, PAGES)]
    assert len(named) > 10
    assert [one for one in named if one[1] not in exported] == []


def test_every_file_that_is_named_exists() -> None:
    named = [(where, match[1]) for where, match in found(_FILE, [*PAGES, *SOURCES])]
    made = {name for diff in examples().values() for name, before, _ in hunks_of(diff) if not before}
    assert len(named) > 40
    missing = [
        one for one in named if not any((ROOT / base / one[1]).exists() for base in ("", "docs", "mirror"))
    ]
    assert [one for one in missing if one[1] not in made] == []


@cache
def names_of_tests(name: str) -> set[str]:
    """Return the functions of the test modules with that file name."""
    return {
        node.name
        for file in (ROOT / "tests").rglob(name)
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }


def test_every_row_of_what_is_promised_to_clients_of_brooklin_names_tests_that_exist() -> None:
    page = (ROOT / "docs/brooklin-compatibility.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \|$", page.partition("## REST clients of Brooklin")[2], re.MULTILINE)
    promised = [row.strip("| ").split(" | ") for row in rows if not row.endswith("| shown by |")]
    assert len(promised) > 30
    for row in promised:
        assert row[2:3] in (["same"], ["better"], ["not supported"]), row
        shown = re.findall(r"`(\w+\.py)::(\w+)`", row[3])
        assert shown, row
        assert all(name in names_of_tests(file) for file, name in shown), row


def test_every_measurement_that_is_named_exists() -> None:
    named = [(where, match[1]) for where, match in found(_MEASUREMENT, [*PAGES, *SOURCES])]
    assert len(named) > 5
    assert [one for one in named if one[1] not in names()] == []


def test_every_znode_is_on_its_page() -> None:
    page = (ROOT / "docs/znodes.md").read_text(encoding="utf-8")
    described = set(re.findall(r"^\| `(/[a-z-]+)", page, re.MULTILINE))
    places = {value for name, value in vars(znodes).items() if name.isupper() and str(value).startswith("/")}
    assert places
    assert described == places


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = [re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower() for heading in headings]
    return {re.sub(r"\s+", "-", heading) for heading in plain}


def test_every_link_leads_somewhere() -> None:
    links = [
        (page, *match[1].partition("#")[::2])
        for page in PAGES
        for match in re.finditer(r"\]\(((?!https?:)[^)\s]+)\)", page.read_text(encoding="utf-8"))
    ]
    assert len(links) > 30
    for page, file, anchor in links:
        target = page.parent / file if file else page
        assert target.exists(), f"{page.name}: {file}"
        assert not anchor or anchor in anchors_of(target), f"{page.name}: {file}#{anchor}"


def test_the_table_of_situations_has_a_row_for_each_that_is_brought_about() -> None:
    assert situations_on() == list(SITUATIONS)
