"""Test the whole life cycle: every action in every state."""

from __future__ import annotations

import pytest

from mirror.errors import IllegalTransition
from mirror.model.datastreams.datastream import TRANSITIONS, DatastreamStatus, next_status
from tests.builders import a_datastream

S = DatastreamStatus
NO = None
TABLE: dict[str, dict[DatastreamStatus, DatastreamStatus | None]] = {
    "activate": {
        S.INITIALIZING: S.READY, S.READY: NO, S.PAUSED: NO, S.STOPPING: NO, S.STOPPED: NO, S.DELETING: NO
    },
    "pause": {
        S.INITIALIZING: NO, S.READY: S.PAUSED, S.PAUSED: NO, S.STOPPING: NO, S.STOPPED: NO, S.DELETING: NO
    },
    "resume": {
        S.INITIALIZING: NO, S.READY: NO, S.PAUSED: S.READY, S.STOPPING: NO, S.STOPPED: S.READY, S.DELETING: NO
    },
    "stop": {
        S.INITIALIZING: NO, S.READY: S.STOPPING, S.PAUSED: S.STOPPING, S.STOPPING: S.STOPPING,
        S.STOPPED: S.STOPPED, S.DELETING: NO,
    },
    "settle": {
        S.INITIALIZING: NO, S.READY: NO, S.PAUSED: NO, S.STOPPING: S.STOPPED, S.STOPPED: NO, S.DELETING: NO
    },
    "delete": {
        S.INITIALIZING: S.DELETING, S.READY: S.DELETING, S.PAUSED: S.DELETING, S.STOPPING: S.DELETING,
        S.STOPPED: S.DELETING, S.DELETING: S.DELETING,
    },
}  # fmt: skip


def test_the_table_is_complete() -> None:
    assert set(TABLE) == set(TRANSITIONS)
    assert all(set(row) == set(S) for row in TABLE.values())


@pytest.mark.parametrize("action", TABLE)
@pytest.mark.parametrize("status", S)
def test_every_action_from_every_state(action: str, status: DatastreamStatus) -> None:
    datastream = a_datastream(status=status)
    expected = TABLE[action][status]
    if expected is not None:
        assert next_status(datastream, action) is expected
        return
    with pytest.raises(IllegalTransition) as raised:
        next_status(datastream, action)
    assert status in str(raised.value)
    assert action in str(raised.value)
