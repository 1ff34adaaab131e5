"""Test that `latest` applies to the partitions that existed when a datastream was first planned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from mirror.coordination.datastream_records.first_partitions_store import FirstPartitionsStore
from mirror.coordination.stores.membership import Membership
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus, StartPosition
from mirror.model.datastreams.metadata import CREATED_MS
from mirror.model.identifiers import DatastreamName
from mirror.model.topics import TopicDescription, TopicSelection
from tests.builders import DESTINATION, SOURCE, a_datastream
from tests.fakes.clock import ManualClock
from tests.fakes.instances import FollowerRig, LeaderRig
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.topic_admin import FakeTopicAdmin

NAME = DatastreamName("orders")
END, BEGINNING = StartPosition.LATEST, StartPosition.EARLIEST


class Installation:
    """Two clusters and one instance that leads and copies."""

    def __init__(self) -> None:
        self.server, self.clock = FakeZooKeeper(), ManualClock()
        self.source, self.destination = FakeTopicAdmin(t=1), FakeTopicAdmin()
        self.store = FirstPartitionsStore(self.server.session())
        self._start()

    def restart(self) -> None:
        """Restart the instance before it has copied anything."""
        self.follower.lose()
        self._start()

    def _start(self) -> None:
        self.follower = FollowerRig(self.server, clock=self.clock)
        self.rig = LeaderRig(
            self.server.session(), {SOURCE: self.source, DESTINATION: self.destination}, self.clock
        )
        self.definitions = self.rig.stores.definitions
        self.look()

    def look(self) -> None:
        """Let the leader plan and the follower apply the plan."""
        for _ in range(3):
            self.follower.run_loop(3)
            live = Membership(self.server.session()).live()
            self.rig.leader.joined(live[0])
            self.clock.advance(4)
            self.rig.leader.tick()
        self.follower.run_loop(3)

    def create(self, topics: str = "t", **more: Any) -> None:
        """Create a datastream that starts at the end."""
        values = {"start": END, "status": DatastreamStatus.INITIALIZING, **more}
        self.definitions.create(a_datastream(NAME, topics, **values))
        self.look()

    def update(self, datastream: Datastream) -> None:
        """Store another definition."""
        self.definitions.replace(self.definitions.get(NAME), datastream)
        self.look()

    @property
    def datastream(self) -> Datastream:
        """The stored definition."""
        return self.definitions.get(NAME).datastream

    def grow(self, **topics: int) -> None:
        """Set the numbers of partitions of source topics."""
        for topic, count in topics.items():
            self.source.topics[topic] = TopicDescription(topic, count)

    @property
    def starts(self) -> Mapping[str, StartPosition]:
        """Start positions of the lanes, which apply without stored progress."""
        return {str(key.partition): status.spec.start for key, status in self.follower.workers.lanes.items()}


@pytest.fixture
def site() -> Installation:
    return Installation()


def test_latest_counts_for_partitions_of_the_first_planning_only(site: Installation) -> None:
    site.create("t.*")
    assert site.starts == {"t-0": END}
    site.grow(t=2, t2=1)
    site.look()
    assert site.starts == {"t-0": END, "t-1": BEGINNING, "t2-0": BEGINNING}


def test_what_is_left_of_the_first_start_outlives_a_restart_of_everything(site: Installation) -> None:
    site.create()
    site.grow(t=2)
    site.restart()
    assert site.starts == {"t-0": END, "t-1": BEGINNING}


def test_an_added_partition_begins_where_the_group_stands_else_at_its_beginning(site: Installation) -> None:
    site.create(start=StartPosition.COMMITTED_OR_LATEST)
    site.grow(t=2)
    site.look()
    assert site.starts == {"t-0": StartPosition.COMMITTED_OR_LATEST, "t-1": StartPosition.COMMITTED}


def test_topics_that_an_update_selects_begin_at_their_end(site: Installation) -> None:
    site.grow(u=1)
    site.create()
    site.grow(t=2)
    site.update(replace(site.datastream, selection=TopicSelection("t|u")))
    assert site.starts == {"t-0": END, "t-1": BEGINNING, "u-0": END}
    site.grow(u=2)
    site.look()
    assert site.starts["u-1"] is BEGINNING


def test_the_record_of_a_former_datastream_of_the_name_does_not_count(site: Installation) -> None:
    site.create(metadata={CREATED_MS: "1"})
    site.grow(t=2)
    site.look()
    site.update(replace(site.datastream, metadata={**site.datastream.metadata, CREATED_MS: "2"}))
    assert site.starts == {"t-0": END, "t-1": END}


def test_a_record_that_cannot_be_read_skips_nothing(site: Installation) -> None:
    site.create()
    session = site.server.session()
    session.write("/beginnings/orders", b"?", session.read("/beginnings/orders").version)
    site.restart()
    assert site.starts == {"t-0": BEGINNING}


def test_the_record_ends_with_its_datastream(site: Installation) -> None:
    site.create()
    assert site.store.of(site.datastream) is not None
    deleted = site.datastream
    site.update(replace(deleted, status=DatastreamStatus.DELETING))
    assert site.store.of(deleted) is None


def test_datastreams_that_begin_elsewhere_have_no_record(site: Installation) -> None:
    site.create(start=BEGINNING)
    assert "beginnings" not in site.server.session().children("/")
