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
from headrace.__main__ import app
from headrace.errors import exit_code_of
from headrace.reference.of_commands import commands_of, commands_reference, root_context
from headrace.reference.of_errors import errors_reference, every_kind
from headrace.reference.what_to_do import WHAT_TO_DO
from mirror.errors import HeadraceError
from stack.errors import StackError
from tests.unit.headrace.conftest import Headrace

DOCS: Final = Path(__file__).parents[3] / "docs"
ROOT: Final = root_context(typer.main.get_command(app))
PATHS: Final = [one.command_path for one in commands_of(ROOT)]


def page_of(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def test_the_page_of_commands_is_what_the_command_prints(headrace: Headrace) -> None:
    assert page_of("cli.md") == commands_reference(ROOT), "headrace config reference --cli > docs/cli.md"
    assert headrace("config", "reference", "--cli").out == page_of("cli.md")


def test_every_command_still_explains_itself_when_its_page_was_printed() -> None:
    command = typer.main.get_command(app)
    commands_reference(typer.Context(command))
    for context in commands_of(root_context(command)):
        option = context.command.get_help_option(context)
        assert option is not None
        assert set(option.opts) == {"-h", "--help"}, context.command_path


def test_the_page_of_errors_is_what_the_command_prints(headrace: Headrace) -> None:
    assert page_of("errors.md") == errors_reference(), "headrace config reference --errors > docs/errors.md"
    assert headrace("config", "reference", "--errors").out == page_of("errors.md")


@pytest.mark.parametrize("path", PATHS)
def test_a_section_has_every_option_that_help_shows(path: str, headrace: Headrace) -> None:
    section = re.split(r"^## ", page_of("cli.md"), flags=re.MULTILINE)
    (text,) = (one for one in section if one.startswith(f"`{path}`\n"))
    shown = headrace(*path.split()[1:], "--help")
    assert shown.code == 0
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", shown.out)) - {"--help"}
    assert options <= set(re.findall(r"--[a-z][a-z-]+", text))


def test_a_group_that_takes_options_has_a_section_before_its_commands() -> None:
    assert PATHS.index("headrace monitor") + 1 == PATHS.index("headrace monitor advise")
    assert "headrace stack" not in PATHS


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
