"""Test that definitions lost by ZooKeeper turn health red, even after a restart."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from mirror.coordination.datastream_records.loss_store import LostStore
from mirror.coordination.stores import znodes
from mirror.coordination.stores.definitions import DefinitionStore
from mirror.coordination.stores.membership import Membership
from mirror.instance.lost_definitions import DefinitionFile
from mirror.model.datastreams.datastream import DatastreamStatus
from mirror.model.identifiers import DatastreamName, InstanceName
from tests.builders import a_datastream
from tests.fakes.instances import FollowerRig
from tests.fakes.node_store import FakeZooKeeper, Operation
from tests.fakes.planned import Service
from tests.patience import PATIENCE_SECONDS, wait_until

ONE, TWO = a_datastream("one"), a_datastream("two")
SECRET = "hunter2"


def is_red(rig: FollowerRig) -> bool:
    condition = rig.health.conditions().get("definitions")
    return condition is not None and not condition.is_well


def wipe(server: FakeZooKeeper, *folders: str) -> None:
    for folder in folders or (znodes.DATASTREAMS, znodes.LOST, znodes.DELETED, znodes.CREATIONS):
        server.session().delete_tree(folder)


def a_file(folder: Path, name: str = "one") -> DefinitionFile:
    return DefinitionFile(folder, InstanceName(name))


@pytest.fixture
def service() -> Service:
    made = Service()
    definitions = DefinitionStore(made.server.session())
    for present in definitions.names():
        definitions.remove(present)
    definitions.create(ONE)
    definitions.create(TWO)
    return made


def lost_names(service: Service) -> list[str]:
    return [one.datastream.name for one in LostStore(service.server.session()).all()]


def test_what_is_lost_is_named_until_it_is_there_again(service: Service) -> None:
    rig = FollowerRig(service.server)
    rig.run_loop()
    wipe(service.server)
    rig.run_loop(3)
    assert is_red(rig)
    sentence = rig.health.conditions()["definitions"].sentence
    assert "one" in sentence
    assert "two" in sentence
    definitions = DefinitionStore(service.server.session())
    definitions.create(ONE)
    rig.run_loop(3)
    assert is_red(rig)
    assert lost_names(service) == ["two"]
    definitions.create(TWO)
    rig.run_loop(3)
    assert not is_red(rig)
    assert lost_names(service) == []


def test_a_deletion_is_no_loss(service: Service) -> None:
    rig = FollowerRig(service.server)
    rig.run_loop()
    DefinitionStore(service.server.session()).remove(ONE.name)
    rig.run_loop(3)
    assert not is_red(rig)


def test_what_was_about_to_be_deleted_is_not_lost(service: Service) -> None:
    definitions = DefinitionStore(service.server.session())
    definitions.create(a_datastream("leaving", status=DatastreamStatus.DELETING))
    rig = FollowerRig(service.server)
    rig.run_loop()
    wipe(service.server)
    rig.run_loop(3)
    assert lost_names(service) == ["one", "two"]


def test_a_datastream_of_a_deleted_ones_name_can_be_lost(service: Service) -> None:
    definitions = DefinitionStore(service.server.session())
    definitions.remove(ONE.name)
    definitions.create(a_datastream("one", metadata={"owner": "tests", "system.creation.ms": "2000"}))
    rig = FollowerRig(service.server)
    rig.run_loop()
    wipe(service.server, znodes.DATASTREAMS)
    rig.run_loop(3)
    assert lost_names(service) == ["one", "two"]


def test_a_damaged_definition_is_not_lost(service: Service) -> None:
    rig = FollowerRig(service.server)
    rig.run_loop()
    session = service.server.session()
    session.write(f"{znodes.DATASTREAMS}/one", b"{", 0)
    rig.run_loop(3)
    other = FollowerRig(service.server, "other")
    other.run_loop(3)
    assert not is_red(rig)
    assert not is_red(other)


def test_an_instance_that_came_later_names_what_another_one_has_lost(service: Service) -> None:
    first = FollowerRig(service.server)
    first.run_loop()
    wipe(service.server)
    first.run_loop(3)
    later = FollowerRig(service.server, "later")
    later.run_loop(2)
    assert is_red(later)


def test_a_forgotten_one_is_lost_at_no_instance(service: Service, tmp_path: Path) -> None:
    rigs = [FollowerRig(service.server), FollowerRig(service.server, "two", memory=a_file(tmp_path))]
    for rig in rigs:
        rig.run_loop()
    wipe(service.server)
    for rig in rigs:
        rig.run_loop(3)
    store = LostStore(service.server.session())
    for one in store.all():
        store.forget(one)
    for rig in [*rigs, *rigs]:
        rig.run_loop(3)
    assert not any(map(is_red, rigs))
    assert lost_names(service) == []


def test_one_that_is_forgotten_while_an_instance_publishes_it_stays_forgotten(service: Service) -> None:
    rig = FollowerRig(service.server)
    rig.run_loop()
    wipe(service.server)
    store, former = LostStore(service.server.session()), rig.session.script

    def forget(operation: Operation) -> None:
        former(operation)
        if operation.is_write and any(path.startswith(znodes.LOST) for path in operation.paths):
            rig.session.script = former
            store.publish([ONE, TWO])
            for one in store.all():
                store.forget(one)

    rig.session.script = forget
    rig.run_loop(3)
    assert rig.session.script is former, "nothing was published"
    rig.run_loop(3)
    assert lost_names(service) == []
    assert not is_red(rig)


def test_a_lost_definition_with_a_deletion_is_removed(service: Service) -> None:
    """Earlier versions could publish a definition that was forgotten at the same time."""
    rig = FollowerRig(service.server)
    rig.run_loop()
    session = service.server.session()
    store = LostStore(session)
    old = a_datastream("old")
    store.publish([old])
    (ghost,) = store.all()
    data = session.read(f"{znodes.LOST}/old").data
    store.forget(ghost)
    session.create(f"{znodes.LOST}/old", data)
    rig.run_loop(3)
    assert lost_names(service) == []
    assert not is_red(rig)


def test_an_instance_that_restarts_after_the_wipe_still_knows(service: Service, tmp_path: Path) -> None:
    memory = a_file(tmp_path)
    rig = FollowerRig(service.server, memory=memory)
    memory.start()
    rig.run_loop()
    memory.stop(PATIENCE_SECONDS)
    wipe(service.server)
    restarted = FollowerRig(service.server, "again", memory=a_file(tmp_path))
    restarted.run_loop(3)
    assert is_red(restarted)
    assert lost_names(service) == ["one", "two"]


def test_what_was_deleted_while_an_instance_was_away_is_not_lost(service: Service, tmp_path: Path) -> None:
    memory = a_file(tmp_path)
    rig = FollowerRig(service.server, memory=memory)
    memory.start()
    rig.run_loop()
    memory.stop(PATIENCE_SECONDS)
    DefinitionStore(service.server.session()).remove(ONE.name)
    restarted = FollowerRig(service.server, "again", memory=a_file(tmp_path))
    restarted.run_loop(3)
    assert not is_red(restarted)


def test_the_file_is_for_its_owner_alone_and_whole(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    memory = a_file(folder, "host:8080")
    memory.start()
    kept = a_datastream("one", metadata={"owner": "tests", "password": SECRET})
    memory.keep({kept.name: kept})
    memory.stop(PATIENCE_SECONDS)
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert a_file(folder, "host:8080").load() == {kept.name: kept}


def test_a_damaged_file_is_none(tmp_path: Path) -> None:
    memory = a_file(tmp_path)
    for text in ('{"definitions": [{"name": 1}, 3]}', "[]", "{", '{"definitions": 4}'):
        (tmp_path / "definitions-one.json").write_text(text)
        assert memory.load() == {}


def test_a_folder_that_takes_no_file_is_a_remark(tmp_path: Path, service: Service) -> None:
    (tmp_path / "file").touch()
    memory = a_file(tmp_path / "file")
    rig = FollowerRig(service.server, memory=memory)
    memory.start()
    rig.run_loop()
    wait_until(lambda: bool(memory.trouble))
    rig.run_loop()
    memory.stop(PATIENCE_SECONDS)
    assert rig.health.conditions()["state directory"].is_well


def test_the_log_names_a_lost_definition_and_shows_nothing_of_it(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    definitions = DefinitionStore(service.server.session())
    definitions.create(a_datastream("secretive", metadata={"owner": "tests", "password": SECRET}))
    rig = FollowerRig(service.server)
    rig.run_loop()
    wipe(service.server)
    rig.run_loop(3)
    shown = "".join(capsys.readouterr())
    assert "secretive" in shown
    assert SECRET not in shown
    assert DatastreamName("secretive") in lost_names(service)


def test_instances_whose_places_were_deleted_join_again(service: Service) -> None:
    """Sequence numbers restart at 0, but no instance mistakes the node of another for its own."""
    first, second = FollowerRig(service.server), FollowerRig(service.server, "two")
    for rig in (first, second, first, second):
        rig.run_loop()
    wipe(service.server, znodes.DATASTREAMS, znodes.LIVE, znodes.HOLDINGS)
    for rig in (second, first, second, first):
        rig.run_loop(2)
    members = Membership(service.server.session())
    assert [(one.name, one.sequence) for one in members.live()] == [("two", 0), ("one", 1)]
    assert (first.follower.membership.me, second.follower.membership.me) == (
        members.live()[1],
        members.live()[0],
    )
    assert is_red(first)
    assert is_red(second)
