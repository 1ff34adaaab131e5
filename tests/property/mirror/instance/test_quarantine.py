"""Quarantine of exactly those datastreams that crash their workers; every other one is copied."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from mirror.instance.workers.quarantine import CELLS, PROVEN_DEATHS, QUICK_SECONDS, SUSPECT_DEATHS, Quarantine
from mirror.model.identifiers import GroupName

GROUPS = [GroupName(f"g{number:02}") for number in range(24)]


class CrashingWorkers:
    """Workers that crash at once if they have a culprit. All permitted lanes are copied."""

    def __init__(self, groups: list[GroupName], culprits: set[GroupName], workers: int) -> None:
        self.groups, self.culprits, self.workers = groups, culprits, workers
        self.quarantine = Quarantine()
        self.now = 0.0
        self.deaths = 0
        self.ever_aside: set[GroupName] = set()

    def advance(self, seconds: float) -> None:
        self.quarantine.update(self.now)
        self._cells()
        self._workers()
        self.ever_aside |= {
            one for one in self.groups if "died" in self.place(one) and "times (" in self.place(one)
        }
        self.now += seconds

    def place(self, group: GroupName) -> str:
        return self.quarantine.place(group).held

    def _cells(self) -> None:
        for cell in range(CELLS):
            held = {one for one in self.groups if self.quarantine.place(one).cell == cell}
            if not held:
                continue
            self.quarantine.started(cell, self.now)
            if held & self.culprits:
                self.deaths += 1
                self.quarantine.cell_died(cell, self.now, "signal 11")

    def _workers(self) -> None:
        for worker in range(self.workers):
            mine = [one for one in self.groups[worker :: self.workers] if self.is_free(one)]
            if set(mine) & self.culprits:
                self.deaths += 1
                self.quarantine.died(mine, 0.1, self.now)

    def is_free(self, group: GroupName) -> bool:
        place = self.quarantine.place(group)
        return place.cell is None and not place.held


@given(
    st.integers(1, len(GROUPS)),
    st.sets(st.sampled_from(GROUPS), max_size=3),
    st.integers(1, 3),
    st.floats(2.0, 30.0),
)
def test_the_culprits_are_set_aside_and_nobody_else(
    count: int, culprits: set[GroupName], workers: int, seconds: float
) -> None:
    crew = CrashingWorkers(GROUPS[:count], culprits & set(GROUPS[:count]), workers)
    steps = math.ceil(20 * QUICK_SECONDS / seconds)
    settled = False
    for _ in range(steps):
        crew.advance(seconds)
        free = {one for one in crew.groups if crew.is_free(one)}
        settled = settled or free == set(crew.groups) - crew.culprits
    assert settled
    assert crew.ever_aside == crew.culprits
    halvings = math.ceil(math.log2(count)) + 1
    repeats = 1 + steps * seconds / 300.0
    assert (
        crew.deaths
        <= workers * SUSPECT_DEATHS + len(crew.culprits) * (halvings + PROVEN_DEATHS + 1) * repeats
    )


@given(st.lists(st.tuples(st.sampled_from(GROUPS[:4]), st.floats(QUICK_SECONDS, 1e6)), max_size=20))
def test_workers_that_have_lived_make_no_suspects(deaths: list[tuple[GroupName, float]]) -> None:
    quarantine, now = Quarantine(), 0.0
    for group, lived in deaths:
        now += lived
        quarantine.died([group], lived, now)
    assert quarantine.ailing == {}


def test_a_cell_whose_suspects_do_not_come_is_given_up() -> None:
    quarantine = Quarantine()
    for now in (0.0, 1.0):
        quarantine.died(GROUPS[:2], 0.1, now)
    assert quarantine.is_used(0)
    assert quarantine.is_used(1)
    quarantine.update(1_000.0)
    assert quarantine.ailing == {}


@given(st.integers(1, 24), st.sets(st.sampled_from(GROUPS)), st.sets(st.sampled_from(GROUPS)), st.data())
def test_groups_that_are_gone_are_forgotten_whatever_was_known_of_them(
    count: int, culprits: set[GroupName], gone: set[GroupName], data: st.DataObject
) -> None:
    groups = GROUPS[:count]
    crew = CrashingWorkers(groups, culprits & set(groups), 1)
    for _ in range(data.draw(st.integers(0, 40))):
        crew.advance(2.0)
    kept = [one for one in groups if one not in gone]
    places = {one: crew.quarantine.place(one) for one in kept}
    crew.quarantine.forget(gone)
    assert {one: crew.quarantine.place(one) for one in kept} == places
    assert crew.quarantine.ailing.keys() <= set(kept)
    assert all(crew.is_free(one) for one in gone)
    crew.groups, crew.culprits = kept, culprits & set(kept)
    for _ in range(30):
        crew.advance(2.0)
    assert {one for one in kept if "times (" in crew.place(one)} <= crew.culprits
