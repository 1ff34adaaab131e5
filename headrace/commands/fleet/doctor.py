"""`headrace doctor`: find problems of this installation, and suggest fixes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.commands.calls import CallOptions
from headrace.console.terminal import console
from mirror.wording import counted

if TYPE_CHECKING:
    from headrace.doctor.diagnosis import DoctorFinding


def doctor(
    patience: Annotated[str, typer.Option(help="Timeout per server or cluster, such as 5s or 1m.")] = "10s",
    call: CallOptions = CallOptions(),
) -> None:
    """Find problems of this installation, and suggest fixes.

    Connects to every broker, every ZooKeeper server, Pinot and the service. Checks the permissions of
    Headrace's user on the topics of all datastreams and on Headrace's own topics, compares the settings of
    topics and their copies, and checks quotas, disks, security and whether the data plane is compiled.
    Changes nothing. Exits with 1 if there is a problem.
    """
    from headrace.console.durations import HOUR_MS, duration_seconds
    from headrace.doctor.diagnosis import Grade
    from headrace.doctor.examination import Examination
    from headrace.settings import load_settings

    seconds = duration_seconds(patience, HOUR_MS)
    examination = Examination(load_settings(call.config), call.connect(seconds), seconds)
    findings: list[DoctorFinding] = []
    with _without_logs():
        for finding in examination.run():
            findings.append(finding)
            if not call.as_json:
                _show(finding)
    problems = sum(finding.grade is Grade.PROBLEM for finding in findings)
    warnings = sum(finding.grade is Grade.WARNING for finding in findings)
    if not call.printed_json([asdict(finding) for finding in findings]):
        console().print(f"{counted(problems, 'problem')}, {counted(warnings, 'warning')}")
    if problems:
        raise typer.Exit(1)


@contextmanager
def _without_logs() -> Iterator[None]:
    """Silence the logs of libraries, because the findings of `headrace doctor` already report their
    failures."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _show(finding: DoctorFinding) -> None:
    console().print(f"{finding.grade:<8} {finding.subject}: {finding.sentence}", soft_wrap=True)
    if finding.advice:
        console().print(f"{'':<8} -> {finding.advice}", soft_wrap=True)
