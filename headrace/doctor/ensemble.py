"""What is to be said of the servers of ZooKeeper: which are there, their versions, what is on their disks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

from headrace.doctor.diagnosis import Diagnosis, Grade
from mirror.adapters.zookeeper_survey import ServerFacts
from mirror.wording import counted

_SUBJECT: Final = "ZooKeeper"
_OLDEST: Final = (3, 5)
_MUCH_ON_DISK: Final = 5 * 2**30
_GIB: Final = 2**30


def examined_servers(servers: Sequence[ServerFacts]) -> Iterator[Diagnosis]:
    """Every server that the settings name. Where none can be reached the failed session says so already."""
    reached = [one for one in servers if not one.problem]
    if not reached:
        return
    for one in servers:
        if one.problem:
            yield Diagnosis(
                _SUBJECT,
                Grade.WARNING,
                f"server {one.address} cannot be reached: {one.problem}",
                "start it, or take it out of zookeeper.servers: the ensemble lives while most of it is there",
            )
        elif not one.is_serving:
            yield Diagnosis(
                _SUBJECT,
                Grade.PROBLEM,
                f"server {one.address} runs and serves nobody: it sees no majority of its ensemble",
                "start the other servers; its log names those that it does not reach",
            )
        else:
            yield from _release(one)
            yield from _disk(one)
    yield from _together(reached)


def _release(one: ServerFacts) -> Iterator[Diagnosis]:
    if not one.release:
        yield Diagnosis(
            _SUBJECT,
            Grade.UNKNOWN,
            f"server {one.address} does not say its version",
            "4lw.commands.whitelist=srvr,dirs of the server",
        )
    elif _numbers(one.release)[: len(_OLDEST)] < _OLDEST:
        yield Diagnosis(
            _SUBJECT, Grade.WARNING, f"server {one.address} has version {one.release}", "3.5 or newer"
        )
    else:
        nodes = "" if one.nodes is None else f", {counted(one.nodes, 'node')}"
        yield Diagnosis(
            _SUBJECT, Grade.OK, f"server {one.address} has version {one.release} ({one.mode}{nodes})"
        )


def _disk(one: ServerFacts) -> Iterator[Diagnosis]:
    if one.snapshot_bytes is None or one.log_bytes is None:
        yield Diagnosis(
            _SUBJECT,
            Grade.UNKNOWN,
            f"server {one.address} does not say how much its snapshots and logs take",
            "4lw.commands.whitelist=srvr,dirs of the server",
        )
        return
    takes = (
        f"on server {one.address} snapshots take {one.snapshot_bytes / _GIB:.2f} GiB and logs"
        f" {one.log_bytes / _GIB:.2f} GiB; it does not say what room is left"
    )
    if one.snapshot_bytes + one.log_bytes > _MUCH_ON_DISK:
        advice = "autopurge.purgeInterval and autopurge.snapRetainCount: by default nothing is ever removed"
        yield Diagnosis(_SUBJECT, Grade.WARNING, takes, advice)
    else:
        yield Diagnosis(_SUBJECT, Grade.OK, takes)


def _together(reached: Sequence[ServerFacts]) -> Iterator[Diagnosis]:
    releases = sorted({one.release for one in reached if one.release}, key=_numbers)
    if len(releases) > 1:
        yield Diagnosis(
            _SUBJECT,
            Grade.NOTE,
            f"its servers have different versions: {', '.join(releases)}",
            "finish their upgrade",
        )
    if any(one.mode == "standalone" for one in reached):
        yield Diagnosis(
            _SUBJECT,
            Grade.NOTE,
            "it is a single server: without it nothing can be changed, and copying stops after a while",
            "three servers for production (docs/zookeeper.md)",
        )


def _numbers(release: str) -> tuple[int, ...]:
    """`3.10.1` as numbers, as far as it is made of them."""
    parts = takewhile(lambda part: part.isascii() and part.isdigit(), release.split("."))
    return tuple(int(part) for part in parts)
