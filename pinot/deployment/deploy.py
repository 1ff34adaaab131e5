"""Creates and updates Pinot's tables to match their definitions; idempotent, and never deletes data.

Changes that Pinot cannot make to a table with rows (type of a column, key, removal of a column) are reported
as `blocked`. Only `recreate` drops a table, by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from mirror.errors import Refused
from pinot.deployment.controller import PinotController
from pinot.schemas import Placement, pinot_schema, pinot_table
from pinot.tables import Table


class DeploymentStep(StrEnum):
    """Action that `apply` takes on a schema or table, or `BLOCKED`."""

    UNCHANGED = "unchanged"
    CREATE = "create"
    UPDATE = "update"
    BLOCKED = "blocked"
    RECREATE = "recreate"


@dataclass(frozen=True)
class SchemaChange:
    """Differences between a schema or table and its definition, one on each line."""

    table: str
    document: str
    step: DeploymentStep
    differences: tuple[str, ...] = ()


_SECRET: Final = ("jaas", "password", "keystore", "truststore")
_FIELDS: Final = ("dimensionFieldSpecs", "metricFieldSpecs", "dateTimeFieldSpecs")


def plan(
    controller: PinotController, wanted: Mapping[Table, Placement], recreate: Sequence[str] = ()
) -> list[SchemaChange]:
    """Return the changes of schemas and tables that `apply` would make."""
    changes = []
    for table, placement in wanted.items():
        schema, document = controller.schema(table.name), controller.table(table.name)
        if table.name in recreate and (document is not None or schema is not None):
            changes.append(SchemaChange(table.name, "table", DeploymentStep.RECREATE))
            continue
        changes.append(judge_schema(table, schema))
        is_asked = document is not None and placement.has_references
        references = controller.references(table.name) if is_asked else frozenset[str]()
        changes.append(judge_table(table, placement, document, references))
    return changes


def apply(
    controller: PinotController, wanted: Mapping[Table, Placement], recreate: Sequence[str] = ()
) -> list[SchemaChange]:
    """Apply the changes to schemas and tables. If one is blocked, change nothing and raise Refused."""
    changes = plan(controller, wanted, recreate)
    blocked = [change for change in changes if change.step is DeploymentStep.BLOCKED]
    if blocked:
        raise Refused(
            f"cannot change table {blocked[0].table} in place: {'; '.join(blocked[0].differences)}",
            advice=f"to drop its rows and read its topic again, run headrace pinot apply --recreate"
            f" {blocked[0].table}",
        )
    by_name = {table.name: (table, placement) for table, placement in wanted.items()}
    for change in changes:
        _carry_out(controller, change, *by_name[change.table])
    return changes


def _carry_out(controller: PinotController, change: SchemaChange, table: Table, placement: Placement) -> None:
    exists = change.step is DeploymentStep.UPDATE
    if change.step is DeploymentStep.RECREATE:
        controller.drop(table.name)
        controller.put_schema(pinot_schema(table), exists=False)
        controller.put_table(pinot_table(table, placement), exists=False)
    elif change.step is DeploymentStep.UNCHANGED:
        return
    elif change.document == "schema":
        controller.put_schema(pinot_schema(table), exists=exists)
    else:
        controller.put_table(pinot_table(table, placement), exists=exists)
        if exists:
            controller.reload(table.name)


def judge_schema(table: Table, present: dict[str, Any] | None) -> SchemaChange:
    """Compare Pinot's current schema with the definition, and return the required change. Pure."""
    wanted = pinot_schema(table)
    if present is None:
        return SchemaChange(table.name, "schema", DeploymentStep.CREATE)
    have, want = _columns(present), _columns(wanted)
    blocked = [f"column {name} would be removed" for name in sorted(have.keys() - want.keys())]
    blocked += [
        f"column {name} is {have[name]}, but must be {want[name]}"
        for name in sorted(have.keys() & want.keys())
        if have[name] != want[name]
    ]
    keys = (present.get("primaryKeyColumns") or [], wanted.get("primaryKeyColumns") or [])
    if keys[0] != keys[1]:
        blocked.append(
            f"the key is {', '.join(keys[0]) or 'none'}, but must be {', '.join(keys[1]) or 'none'}"
        )
    if blocked:
        return SchemaChange(table.name, "schema", DeploymentStep.BLOCKED, tuple(blocked))
    added = tuple(f"+ column {name} {want[name]}" for name in sorted(want.keys() - have.keys()))
    return SchemaChange(
        table.name, "schema", DeploymentStep.UPDATE if added else DeploymentStep.UNCHANGED, added
    )


def _columns(schema: Mapping[str, Any]) -> dict[str, str]:
    """Map each column of a schema to its type."""
    return {spec["name"]: spec["dataType"] for fields in _FIELDS for spec in schema.get(fields) or ()}


def judge_table(
    table: Table,
    placement: Placement,
    present: dict[str, Any] | None,
    references: frozenset[str] = frozenset(),
) -> SchemaChange:
    """Compare Pinot's current table with the definition, and return the required change. Pure.

    `references`: environment variables in the stored table. The document `present` may contain their values
    instead.
    """
    wanted = pinot_table(table, placement)
    if present is None:
        return SchemaChange(table.name, "table", DeploymentStep.CREATE)
    differences = tuple(_differences("", {**present, "tableName": table.name}, wanted, references))
    keyed = (present.get("upsertConfig") or {}).get("mode", "NONE") != "NONE"
    rehashed = any(line.startswith("upsertConfig.hashFunction") for line in differences)
    if keyed != ("upsertConfig" in wanted) or rehashed:
        return SchemaChange(table.name, "table", DeploymentStep.BLOCKED, differences)
    return SchemaChange(
        table.name, "table", DeploymentStep.UPDATE if differences else DeploymentStep.UNCHANGED, differences
    )


def _differences(path: str, have: Any, want: Any, references: frozenset[str]) -> Iterator[str]:
    """Yield the differences from the defined schema or table, ignoring keys that Pinot adds."""
    if isinstance(want, Mapping) and isinstance(have, Mapping):
        for key, value in want.items():
            yield from _differences(f"{path}.{key}" if path else key, have.get(key), value, references)
    elif isinstance(want, list) and isinstance(have, list) and len(want) == len(have):
        for index, (actual, other) in enumerate(zip(have, want, strict=True)):
            yield from _differences(f"{path}[{index}]", actual, other, references)
    elif have != want and not (want in ({}, []) and have is None) and str(want) not in references:
        secret = any(word in path.lower() for word in _SECRET)
        yield f"{path}: changed" if secret else f"{path}: {_short(have)} -> {_short(want)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
