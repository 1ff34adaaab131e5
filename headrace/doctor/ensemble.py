"""Diagnosis of ZooKeeper servers: reachability, versions and disk usage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

from headrace.doctor.diagnosis import DoctorFinding, Grade
from mirror.adapters.zookeeper_survey import ServerFacts
from mirror.wording import counted

_SUBJECT: Final = "ZooKeeper"
_OLDEST: Final = (3, 5)
_MUCH_ON_DISK: Final = 5 * 2**30
_GIB: Final = 2**30


def examined_servers(servers: Sequence[ServerFacts]) -> Iterator[DoctorFinding]:
    """Evaluate the configured servers. If all are unreachable, the failed session already reports it."""
    reached = [one for one in servers if not one.problem]
    if not reached:
        return
    for one in servers:
        if one.problem:
            yield DoctorFinding(
                _SUBJECT,
                Grade.WARNING,
                f"server {one.address} is unreachable: {one.problem}",
                "start it, or remove it from zookeeper.servers; the ensemble needs a majority of its servers",
            )
        elif not one.is_serving:
            yield DoctorFinding(
                _SUBJECT,
                Grade.PROBLEM,
                f"server {one.address} is running but not serving: it has no quorum",
                "start the other servers; its log names unreachable ones",
            )
        else:
            yield from _release(one)
            yield from _disk(one)
    yield from _together(reached)


def _release(one: ServerFacts) -> Iterator[DoctorFinding]:
    if not one.release:
        yield DoctorFinding(
            _SUBJECT,
            Grade.UNKNOWN,
            f"server {one.address} does not report its version",
            "set 4lw.commands.whitelist=srvr,dirs on the server",
        )
    elif _numbers(one.release)[: len(_OLDEST)] < _OLDEST:
        yield DoctorFinding(
            _SUBJECT,
            Grade.WARNING,
            f"server {one.address} has version {one.release}",
            "upgrade to 3.5 or newer",
        )
    else:
        nodes = "" if one.nodes is None else f", {counted(one.nodes, 'node')}"
        yield DoctorFinding(
            _SUBJECT, Grade.OK, f"server {one.address} has version {one.release} ({one.mode}{nodes})"
        )


def _disk(one: ServerFacts) -> Iterator[DoctorFinding]:
    if one.snapshot_bytes is None or one.log_bytes is None:
        yield DoctorFinding(
            _SUBJECT,
            Grade.UNKNOWN,
            f"server {one.address} does not report the size of its snapshots and logs",
            "set 4lw.commands.whitelist=srvr,dirs on the server",
        )
        return
    takes = (
        f"on server {one.address} snapshots take {one.snapshot_bytes / _GIB:.2f} GiB and logs"
        f" {one.log_bytes / _GIB:.2f} GiB; free disk space is not reported"
    )
    if one.snapshot_bytes + one.log_bytes > _MUCH_ON_DISK:
        advice = "set autopurge.purgeInterval and autopurge.snapRetainCount: the default never deletes files"
        yield DoctorFinding(_SUBJECT, Grade.WARNING, takes, advice)
    else:
        yield DoctorFinding(_SUBJECT, Grade.OK, takes)


def _together(reached: Sequence[ServerFacts]) -> Iterator[DoctorFinding]:
    releases = sorted({one.release for one in reached if one.release}, key=_numbers)
    if len(releases) > 1:
        yield DoctorFinding(
            _SUBJECT,
            Grade.NOTE,
            f"servers have different versions: {', '.join(releases)}",
            "finish the upgrade",
        )
    if any(one.mode == "standalone" for one in reached):
        yield DoctorFinding(
            _SUBJECT,
            Grade.NOTE,
            "there is a single server: if it fails, nothing can be changed, and copying stops after a while",
            "use three servers in production (docs/zookeeper.md)",
        )


def _numbers(release: str) -> tuple[int, ...]:
    """Parse the leading numeric parts of a version such as `3.10.1`."""
    parts = takewhile(lambda part: part.isascii() and part.isdigit(), release.split("."))
    return tuple(int(part) for part in parts)
