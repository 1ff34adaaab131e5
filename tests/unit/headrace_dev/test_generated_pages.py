"""Test that docs/cli.md and docs/errors.md are complete and current."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path
from typing import Final

import pytest
import typer

import api
import assigner
import mirror
import monitor
import pinot
import pmp
from headrace.errors import exit_code_of
from headrace_dev.__main__ import app
from headrace_dev.commands.reference import Page
from headrace_dev.reference.of_commands import both_roots, commands_of, commands_reference, root_context
from headrace_dev.reference.of_errors import every_kind
from headrace_dev.reference.what_to_do import WHAT_TO_DO
from mirror.errors import HeadraceError
from stack.errors import StackError
from tests.unit.headrace.conftest import Headrace

DOCS: Final = Path(__file__).parents[3] / "docs"
ROOTS: Final = both_roots(typer.main.get_command(app()))
PATHS: Final = [one.command_path for root in ROOTS for one in commands_of(root)]


def page_of(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", Page)
def test_a_page_is_what_the_command_prints(headrace_dev: Headrace, page: Page) -> None:
    shown = headrace_dev("reference", page)
    assert shown.code == 0, shown.err
    assert shown.out == page_of(f"{page}.md"), f"headrace-dev reference {page} > docs/{page}.md"


def test_every_command_still_explains_itself_when_its_page_was_printed() -> None:
    commands_reference(*ROOTS)
    again = [root_context(root.command, root.info_name or "") for root in ROOTS]
    for context in (one for root in again for one in commands_of(root)):
        option = context.command.get_help_option(context)
        assert option is not None
        assert set(option.opts) == {"-h", "--help"}, context.command_path


@pytest.mark.parametrize("path", PATHS)
def test_a_section_has_every_option_that_help_shows(
    path: str, headrace: Headrace, headrace_dev: Headrace
) -> None:
    section = re.split(r"^## ", page_of("cli.md"), flags=re.MULTILINE)
    (text,) = (one for one in section if one.startswith(f"`{path}`\n"))
    program, *words = path.split()
    shown = (headrace_dev if program == "headrace-dev" else headrace)(*words, "--help")
    assert shown.code == 0
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", shown.out)) - {"--help"}
    assert options <= set(re.findall(r"--[a-z][a-z-]+", text))


def test_a_group_that_takes_options_has_a_section_before_its_commands() -> None:
    assert PATHS.index("headrace monitor") + 1 == PATHS.index("headrace monitor advise")
    assert "headrace-dev stack" not in PATHS


def subclasses(kind: type) -> set[type]:
    below: set[type] = set(kind.__subclasses__())
    return below.union(*map(subclasses, below))


def test_every_error_of_the_wings_is_on_the_page() -> None:
    for wing in (api, assigner, mirror, monitor, pinot, pmp):
        for module in pkgutil.walk_packages(wing.__path__, f"{wing.__name__}."):
            importlib.import_module(module.name)
    known = {*subclasses(HeadraceError), HeadraceError, *subclasses(StackError), StackError}
    ours = {one for one in known if not one.__module__.startswith("tests.")}
    assert set(every_kind()) == ours
    assert set(WHAT_TO_DO) == {one.__name__ for one in ours}


def test_the_page_has_the_exit_status_that_commands_end_with() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| [^|]*\| [^|]*\| (\d) \|", page_of("errors.md"), re.MULTILINE))
    assert len(rows) == len(every_kind())
    for kind in HeadraceError.__subclasses__():
        if kind.__init__ is HeadraceError.__init__:
            assert exit_code_of(kind("")) == int(rows[kind.__name__])
