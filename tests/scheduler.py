"""Distribution and order of tests over processes."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Final

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

_File = Sequence[pytest.Item]

_ON_ONE_PINOT: Final = (
    "tests/e2e/test_loop.py",
    "tests/integration/headrace/test_notebook.py",
    "tests/integration/headrace/test_replay_from_pinot.py",
    "tests/integration/monitor/test_measurements.py",
    "tests/integration/pinot/",
    "tests/integration/pmp/test_broker_death.py",
    "tests/integration/pmp/test_job.py",
    "tests/integration/pmp/test_provider.py",
    "tests/integration/pmp/test_recording.py",
    "tests/integration/pmp/test_service.py",
    "tests/integration/stack/test_servers.py",
)
"""Files that use the Pinot of the run, whose table names are fixed, or a Spark session."""
_LONGEST: Final = (
    "tests/integration/mirror/test_releases.py",
    "tests/e2e/test_on_call_walk.py",
    "tests/chaos/clusters/test_clusters.py",
    "tests/chaos/service/test_seeds.py",
    "tests/e2e/test_documented_commands.py",
    "tests/integration/pmp/test_kills.py",
    "tests/e2e/test_clean_audits.py",
    "tests/e2e/test_static_fleet.py",
    "tests/e2e/test_refused_switchovers.py",
)
"""Files of `make test-all` that take minutes, roughly from the longest to the shortest.

A file that takes long and begins late would run alone at the end.
"""
_OF_ALL_SOURCES: Final = (
    "tests/unit/test_architecture.py",
    "tests/unit/test_documents.py",
    "tests/unit/test_lane_changes.py",
    "tests/unit/test_wording.py",
)
"""Files that parse all sources; one process parses and walks them once."""
_WITH_SERVERS: Final = ("tests/chaos/", "tests/contract/", "tests/e2e/", "tests/integration/")


class ByServers(LoadFileScheduling):
    """Scheduler that runs each file in one process, and some files in a common one.

    Table names in Pinot are fixed, and a Spark session takes half a gigabyte and 20 seconds of CPU.
    One process starts with the files without servers, and computes while the other ones wait for servers.
    """

    nodes: Sequence[object]
    numnodes: int
    workqueue: OrderedDict[str, dict[str, bool]]

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        self._with_servers: set[object] = set()

    def _split_scope(self, nodeid: str) -> str:
        common = (group for group in (_ON_ONE_PINOT, _OF_ALL_SOURCES) if nodeid.startswith(group))
        return next((group[0] for group in common), "") or super()._split_scope(nodeid)

    def _assign_work_unit(self, node: object) -> None:
        wanted = self._begins_with_servers(node)
        chosen = next((one for one in self.workqueue if one.startswith(_WITH_SERVERS) is wanted), None)
        if chosen is not None:
            self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)  # type: ignore[misc] # xdist has no types

    def _begins_with_servers(self, node: object) -> bool:
        self._with_servers.intersection_update(self.nodes)
        if len(self._with_servers) < max(1, self.numnodes - 1):
            self._with_servers.add(node)
        return node in self._with_servers


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByServers | None:
    """Return this scheduler for `--dist loadfile`."""
    return ByServers(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files: first those that share one process, then the longest, then others with a long test.

    Within these, the random order is kept.
    """
    _require_distinct(items)
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path.as_posix(), []).append(item)
    items[:] = [item for file in sorted(files.values(), key=_rank) for item in file]


def _require_distinct(items: Sequence[pytest.Item]) -> None:
    """Raise UsageError if tests share an identifier: xdist would run only one."""
    identifier, count = Counter(item.nodeid for item in items).most_common(1)[0] if items else ("", 0)
    if count > 1:
        raise pytest.UsageError(f"{count} tests are named {identifier} and only one would run; rename them")


def _rank(file: _File) -> tuple[bool, int, bool]:
    name = file[0].nodeid
    is_long = any(item.get_closest_marker("long") for item in file)
    place = next((n for n, longest in enumerate(_LONGEST) if name.startswith(longest)), len(_LONGEST))
    return not name.startswith(_ON_ONE_PINOT), place, not is_long
