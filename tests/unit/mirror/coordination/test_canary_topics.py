"""The canary topic belongs to its datastream only, whatever its expressions, and is not stored."""

from __future__ import annotations

from dataclasses import replace

from mirror.coordination.datastream_records.first_partitions import begins_at_end
from mirror.coordination.datastream_records.first_partitions_store import FirstPartitionsStore
from mirror.coordination.partition_selection import TopicMatching
from mirror.coordination.reconcile import lane_spec
from mirror.coordination.routes.index import SelectionIndex
from mirror.coordination.routes.routes import Route, RouteJudge
from mirror.coordination.stores.definition_document import from_document, to_document
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.policy import CANARY, CopyPath
from mirror.model.identifiers import DatastreamName, TaskName
from mirror.model.topics import canary_topic
from tests.builders import DESTINATION, SOURCE, a_datastream, a_key
from tests.fakes.node_store import FakeZooKeeper

ON = {CANARY: "true"}
TOPIC = canary_topic("orders")


def test_only_its_own_datastream_selects_it() -> None:
    mine = a_datastream("orders", "t", metadata=ON)
    others = [a_datastream("all", ".*"), a_datastream("other", ".*", metadata=ON)]
    matching, topics = TopicMatching(), {SOURCE: {"t": 2, TOPIC: 1, canary_topic("other"): 1}}
    assert matching.topics(mine, topics) == {"t", TOPIC}
    assert [matching.topics(one, topics) - {canary_topic("other")} for one in others] == [{"t"}, {"t"}]
    found = SelectionIndex((one.selection, one.name) for one in (mine, *others)).matching(TOPIC)
    assert found == ["orders"]


def test_it_is_found_when_it_appears_and_leaves_with_the_option() -> None:
    mine, matching = a_datastream("orders", "t", metadata=ON), TopicMatching()
    assert matching.topics(mine, {SOURCE: {"t": 1}}) == {"t"}
    assert matching.topics(mine, {SOURCE: {"t": 1, TOPIC: 1}}) == {"t", TOPIC}
    off = replace(mine, metadata={"owner": "tests", CANARY: "false"})
    assert off.selection.canary == ""
    assert matching.topics(off, {SOURCE: {"t": 1, TOPIC: 1}}) == {"t"}
    renamed = replace(mine, name=DatastreamName("users"))
    assert renamed.selection.canary == canary_topic("users")


def test_transforms_do_not_apply_to_it() -> None:
    metadata = {**ON, "headrace.transforms": "keep-keys:^x", "headrace.path": "record"}
    mine, task = a_datastream("orders", "t", metadata=metadata), TaskName("orders-0")
    canary, other = (lane_spec(a_key(f"{topic}-0"), task, mine).policy for topic in (TOPIC, "t"))
    assert (canary.transforms, canary.path) == ((), CopyPath.RECORD)
    assert other.transforms == ("keep-keys:^x",)


def test_a_definition_is_stored_as_older_versions_store_it() -> None:
    for metadata in ({}, ON):
        mine = a_datastream("orders", "t", metadata=metadata)
        document = to_document(mine)
        assert document["topics"] == {"include": "t", "exclude": "", "internal": False}
        assert from_document(document) == mine


def test_first_partitions_know_it_and_are_written_once() -> None:
    store = FirstPartitionsStore(FakeZooKeeper().session())
    mine = a_datastream("orders", "t", metadata=ON, start=StartPosition.LATEST)
    assert begins_at_end(mine)
    store.record(mine, {"t": 2, TOPIC: 1})
    first = store.of(mine)
    assert first is not None
    assert (first.selection, first.counts) == (mine.selection, {"t": 2, TOPIC: 1})
    store.invalidate()
    store.record(mine, {"t": 2, "u": 1, TOPIC: 1})
    assert store.of(mine) == first


def test_canaries_do_not_return_in_a_pair_of_mirrors() -> None:
    there = a_datastream("there", ".*", metadata=ON)
    back = a_datastream("back", ".*", metadata=ON, source=DESTINATION, destination=SOURCE)
    routes = [Route(one, one.source, one.destination) for one in (there, back)]
    chosen = {one.name: [one.selection.canary] for one in (there, back)}
    verdict = RouteJudge(routes, {"progress"}).verdict(chosen, {})
    assert (verdict.refused, verdict.left_out) == ({}, {})
