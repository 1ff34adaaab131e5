"""Test the detection of a transactional id's owner from its coordinator's description."""

from __future__ import annotations

import pytest

from mirror.protocol.control.former_identity import FormerIdentity, Holder
from mirror.protocol.control.transactions import TransactionDescription

MINE = (7, 4)
OURS, UNSETTLED, TAKEN = Holder.OURS, Holder.UNSETTLED, Holder.TAKEN


def judge(
    former: FormerIdentity, state: str, producer: int, epoch: int, *, bumps: bool, committed: bool = False
) -> Holder:
    shown = TransactionDescription(0, state, producer, epoch)
    return former.judge(shown, bumps=bumps, committed=committed)


@pytest.mark.parametrize("bumps", [False, True])
@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("state", ["Empty", "Ongoing", "CompleteCommit", "CompleteAbort"])
def test_under_our_epoch_it_is_ours(state: str, is_open: bool, bumps: bool) -> None:
    former = FormerIdentity(MINE, is_open)
    assert judge(former, state, *MINE, bumps=bumps) is OURS
    assert former == FormerIdentity(MINE, is_open)


@pytest.mark.parametrize("bumps", [False, True])
@pytest.mark.parametrize("state", ["PrepareCommit", "PrepareAbort", "Dead"])
def test_the_end_of_a_transaction_is_waited_for(state: str, bumps: bool) -> None:
    assert judge(FormerIdentity(MINE, is_open=True), state, *MINE, bumps=bumps) is UNSETTLED


@pytest.mark.parametrize(
    ("state", "bumps", "committed", "holder"),
    [
        ("CompleteAbort", False, False, OURS),
        ("CompleteAbort", True, False, OURS),
        ("CompleteAbort", False, True, TAKEN),
        ("CompleteCommit", True, True, OURS),
        ("CompleteCommit", True, False, OURS),
        ("CompleteCommit", False, False, TAKEN),
        ("PrepareEpochFence", False, False, UNSETTLED),
        ("PrepareAbort", True, False, UNSETTLED),
        ("PrepareCommit", True, False, UNSETTLED),
        ("PrepareCommit", False, False, TAKEN),
        ("Ongoing", False, False, TAKEN),
        ("Ongoing", True, False, TAKEN),
    ],
)
def test_under_the_next_epoch_it_is_ours_if_our_transaction_ended_so(
    state: str, bumps: bool, committed: bool, holder: Holder
) -> None:
    former = FormerIdentity(MINE, is_open=True)
    assert judge(former, state, 7, 5, bumps=bumps, committed=committed) is holder
    assert former == (FormerIdentity((7, 5), is_open=False) if holder is OURS else FormerIdentity(MINE, True))
    closed = FormerIdentity(MINE, is_open=False)
    assert judge(closed, state, 7, 5, bumps=bumps, committed=committed) is TAKEN


@pytest.mark.parametrize("is_open", [False, True])
def test_the_coordinator_knows_who_has_the_next_epoch_without_a_transaction(is_open: bool) -> None:
    former = FormerIdentity(MINE, is_open)
    assert judge(former, "Empty", 7, 5, bumps=True) is OURS
    assert former.producer == MINE, "compared with the previous epoch"


@pytest.mark.parametrize("state", ["Empty", "Ongoing", "CompleteAbort", "CompleteCommit"])
@pytest.mark.parametrize("here", [(7, 6), (8, 5), (8, 0), (7, 3)])
def test_another_epoch_or_producer_is_another_owners(state: str, here: tuple[int, int]) -> None:
    assert judge(FormerIdentity(MINE, is_open=True), state, *here, bumps=True) is TAKEN


@pytest.mark.parametrize("epoch", [32_766, 32_767])
def test_after_the_last_epoch_comes_another_producer_id(epoch: int) -> None:
    former = FormerIdentity((7, epoch), is_open=True)
    assert judge(former, "CompleteCommit", 8, 0, bumps=True) is OURS
    assert former == FormerIdentity((8, 0), is_open=False)
    assert judge(FormerIdentity((7, epoch), is_open=True), "Ongoing", 8, 0, bumps=True) is TAKEN
    assert judge(FormerIdentity((7, epoch), is_open=True), "CompleteCommit", 8, 1, bumps=True) is TAKEN


def test_what_was_found_once_counts_from_then_on() -> None:
    """Our transaction was aborted when we acquired the id, and the response to the next attempt was lost."""
    former = FormerIdentity(MINE, is_open=True)
    assert judge(former, "Ongoing", 7, 4, bumps=False) is OURS
    assert judge(former, "CompleteAbort", 7, 5, bumps=False) is OURS
    assert judge(former, "Empty", 7, 6, bumps=False) is OURS
    assert former.producer == (7, 5)
    assert judge(former, "CompleteAbort", 7, 6, bumps=False) is TAKEN
