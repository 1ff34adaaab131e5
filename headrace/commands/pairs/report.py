"""`headrace dr report`: write and check signed reports on switch-overs."""

from __future__ import annotations

import getpass
import socket
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from headrace.commands.audit import DefaultCommandGroup, KeyOption, content_of, key_of
from headrace.commands.calls import ServiceOptions
from headrace.commands.options import ConfigOption, JsonOption
from headrace.commands.pairs.pair_console import PairArgument
from headrace.console.option_groups import CommandGroup
from headrace.console.terminal import console, note, print_json, print_text


class _ReportGroup(DefaultCommandGroup):
    """Command group with a default command: `headrace dr report NAME` is short for `headrace dr report create
    NAME`."""

    default: ClassVar[str] = "create"


app = CommandGroup(cls=_ReportGroup, no_args_is_help=True)


@app.command()
def create(
    pair: PairArgument,
    operation: Annotated[
        str, typer.Option(help="Id of the switch-over in the history of dr status (default: last).")
    ] = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write (default: stdout).")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="File for the report in HTML.")] = None,
    drill: Annotated[bool, typer.Option("--drill", help="Report on a drill of the pair.")] = False,
    key: KeyOption = None,
    service: ServiceOptions = ServiceOptions(),
) -> None:
    """Write a signed report on the last switch-over, as JSON and HTML.

    The report states operator, stages with times, targets and actual values, positions, groups, audits and
    gaps. If a switch-over is in progress, the report covers that switch-over.
    """
    from headrace.dr.drill import drill_store
    from headrace.dr.pair_session import pair_session
    from headrace.dr.report_page import page_of
    from headrace.settings import load_settings
    from mirror.audit.certificate import sign, sign_page, signing_key
    from mirror.files import replace_file
    from mirror.jobs.dr.report import report_of

    settings = load_settings(service.config)
    private = signing_key(key_of(settings, key))
    issuer = f"{getpass.getuser()}@{socket.gethostname()}"
    with pair_session(settings, pair, service.connect(), note, reads_only=True) as session:
        now_ms = session.bench.clock.now_ms()
        state = drill_store(session).read() if drill else session.state()
        report = report_of(state, operation, session.settings, now_ms, issuer)
    written = sign(report, private)
    if html is not None:
        replace_file(html, sign_page(page_of(report), private))
    if output is not None:
        replace_file(output, written)
    else:
        print_text(written.decode().removesuffix("\n"))


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="Report of headrace dr report, JSON or HTML.")],
    key: KeyOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check the signature of a report. Exits with 1 if the report was altered."""
    from headrace.settings import load_settings
    from mirror.audit.certificate import check_page, read_certificate, verification_key
    from mirror.jobs.dr.report import KIND

    public = verification_key(key_of(load_settings(config), key))
    data = content_of(file)
    if data.startswith(b"<"):
        check_page(data, public)
        report = None
    else:
        report = read_certificate(data, public, KIND)
    if as_json:
        print_json({"valid": True, "report": report})
    elif report is None:
        console().print("signature is valid")
    else:
        console().print(
            f"signature is valid: {report['pair']}, {report['scenario']} from {report['origin']} to"
            f" {report['target']}, {report['outcome']}"
        )
