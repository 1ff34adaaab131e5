"""What is to be said of this machine and of the settings, without asking anybody."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from typing import NamedTuple

from headrace.clusters.plain_credentials import plain_credentials
from headrace.doctor.diagnosis import Diagnosis, Grade
from headrace.planners import planner_gap
from headrace.process.machine_code import found as compiled_rooms
from headrace.process.open_nodes import openness
from headrace.settings import HeadraceSettings
from mirror.errors import ConfigError
from mirror.wording import counted

_FEW_FILES = 4_096
"""A connection is a file: each worker has a few to every broker, and REST one for each caller."""


class HostFacts(NamedTuple):
    """This machine as a process of Headrace finds it."""

    is_compiled: bool
    open_files: int
    """How many files a process may have open."""
    cores: int


def this_host() -> HostFacts:
    """What is so here and now."""
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return HostFacts(compiled_rooms() is not None, open_files, len(os.sched_getaffinity(0)))


def examined_host(facts: HostFacts) -> Iterator[Diagnosis]:
    """Of the machine."""
    if facts.is_compiled:
        yield Diagnosis(
            "this machine", Grade.OK, f"the data plane is compiled; {counted(facts.cores, 'core')}"
        )
    else:
        yield Diagnosis(
            "this machine",
            Grade.WARNING,
            "the data plane runs interpreted, which takes several times the processor time",
            "make setup compiles it in a checkout; a wheel for this platform brings it",
        )
    if 0 <= facts.open_files < _FEW_FILES:
        yield Diagnosis(
            "this machine",
            Grade.WARNING,
            f"a process may have {facts.open_files} files open",
            f"ulimit -n {_FEW_FILES * 4}, or LimitNOFILE= of the unit",
        )


def examined_settings(settings: HeadraceSettings) -> Iterator[Diagnosis]:
    """What the settings leave open."""
    if refusal := _refusal(settings):
        yield Diagnosis("REST", Grade.PROBLEM, refusal.message, refusal.advice)
    elif exposure := settings.api.exposure():
        yield Diagnosis("REST", Grade.WARNING, exposure, "docs/security.md")
    elif not settings.api.asks_who_calls:
        yield Diagnosis(
            "REST",
            Grade.NOTE,
            "nobody is asked who they are; only this machine reaches it",
            "docs/security.md: tokens, OIDC, certificates",
        )
    else:
        yield Diagnosis("REST", Grade.OK, "callers are asked who they are")
    if gap := _planner_gap(settings):
        yield Diagnosis("planner", Grade.WARNING, gap, "docs/installation.md")
    if nodes := openness(settings.zookeeper):
        yield Diagnosis("ZooKeeper", Grade.WARNING, nodes)
    for sentence in plain_credentials(settings):
        yield Diagnosis("credentials", Grade.WARNING, sentence)


def _planner_gap(settings: HeadraceSettings) -> str:
    try:
        return planner_gap(settings)
    except ConfigError as error:
        return error.message


def _refusal(settings: HeadraceSettings) -> ConfigError | None:
    """Why `headrace serve` would not begin with these."""
    try:
        settings.api.check_exposure()
    except ConfigError as error:
        return error
    return None
