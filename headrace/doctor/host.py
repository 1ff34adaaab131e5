"""Checks this machine and the settings, without network access."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from typing import Final, NamedTuple

from headrace.clusters.plain_credentials import plain_credentials
from headrace.doctor.diagnosis import DoctorFinding, Subject
from headrace.placement.planners import planner_gap
from headrace.process.machine_code import found as compiled_rooms
from headrace.process.open_nodes import openness
from headrace.settings import HeadraceSettings
from mirror.errors import ConfigError
from mirror.wording import counted

_MACHINE: Final = Subject("this machine")
_REST: Final = Subject("REST")
_FEW_FILES = 4_096
"""Minimum limit of open files.

Each worker has a few connections to every broker, and REST has one per caller.
"""


class HostFacts(NamedTuple):
    """Facts about this machine, from the point of view of a Headrace process."""

    is_compiled: bool
    open_files: int
    """Maximum number of open files per process."""
    cores: int


def this_host() -> HostFacts:
    """Collect the facts about this machine."""
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return HostFacts(compiled_rooms() is not None, open_files, len(os.sched_getaffinity(0)))


def examined_host(facts: HostFacts) -> Iterator[DoctorFinding]:
    """Check the resources and limits of this machine."""
    if facts.is_compiled:
        yield _MACHINE.ok(f"the data plane is compiled; {counted(facts.cores, 'core')}")
    else:
        yield _MACHINE.warning(
            "the data plane is interpreted, which takes up to twice the CPU time",
            "run make setup in a checkout to compile it, or install a wheel for this platform",
        )
    if 0 <= facts.open_files < _FEW_FILES:
        yield _MACHINE.warning(
            f"limit of open files per process is {facts.open_files}",
            f"raise it with ulimit -n {_FEW_FILES * 4}, or LimitNOFILE= of the systemd unit",
        )


def examined_settings(settings: HeadraceSettings) -> Iterator[DoctorFinding]:
    """Check the security of the settings, and whether the planner is available."""
    if refusal := _refusal(settings):
        yield _REST.problem(refusal.message, refusal.advice)
    elif exposure := settings.api.exposure():
        yield _REST.warning(exposure, "see docs/security.md")
    elif not settings.api.requires_authentication:
        yield _REST.note(
            "authentication is off; only this machine can connect",
            "enable tokens, OIDC or certificates (docs/security.md)",
        )
    else:
        yield _REST.ok("authentication is on")
    if gap := _planner_gap(settings):
        yield Subject("planner").warning(gap, "see docs/installation.md")
    if settings.uses_zookeeper and (nodes := openness(settings.zookeeper)):
        yield Subject("ZooKeeper").warning(nodes)
    for sentence in plain_credentials(settings):
        yield Subject("credentials").warning(sentence)


def _planner_gap(settings: HeadraceSettings) -> str:
    try:
        return planner_gap(settings)
    except ConfigError as error:
        return error.message


def _refusal(settings: HeadraceSettings) -> ConfigError | None:
    """Return the error with which `headrace serve` would reject the settings; None if it would start."""
    try:
        settings.api.check_exposure()
    except ConfigError as error:
        return error
    return None
