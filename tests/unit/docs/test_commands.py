"""Commands in the documentation: all parse, and commands without a server are run."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from typer.core import TyperGroup

from headrace.__main__ import app
from headrace_dev.__main__ import app as development_app
from tests.documented import LOADS_CSV, ONLY_PARSED, Documented, documented_commands
from tests.documented import ROOT as REPOSITORY
from tests.patience import PATIENCE_SECONDS

COMMANDS: Final = documented_commands()
HERE: Final = [one for one in COMMANDS if not one.needs_service and not one.only_parsed_because]
PROGRAMS: Final[dict[str, Any]] = {
    "headrace": typer.main.get_command(app),
    "headrace-dev": typer.main.get_command(development_app()),
}
OPERATORS: Final = {">", ">>", "|", "&&", "||", ";", "&"}


def words_of(command: Documented) -> list[str]:
    """Return the program and the arguments that the shell passes; a comment, a redirection or a pipe ends
    them."""
    taken = []
    for word in shlex.split(command.line, comments=True):
        if word in OPERATORS:
            break
        taken.append(word)
    first = next(at for at, word in enumerate(taken) if Path(word).name in (*PROGRAMS, "make"))
    return [Path(taken[first]).name, *taken[first + 1 :]]


def parse(program: str, *given: str) -> None:
    """Parse the arguments. Raises the usage errors of the command line."""
    command, context, arguments = PROGRAMS[program], None, list(given)
    name: str | None = program
    while True:
        context = command.make_context(name, list(arguments), parent=context)
        if not isinstance(command, TyperGroup) or not (rest := [*context._protected_args, *context.args]):
            return
        name, command, arguments = command.resolve_command(context, rest)


def test_commands_are_found_in_every_kind_of_block() -> None:
    pages = {one.page for one in COMMANDS}
    assert len(COMMANDS) > 55
    assert {"README.md", "docs/quickstart.md", "docs/operate/pauses.md", "docs/placement.md"} <= pages


def test_every_command_parses_with_its_options() -> None:
    wrong = []
    for command in COMMANDS:
        if not command.words.startswith("make"):
            try:
                with suppress(typer.Exit):  # raised by --version
                    parse(*words_of(command))
            except typer.TyperException as error:
                wrong.append((command, str(error)))
    assert wrong == []


def test_what_does_not_parse_is_found() -> None:
    for words in (["surgeon"], ["datastream", "pause"], ["datastream", "list", "--nothing"]):
        with pytest.raises(typer.TyperException):
            parse("headrace", *words)


def test_every_target_of_make_exists() -> None:
    targets = set(
        re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    asked = {words_of(one)[1] for one in COMMANDS if one.words.startswith("make")}
    assert asked
    assert asked <= targets


def test_every_reason_not_to_run_a_command_is_needed() -> None:
    reasons = {one.only_parsed_because for one in COMMANDS} - {""}
    assert reasons == set(ONLY_PARSED.values())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the working folder of commands, with the files used on their pages."""
    made = tmp_path_factory.mktemp("documented")
    page = (REPOSITORY / "docs/placement.md").read_text(encoding="utf-8")
    document = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert document
    (made / "loads.json").write_text(document[1])
    (made / "loads.csv").write_text(LOADS_CSV)
    (made / "tokens").touch(0o600)
    hours = [f"{hour * 3_600_000},orders,0,{900_000 + hour},850" for hour in range(24)]
    columns = "hour_ms,topic,partition,bytes_per_second,messages_per_second"
    (made / "day.csv").write_text("\n".join([columns, *hours]))
    return made


def shown(line: str, folder: Path) -> str:
    """Run a line in a shell there, without any user's settings; return its output. It must succeed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    environment["HEADRACE_API__ACCESS__TOKEN_FILE"] = str(folder / "tokens")
    ended = subprocess.run(
        ["sh", "-c", line.replace(".venv/bin/", "")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.deep
@pytest.mark.parametrize("line", [one.line for one in HERE if not one.words.startswith("token")])
def test_a_command_that_needs_no_server_does_what_its_page_says(line: str, folder: Path) -> None:
    shown(line, folder)


@pytest.mark.deep
def test_the_commands_of_tokens_make_list_and_revoke_one(folder: Path) -> None:
    add, listing, revoke = (one.line for one in HERE if one.words.startswith("token"))
    shown(add, folder)
    (token,) = json.loads(shown(f"{listing.partition(' #')[0]} --json", folder))
    shown(re.sub(r"revoke \w+", f"revoke {token['id']}", revoke), folder)
    assert token["id"] not in shown(listing, folder)
