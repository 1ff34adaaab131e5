"""Check that a broker may serve a partition."""

from __future__ import annotations

from typing import Final

from tests.fakes.broker.topics import Partition

UNKNOWN_TOPIC: Final = 3
NOT_LEADER: Final = 6
FENCED_EPOCH: Final = 74
UNKNOWN_EPOCH: Final = 75


def judge_leader(partition: Partition | None, broker: int, epoch: int, *, followers: bool = False) -> int:
    """Return an error code, 0 for none. `epoch`: the client's leader epoch, -1 for none.

    `followers`: whether other in-sync replicas may serve the request too.
    """
    if partition is None:
        return UNKNOWN_TOPIC
    serves = partition.leader == broker or (followers and broker in partition.in_sync)
    if epoch >= 0 and broker in partition.replicas:
        if epoch < partition.epoch:
            return FENCED_EPOCH
        if epoch > partition.epoch:
            return UNKNOWN_EPOCH
    return 0 if serves else NOT_LEADER
