"""Changes when applying a table, judged on documents alone; other tests query the real Pinot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.model.rows import Column, ColumnType
from pinot.deployment.deploy import DeploymentStep, judge_schema, judge_table
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
