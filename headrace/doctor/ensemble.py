"""Checks the ZooKeeper servers: whether they respond, their versions and disk usage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from headrace.doctor.diagnosis import DoctorFinding, Subject
from mirror.wording import counted

if TYPE_CHECKING:
    from mirror.adapters.zookeeper_survey import ServerFacts

_SUBJECT: Final = Subject("ZooKeeper")
_OLDEST: Final = (3, 5)
_MUCH_ON_DISK: Final = 5 * 2**30
_GIB: Final = 2**30


def examined_servers(servers: Sequence[ServerFacts]) -> Iterator[DoctorFinding]:
    """Check the ZooKeeper servers in the settings.

    Yields nothing if all servers are unreachable, because another finding already reports the failed session.
    """
    reached = [server for server in servers if not server.problem]
    if not reached:
        return
    for server in servers:
        if server.problem:
            yield _SUBJECT.warning(
                f"server {server.address} is unreachable: {server.problem}",
                "start it, or remove it from zookeeper.servers; the ensemble needs a majority of its servers",
            )
        elif not server.is_serving:
            yield _SUBJECT.problem(
                f"server {server.address} is running but not serving: it has no quorum",
                "start the other servers; its log names unreachable ones",
            )
        else:
            yield from _release(server)
            yield from _disk(server)
    yield from _together(reached)


def _release(server_facts: ServerFacts) -> Iterator[DoctorFinding]:
    if not server_facts.release:
        yield _SUBJECT.unknown(
            f"server {server_facts.address} does not report its version",
            "set 4lw.commands.whitelist=srvr,dirs on the server",
        )
    elif _numbers(server_facts.release)[: len(_OLDEST)] < _OLDEST:
        yield _SUBJECT.warning(
            f"server {server_facts.address} has version {server_facts.release}", "upgrade to 3.5 or newer"
        )
    else:
        nodes = "" if server_facts.nodes is None else f", {counted(server_facts.nodes, 'node')}"
        yield _SUBJECT.ok(
            f"server {server_facts.address} has version {server_facts.release} ({server_facts.mode}{nodes})"
        )


def _disk(server_facts: ServerFacts) -> Iterator[DoctorFinding]:
    if server_facts.snapshot_bytes is None or server_facts.log_bytes is None:
        yield _SUBJECT.unknown(
            f"server {server_facts.address} does not report the size of its snapshots and logs",
            "set 4lw.commands.whitelist=srvr,dirs on the server",
        )
        return
    takes = (
        f"on server {server_facts.address} snapshots take {server_facts.snapshot_bytes / _GIB:.2f} GiB"
        " and logs"
        f" {server_facts.log_bytes / _GIB:.2f} GiB; free disk space is not reported"
    )
    if server_facts.snapshot_bytes + server_facts.log_bytes > _MUCH_ON_DISK:
        advice = "set autopurge.purgeInterval and autopurge.snapRetainCount: the default never deletes files"
        yield _SUBJECT.warning(takes, advice)
    else:
        yield _SUBJECT.ok(takes)


def _together(reached: Sequence[ServerFacts]) -> Iterator[DoctorFinding]:
    releases = sorted({server.release for server in reached if server.release}, key=_numbers)
    if len(releases) > 1:
        yield _SUBJECT.note(f"servers have different versions: {', '.join(releases)}", "finish the upgrade")
    if any(server.mode == "standalone" for server in reached):
        yield _SUBJECT.note(
            "there is a single server: if it fails, nothing can be changed, and copying stops after a while",
            "use three servers in production (docs/zookeeper.md)",
        )


def _numbers(release: str) -> tuple[int, ...]:
    """Return the leading numbers of a version such as `3.10.1`."""
    parts = takewhile(lambda part: part.isascii() and part.isdigit(), release.split("."))
    return tuple(int(part) for part in parts)
