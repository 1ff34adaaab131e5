"""Test the copy policy in the metadata of a datastream."""

from __future__ import annotations

import pytest

from mirror.errors import InvalidRequest
from mirror.model.datastreams.policy import (
    DEFAULT_POLICY,
    CopyPath,
    CopyPolicy,
    Guarantee,
    Isolation,
    OnLoss,
    OnRejection,
    policy_from,
)
from tests.builders import a_datastream


def test_without_a_word_the_defaults_hold() -> None:
    assert policy_from({"owner": "somebody", "group.id": "g"}) == DEFAULT_POLICY


def test_every_choice_has_a_key() -> None:
    asked = {
        "headrace.guarantee": "at-least-once",
        "headrace.isolation": "read-uncommitted",
        "headrace.on-loss": "continue",
        "headrace.on-rejection": "dead-letter",
        "headrace.path": "record",
        "headrace.bytes-per-second": "1000",
        "headrace.transforms": "drop-header:a\n\n rename-header:b=c \n",
    }
    assert policy_from(asked) == CopyPolicy(
        Guarantee.AT_LEAST_ONCE,
        Isolation.READ_UNCOMMITTED,
        OnLoss.CONTINUE,
        OnRejection.DEAD_LETTER,
        CopyPath.RECORD,
        1000,
        ("drop-header:a", "rename-header:b=c"),
    )
    assert a_datastream(metadata=asked).policy == policy_from(asked)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("headrace.guarantee", "twice", "choose at-least-once"),
        ("headrace.bytes-per-second", "-1", "a number from 0"),
        ("headrace.garantee", "exactly-once", "unknown metadata key"),
    ],
)
def test_what_cannot_be_meant_is_refused_when_the_datastream_is_made(key: str, value: str, told: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        a_datastream(metadata={key: value})
    assert told in str(caught.value)


def test_transforms_that_take_too_much_to_describe_are_refused() -> None:
    lines = "\n".join(["x" * 1_000] * 32)
    assert len(a_datastream(metadata={"headrace.transforms": lines}).policy.transforms) == 32
    with pytest.raises(InvalidRequest):
        a_datastream(metadata={"headrace.transforms": lines + "\n" + "y" * 700})
    with pytest.raises(InvalidRequest):
        a_datastream(metadata={"headrace.transforms": "\n".join(["\N{GRINNING FACE}" * 300] * 10)})


def test_contradictions_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="exactly-once"):
        policy_from({"headrace.guarantee": "exactly-once", "headrace.isolation": "read-uncommitted"})
