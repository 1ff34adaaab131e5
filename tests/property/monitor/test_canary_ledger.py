"""The ledger of a canary against the truth: what a simulated path did with each record."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.canary.gate import GateLimits, judge_gate
from monitor.canary.ledger import DUE_SECONDS, EXPIRY_SECONDS, OVERTAKEN_SECONDS, CanaryLedger
from tests.examples import examples


@dataclass(frozen=True)
class Fate:
    """What happens to a record: whether its write is acknowledged, and the delays of its copies."""

    is_acknowledged: bool
    arrives_after: tuple[float, ...]


FATES = st.builds(
    Fate,
    st.sampled_from([True, True, True, False]),
    st.lists(st.sampled_from([0.2, 0.9, 3.0, 12.0]), max_size=3).map(tuple),
)
NO_LIMITS = GateLimits(10**9, 10**9, 0.0)


def run(fates: list[Fate]) -> tuple[CanaryLedger, float, list[int]]:
    """Write one record a second, the first of which arrives. Returns the order of arrivals too."""
    ledger, arrivals, order = CanaryLedger(), list[tuple[float, int, int]](), list[int]()

    def read(until: float) -> None:
        while arrivals and arrivals[0][0] <= until:
            at, _, index = heappop(arrivals)
            ledger.arrived(index, at)
            order.append(index)

    for number, fate in enumerate([Fate(True, (0.5,)), *fates]):
        now = float(number)
        read(now)
        index = ledger.attempt(now)
        if fate.is_acknowledged:
            ledger.acknowledged(index, now + 0.1)
        else:
            ledger.failed(index, now + 0.1)
        for copy, delay in enumerate(fate.arrives_after):
            heappush(arrivals, (now + 0.1 + delay, copy, index))
        ledger.figures(now + 0.1)
    end = len(fates) + 1.0
    while arrivals:
        read(end)
        end += 1.0
    return ledger, end, order


@settings(max_examples=examples(200))
@given(st.lists(FATES, max_size=40))
def test_every_figure_is_what_the_path_did(fates: list[Fate]) -> None:
    ledger, end, order = run(fates)
    ledger.arrived(ledger.attempt(end), end)  # a later record overtakes everything
    found = ledger.figures(end)
    found = ledger.figures(end + EXPIRY_SECONDS)
    assert found.lost == sum(one.is_acknowledged and not one.arrives_after for one in fates)
    assert found.failed == sum(not one.is_acknowledged for one in fates)
    assert found.duplicated == len(order) - len(set(order))
    firsts = list(dict.fromkeys(order))
    assert found.out_of_order == sum(index < max(firsts[: at + 1]) for at, index in enumerate(firsts))
    assert found.consumed == len(firsts) + 1
    assert found.waiting == 0


@settings(max_examples=examples(100))
@given(st.lists(FATES, max_size=40))
def test_no_record_is_lost_while_it_may_still_arrive(fates: list[Fate]) -> None:
    ledger, end, _ = run([Fate(one.is_acknowledged, ()) for one in fates])
    found = ledger.figures(end + OVERTAKEN_SECONDS * 2)
    assert found.lost == 0
    assert found.waiting == sum(one.is_acknowledged for one in fates)


@settings(max_examples=examples(100))
@given(st.lists(FATES, max_size=40))
def test_a_gate_counts_what_the_path_did(fates: list[Fate]) -> None:
    ledger, end, _ = run(fates)
    result = judge_gate(ledger.figures(end + DUE_SECONDS), NO_LIMITS)
    assert all(one.value is None for one in result.failures)  # nothing was measured
    assert result.lost == sum(one.is_acknowledged and not one.arrives_after for one in fates)
    strict = judge_gate(result.figures, GateLimits(0, 0, 1.0))
    limits = {one.limit for one in strict.failures}
    assert ("max_lost" in limits) == (result.lost > 0)
    assert ("min_availability" in limits) == (result.figures.failed > 0)
