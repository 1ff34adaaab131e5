"""A failover, decisions about the tail and a failback of a whole service between fake clusters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from headrace.dr.tail import REPLAYED_HEADER
from mirror.jobs.dr.operation import STEPS, Kind, Step
from tests.e2e.pair_site import PARTITIONS, TOPIC, Site, kill_at, pair_site
from tests.fakes.broker.cluster import FakeCluster
from tests.patience import wait_until

COPIED: Final = 20
TAIL: Final = 7
GAINED: Final = 11
PAIR: Final = ("dr", "failover", "pair", "--to", "west", "--max-loss", "30s")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with pair_site(tmp_path) as found:
        yield found


def write(cluster: FakeCluster, name: str, count: int) -> list[bytes]:
    """Write records to each partition; return their values."""
    written = []
    for number in range(PARTITIONS):
        values = [b"%s-%d-%d" % (name.encode(), number, one) for one in range(count)]
        with cluster.lock:
            cluster.write(TOPIC, [(1_000 + one, b"k", value, []) for one, value in enumerate(values)], number)
        written += values
    return written


@pytest.mark.parametrize(
    "is_thorough", [False, pytest.param(True, marks=pytest.mark.deep)], ids=["some", "every step"]
)
def test_a_lost_cluster_gets_back_only_what_it_lacks(site: Site, tmp_path: Path, is_thorough: bool) -> None:
    def run(kind: Kind, some: Sequence[Step], *words: str) -> object:
        for step in STEPS[kind] if is_thorough else some:
            kill_at(site.instance, step, *words)
        return site.run(*words)

    copied = write(site.east, "copied", COPIED)
    wait_until(lambda: site.values(site.west) == sorted(copied), "records are mirrored")
    site.east.groups["billing"] = {(TOPIC, 0): 5}
    wait_until(lambda: site.west.groups.get("billing", {}).get((TOPIC, 0)) == 5, "the group follows")
    site.east.take_down(1)
    tail = write(site.east, "tail", TAIL)

    shown = site.run(*PAIR, "--dry-run")
    assert (shown["figure"], shown["excess"]) == ("0-records", "")
    run(Kind.FAILOVER, [Step.FORKED], *PAIR)
    status = site.run("dr", "status", "pair")
    assert (status["active"], status["state"], status["fork"]["cluster"]) == ("west", "failed-over", "east")
    gained = write(site.west, "gained", GAINED)

    site.east.bring_up(1)
    rows = site.run("dr", "tail", "list", "pair")["partitions"]
    assert [(one["partition"], one["first_offset"], one["records"]) for one in rows] == [
        (0, COPIED, TAIL),
        (1, COPIED, TAIL),
    ]
    assert TOPIC in site.run("dr", "failback", "pair", code=1)["failure"]
    if is_thorough:
        assert site.run("dr", "tail", "export", "pair", str(tmp_path / "tail"))["records"] == len(tail)
    run(Kind.REPLAY, [], "dr", "tail", "replay", "pair")
    replayed = [one for one in site.records(site.west) if REPLAYED_HEADER in dict(one.headers)]
    assert [one.value for one in replayed] == tail
    assert not site.run("dr", "tail", "list", "pair")["partitions"]

    for step in [*STEPS[Kind.FAILBACK], *STEPS[Kind.SWITCHOVER]] if is_thorough else [Step.REVERSED]:
        kill_at(site.instance, step, "dr", "failback", "pair")
    back = site.run("dr", "failback", "pair")
    assert (back["active"], back["failure"]) == ("east", "")
    assert site.values(site.west) == sorted([*copied, *tail, *gained])
    assert site.values(site.east) == sorted([*copied, *tail, *tail, *gained])
    after = write(site.east, "after", 1)
    wait_until(lambda: set(after) <= set(site.values(site.west)), "records are mirrored again")
    assert site.values(site.west) == sorted([*copied, *tail, *gained, *after])
