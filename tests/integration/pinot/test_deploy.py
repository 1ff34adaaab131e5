"""Application of tables to a real Pinot: first, repeated, changed, and rejected."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from mirror.errors import AnalyticsError, NotFound, Refused
from mirror.model.rows import Column, ColumnType, row_of
from pinot.client import PinotClient
from pinot.deployment.controller import PinotController
from pinot.deployment.deploy import DeploymentStep, apply, plan
from pinot.schemas import Placement
from pinot.tables import PARTITION_METRICS, Table
from stack.pinot import PinotServer
from tests.kafka_data import make_topic
from tests.metrics_data import a_metric, fresh_name, pinot_settings, write_rows
from tests.patience import wait_until
from tests.servers import KafkaPair

pytestmark = pytest.mark.servers


@pytest.fixture
def controller(pinot_server: PinotServer) -> Iterator[PinotController]:
    made = PinotController(pinot_settings(pinot_server))
    yield made
    made.close()


@pytest.fixture
def table(kafka_pair: KafkaPair, controller: PinotController) -> Iterator[Table]:
    name = fresh_name("applied").replace("-", "")
    make_topic(kafka_pair.destination.address, name, 1)
    yield replace(PARTITION_METRICS, name=name, topic=name)
    controller.drop(name)


@pytest.fixture
def client(pinot_server: PinotServer) -> Iterator[PinotClient]:
    made = PinotClient(pinot_settings(pinot_server))
    yield made
    made.close()


def shown(client: PinotClient, table: Table) -> int:
    """Return the number of rows of the table; -1 while it is being created."""
    try:
        return int(client.ask(f"select count(*) from {table.name} limit 1").rows[0][0])
    except (AnalyticsError, NotFound):
        return -1


def test_apply_is_idempotent_shows_changes_and_never_drops_rows(
    kafka_pair: KafkaPair, client: PinotClient, controller: PinotController, table: Table
) -> None:
    address = kafka_pair.destination.address
    placement = Placement(address, table.topic, 3650)
    assert [change.step for change in plan(controller, {table: placement})] == [
        DeploymentStep.CREATE,
        DeploymentStep.CREATE,
    ]
    assert [change.step for change in apply(controller, {table: placement})] == [
        DeploymentStep.CREATE,
        DeploymentStep.CREATE,
    ]
    assert [change.step for change in apply(controller, {table: placement})] == [DeploymentStep.UNCHANGED] * 2
    rows = [("k", row_of(a_metric("c", "t", n, 1_795_000_000_000))) for n in range(5)]
    write_rows(address, table.topic, table, rows)

    wait_until(lambda: shown(client, table) == 5)
    grown = replace(table, columns=(*table.columns, Column("more", ColumnType.DOUBLE)), version=2)
    longer = replace(placement, retention_days=3651)
    changes = apply(controller, {grown: longer})
    assert [change.step for change in changes] == [DeploymentStep.UPDATE, DeploymentStep.UPDATE]
    assert changes[0].differences == ("+ column more DOUBLE",)
    assert "segmentsConfig.retentionTimeValue: 3650 -> 3651" in changes[1].differences
    assert [change.step for change in apply(controller, {grown: longer})] == [DeploymentStep.UNCHANGED] * 2
    with pytest.raises(Refused, match="column more"):
        apply(controller, {table: placement})
    assert shown(client, table) == 5
    with pytest.raises(Refused, match="the key is"):
        apply(controller, {replace(grown, key=("cluster",)): longer})
    assert shown(client, table) == 5


def test_recreating_reads_the_topic_again(
    kafka_pair: KafkaPair, client: PinotClient, controller: PinotController, table: Table
) -> None:
    address = kafka_pair.destination.address
    placement = Placement(address, table.topic, 3650)
    apply(controller, {table: placement})
    rows = [("k", row_of(a_metric("c", "t", n, 1_795_000_000_000))) for n in range(7)]
    write_rows(address, table.topic, table, rows)
    other_key = replace(table, key=("cluster", "topic", "kafka_partition"))
    changes = apply(controller, {other_key: placement}, recreate=[table.name])
    assert [change.step for change in changes] == [DeploymentStep.RECREATE]
    wait_until(lambda: shown(client, table) == 7)
    assert next(iter(controller.consuming(table.name).values()))[0]["consumerState"] == "CONSUMING"


def test_secrets_by_reference_are_values_of_pinots_environment_and_stored_nowhere(
    kafka_pair: KafkaPair, controller: PinotController, client: PinotClient, table: Table
) -> None:
    by_value = Placement(
        kafka_pair.destination.address, table.topic, 3650, kafka_properties={"ssl.key.password": "right"}
    )
    apply(controller, {table: by_value})
    wait_until(lambda: shown(client, table) == 0, "the table has segments")
    placement = replace(by_value, kafka_properties={"ssl.key.password": "${PATH}"})
    assert [change.step for change in apply(controller, {table: placement})] == [
        DeploymentStep.UNCHANGED,
        DeploymentStep.UPDATE,
    ]
    assert [change.step for change in apply(controller, {table: placement})] == [DeploymentStep.UNCHANGED] * 2
    assert controller.references(table.name) == {"${PATH}"}
    stored = controller.table(table.name)
    assert stored is not None
    (stream,) = stored["ingestionConfig"]["streamIngestionConfig"]["streamConfigMaps"]
    assert stream["ssl.key.password"] == os.environ["PATH"], "Pinot's consumers get another value"
