"""ZooKeeper is back with older data: definitions that it lost turn health red."""

from __future__ import annotations

from mirror.coordination.stores.definitions import DefinitionStore
from mirror.instance.problem_board import LostDefinitions
from mirror.model.datastreams.datastream import DatastreamStatus
from tests.builders import a_datastream
from tests.fakes.instances import FollowerRig
from tests.fakes.planned import Service

ONE, TWO = a_datastream("one"), a_datastream("two")


def test_what_is_missing_is_named_until_it_is_there_again() -> None:
    lost = LostDefinitions()
    assert lost.note([ONE, TWO], is_older=False) == ""
    assert "two" in lost.note([ONE], is_older=True)
    assert "two" in lost.note([ONE], is_older=True)
    assert lost.note([ONE, TWO], is_older=True) == ""


def test_a_deletion_is_no_loss() -> None:
    lost = LostDefinitions()
    leaving = a_datastream("two", status=DatastreamStatus.DELETING)
    assert lost.note([ONE, leaving], is_older=True) == ""
    assert lost.note([ONE], is_older=True) == ""
    assert lost.note([], is_older=False) == ""


def test_health_is_red_while_a_definition_is_missing() -> None:
    service = Service()
    rig = FollowerRig(service.server)
    definitions = DefinitionStore(service.server.session())
    definitions.create(ONE)
    rig.turn()
    definitions.remove(ONE.name)
    rig.has_older_data = True
    rig.turn(3)
    assert not rig.health.conditions()["definitions"].is_well
    definitions.create(ONE)
    rig.turn(3)
    assert "definitions" not in rig.health.conditions()
