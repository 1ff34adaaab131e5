"""Test which topics a copy includes."""

from __future__ import annotations

from typing import Any

import pytest

from mirror.errors import InvalidRequest
from mirror.jobs.copy_job import CopyJob, topics_to_copy
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicNaming, TopicSelection


def a_job(topics: str = ".*", rename: str = "*", exclude: str = "", **more: Any) -> CopyJob:
    selection, naming = TopicSelection(topics, exclude), TopicNaming(rename)
    return CopyJob("state", ClusterRef("a"), ClusterRef("b"), selection, naming, **more)


def test_headraces_own_topics_are_taken_by_their_full_names_only() -> None:
    own, there = frozenset({"progress"}), ["t", "progress", "headrace-progress"]
    assert topics_to_copy(a_job(own=own), there, is_one_cluster=False) == ("t",)
    named = a_job("t|progress", "copy.*", own=own)
    assert topics_to_copy(named, there, is_one_cluster=False) == ("progress", "t")


def test_nothing_is_copied_into_headraces_own_topics() -> None:
    with pytest.raises(InvalidRequest, match=r"gress .*internal topic"):
        topics_to_copy(a_job(rename="pro*", own=frozenset({"progress"})), ["gress"], is_one_cluster=False)


def test_one_cluster_under_two_names_is_not_copied_onto_itself() -> None:
    assert topics_to_copy(a_job(), ["t"], is_one_cluster=False) == ("t",)
    with pytest.raises(InvalidRequest, match="onto themselves"):
        topics_to_copy(a_job(), ["t"], is_one_cluster=True)


def test_copies_within_a_cluster_are_not_copied_again() -> None:
    job = a_job(rename="x.*")
    assert topics_to_copy(job, ["t"], is_one_cluster=True) == ("t",)
    with pytest.raises(InvalidRequest, match=r"--exclude 'x\\\..\*'"):
        topics_to_copy(job, ["t", "x.t"], is_one_cluster=True)
    assert topics_to_copy(job, ["t", "x.t"], is_one_cluster=False) == ("t", "x.t")
    assert topics_to_copy(a_job(rename="x.*", exclude=r"x\..*"), ["t", "x.t"], is_one_cluster=True) == ("t",)
