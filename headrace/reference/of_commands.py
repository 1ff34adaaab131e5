"""The reference of every command, generated from the command line itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperGroup

from headrace.errors import EXIT_FAILED, EXIT_USAGE

_INTRODUCTION: Final = f"""\
# Commands

Every command of `headrace` with its arguments and options, as `headrace COMMAND --help` shows them. This
page is generated: `headrace config reference --cli`. Every command takes `--help` (`-h`).

Commands that ask a running service find it by `--at host:port`, or several of its instances by
`--at host:port,host:port`, of which the first that answers is asked (`https://host:port` where it has a
certificate), else by `commands.addresses`, else at the address at which `headrace serve` would listen
with the same settings; any
instance answers. Where the service wants to know who calls they send the token of `HEADRACE_TOKEN` or of
`commands.token_file`. Settings come from `--config FILE`, else from the file that `HEADRACE_CONFIG`
names, else from `./headrace.toml`, and [the environment wins over the file](configuration.md).

Answers are written to stdout, remarks and errors to stderr; tables become plain lines in a pipe, and
`--json` is for programs. Exit statuses are the same everywhere:

| exit status | meaning |
|---|---|
| 0 | it is done, or everything is as it is to be |
| {EXIT_FAILED} | it failed, or what was looked at is not well: a difference, a gap, a problem, a time-out |
| {EXIT_USAGE} | wrong use: an option, a setting or a request that cannot be; nothing was done |
| 3 | only `headrace apply --check`: something differs |

[Errors](errors.md) lists what a message can be about, and what to do.
"""
_VALUE: Final = re.compile(r" <(.*)>$")
_BOUNDS: Final = re.compile(r" *\[([^\[\]]*)\]$")
_WORDS: Final = {
    "str": "text",
    "list[str]": "text, repeated",
    "int": "whole number",
    "int range": "whole number",
    "float": "number",
    "path": "file or folder",
}
_SPECIAL: Final = re.compile(r"[*|<\\]")


class Parameter(NamedTuple):
    """An argument or option. `value`: what it takes, empty for a flag; `bounds`: its default and limits."""

    name: str
    value: str
    bounds: str
    help: str


def commands_reference(of_any: typer.Context) -> str:
    """Markdown: a section for each command that is not hidden. `of_any`: of `headrace` or of one of its
    commands."""
    root = root_context(of_any.find_root().command)
    sections = [
        _INTRODUCTION,
        "## `headrace`\n",
        f"{_text(root.command.help or '')}\n",
        _table("option", root),
    ]
    for context in commands_of(root):
        usage = " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
        title, text = f"## `{context.command_path}`\n", f"{_prose(context.command.help or '')}\n"
        sections += [title, text, f"    {usage}\n", _table("argument", context), _table("option", context)]
    return "\n".join(filter(None, sections))


def root_context(command: Any) -> typer.Context:
    """Return the context that a call of `headrace` has. With its settings, as a command keeps the help
    option that its first context names."""
    return typer.Context(command, info_name="headrace", **command.context_settings)


def commands_of(parent: typer.Context) -> Iterator[typer.Context]:
    """Every command below that is not hidden, by name; a group of commands comes before them where it takes
    options, as it does something by itself then."""
    commands = parent.command.commands if isinstance(parent.command, TyperGroup) else {}
    if not commands or (parent.parent and parent.command.params):
        yield parent
    for name, command in sorted(commands.items()):
        if not command.hidden:
            yield from commands_of(typer.Context(command, info_name=name, parent=parent))


def _parameters(kind: str, context: typer.Context) -> Iterator[Parameter]:
    """The arguments (`kind` "argument") or options of a command, in their order, without `--help`."""
    for one in context.command.params:
        shown = one.get_help_record(context) if one.param_type_name == kind else None
        if shown is None:
            continue
        names, meaning = shown
        value, bounds = _VALUE.search(names), _BOUNDS.search(meaning)
        yield Parameter(
            _VALUE.sub("", names),
            _WORDS.get(value[1], value[1].replace("|", ", ")) if value else "",
            bounds[1] if bounds else "",
            _BOUNDS.sub("", meaning),
        )


def _table(kind: str, context: typer.Context) -> str:
    rows = [
        f"| `{one.name}` | {_text(one.value)} | {_text(one.bounds)} | {_text(one.help)} |"
        for one in _parameters(kind, context)
    ]
    head = [f"| {kind} | value | default, bounds | meaning |", "|---|---|---|---|"]
    return "\n".join([*head, *rows, ""]) if rows else ""


def _prose(text: str) -> str:
    return "\n\n".join(_text(" ".join(part.split())) for part in text.split("\n\n"))


def _text(text: str) -> str:
    """Text in which nothing is taken for Markdown, but code."""
    return _SPECIAL.sub(lambda found: rf"\{found[0]}" if found[0] != "<" else "&lt;", " ".join(text.split()))
