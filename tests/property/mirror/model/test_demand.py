"""The arrival rate of a lane is measured at any copy rate: in time, overloaded, throttled or catching up."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirror.model.movement.demand import Demand, at_least, demand
from mirror.model.movement.history import NO_HISTORY, LaneHistory, LaneSample

_EVERY = 5.0
_SIZE = 1_000.0
rates = st.floats(1.0, 50_000.0)


def lived(arrives: float, copies: float, backlog: float, reports: int) -> tuple[LaneHistory, float]:
    """Return the history of a lane with steady arrivals, and its final copy rate in records per second."""
    history, written, copied, at, done = NO_HISTORY, 10_000_000.0 + backlog, 10_000_000.0, 0.0, 0.0
    for _ in range(reports):
        at += _EVERY
        written += arrives * _EVERY
        done = min(copies * _EVERY, written - copied)
        copied += done
        waits = written - copied
        lag_ms = int(waits / arrives * 1000)
        point = LaneSample(at, int(copied), int(written), int(written), lag_ms)
        history = history.after(point, record_bytes=_SIZE)
    return history, done / _EVERY


@given(rates, st.floats(0.05, 20.0), st.floats(0.0, 1e7), st.integers(3, 60))
def test_demand_is_what_arrives(arrives: float, share: float, backlog: float, reports: int) -> None:
    history, copied = lived(arrives, arrives * share, backlog, reports)
    found = demand((copied * _SIZE, copied), history)
    if history.is_in_time:
        assert found == Demand((copied * _SIZE, copied))
        return
    assert not found.is_least
    assert abs(found.arriving[1] - arrives) <= 1.0  # whole offsets over some seconds
    assert found.arriving[0] == found.arriving[1] * _SIZE
    newest = history.newest
    assert newest is not None
    assert found.waiting == (newest.waiting * _SIZE, newest.waiting)


@given(rates, st.floats(1.5, 20.0), st.integers(60, 100))
def test_a_lane_that_has_caught_up_is_as_heavy_as_what_arrives(
    arrives: float, share: float, reports: int
) -> None:
    backlog = arrives * 0.4 * (share - 1) * reports * _EVERY
    history, copied = lived(arrives, arrives * share, backlog, reports)
    found = demand((copied * _SIZE, copied), history)
    assert history.is_in_time
    assert abs(found.arriving[1] - arrives) <= 1.0
    assert found.waiting == (0.0, 0.0)


pairs = st.tuples(st.floats(0, 1e9), st.floats(0, 1e6))
demands = st.builds(Demand, pairs, pairs, st.booleans())


@given(demands, st.none() | demands)
def test_what_is_known_is_never_replaced_and_a_least_never_falls(new: Demand, before: Demand | None) -> None:
    found = at_least(new, before)
    if not new.is_least or before is None:
        assert found is new
        return
    assert found.is_least
    assert found.arriving == tuple(map(max, new.arriving, before.arriving))
