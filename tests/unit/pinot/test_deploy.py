"""Changes when applying a table, judged on documents alone; other tests query the real Pinot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mirror.errors import Refused
from mirror.model.rows import Column, ColumnType
from pinot.deployment.deploy import DeploymentStep, apply, judge_schema, judge_table, plan
from pinot.schemas import Placement, pinot_schema, pinot_table
from pinot.tables import MIRROR_METRICS, PARTITION_METRICS, Table

PLACEMENT = Placement("127.0.0.1:9192", "a-topic", 3)
GROWN = replace(
    PARTITION_METRICS, columns=(*PARTITION_METRICS.columns, Column("more", ColumnType.DOUBLE)), version=2
)


def test_the_same_documents_are_unchanged_whatever_pinot_adds_to_them() -> None:
    schema = {**pinot_schema(PARTITION_METRICS), "enableColumnBasedNullHandling": False}
    table = {
        **pinot_table(PARTITION_METRICS, PLACEMENT),
        "tableName": "partitionMetrics_REALTIME",
        "isDimTable": False,
    }
    assert judge_schema(PARTITION_METRICS, schema).step is DeploymentStep.UNCHANGED
    assert judge_table(PARTITION_METRICS, PLACEMENT, table).step is DeploymentStep.UNCHANGED


def test_what_is_missing_is_created() -> None:
    assert judge_schema(MIRROR_METRICS, None).step is DeploymentStep.CREATE
    assert judge_table(MIRROR_METRICS, PLACEMENT, None).step is DeploymentStep.CREATE


def test_a_new_column_and_a_new_retention_are_updates_that_say_what_differs() -> None:
    schema = judge_schema(GROWN, pinot_schema(PARTITION_METRICS))
    assert (schema.step, schema.differences) == (DeploymentStep.UPDATE, ("+ column more DOUBLE",))
    longer = replace(PLACEMENT, retention_days=9)
    table = judge_table(PARTITION_METRICS, longer, pinot_table(PARTITION_METRICS, PLACEMENT))
    assert table.step is DeploymentStep.UPDATE
    assert table.differences == ("segmentsConfig.retentionTimeValue: 3 -> 9",)


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (PARTITION_METRICS, "column more would be removed"),
        (replace(GROWN, key=("cluster",)), "the key is"),
        (
            replace(GROWN, columns=(*PARTITION_METRICS.columns, Column("more", ColumnType.STRING))),
            "column more is DOUBLE, but must be STRING",
        ),
    ],
)
def test_what_cannot_be_done_in_place_is_blocked(wanted: Table, says: str) -> None:
    change = judge_schema(wanted, pinot_schema(GROWN))
    assert change.step is DeploymentStep.BLOCKED
    assert any(says in line for line in change.differences)


def test_a_table_does_not_become_keyed_in_place() -> None:
    appended = pinot_table(replace(PARTITION_METRICS, key=()), PLACEMENT)
    assert judge_table(PARTITION_METRICS, PLACEMENT, appended).step is DeploymentStep.BLOCKED


def test_secrets_do_not_show_in_differences() -> None:
    before = replace(PLACEMENT, kafka_properties={"sasl.jaas.config": 'password="old"'})
    after = replace(PLACEMENT, kafka_properties={"sasl.jaas.config": 'password="new"'})
    change = judge_table(PARTITION_METRICS, after, pinot_table(PARTITION_METRICS, before))
    assert change.step is DeploymentStep.UPDATE
    assert "new" not in str(change)
    assert "old" not in str(change)


def test_a_secret_by_value_is_replaced_by_its_reference_and_not_again() -> None:
    by_value = replace(PLACEMENT, kafka_properties={"ssl.key.password": "right"})
    wanted = replace(PLACEMENT, kafka_properties={"ssl.key.password": "${OURS}"})
    shown = pinot_table(PARTITION_METRICS, by_value)
    assert judge_table(PARTITION_METRICS, wanted, shown).step is DeploymentStep.UPDATE
    assert (
        judge_table(PARTITION_METRICS, wanted, shown, frozenset({"${OTHERS}"})).step is DeploymentStep.UPDATE
    )
    assert (
        judge_table(PARTITION_METRICS, wanted, shown, frozenset({"${OURS}"})).step is DeploymentStep.UNCHANGED
    )


class HalfDropped:
    """A controller whose table was dropped, but not its schema."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.left: dict[str, Any] | None = pinot_schema(GROWN)

    def schema(self, _: str) -> dict[str, Any] | None:
        return self.left

    def table(self, _: str) -> dict[str, Any] | None:
        return None

    def drop(self, name: str) -> None:
        self.calls.append(f"drop {name}")

    def put_schema(self, document: dict[str, Any], *, exists: bool) -> None:
        self.calls.append(f"put schema {document['schemaName']} {exists}")

    def put_table(self, document: dict[str, Any], *, exists: bool) -> None:
        self.calls.append(f"put table {document['tableName']} {exists}")


def test_a_recreation_that_was_interrupted_between_table_and_schema_is_completed() -> None:
    controller: Any = HalfDropped()
    wanted = {PARTITION_METRICS: PLACEMENT}
    with pytest.raises(Refused, match="column more would be removed"):
        apply(controller, wanted)
    assert not controller.calls
    name = PARTITION_METRICS.name
    assert [change.step for change in apply(controller, wanted, [name])] == [DeploymentStep.RECREATE]
    assert controller.calls == [f"drop {name}", f"put schema {name} False", f"put table {name} False"]


def test_the_recreation_of_a_table_that_does_not_exist_creates_it() -> None:
    controller: Any = HalfDropped()
    controller.left = None
    steps = [change.step for change in plan(controller, {PARTITION_METRICS: PLACEMENT}, ["partitionMetrics"])]
    assert steps == [DeploymentStep.CREATE, DeploymentStep.CREATE]
