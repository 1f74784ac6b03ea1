"""Changes of a column's type.

Iceberg promotes some types in place. For others (int → decimal, a decimal of another scale, any
type → text) a column of the new type replaces the old one (`planning.replaced_columns`);
`lake.column_rewrite` writes what is decided here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from pyiceberg.table import Table

from sluice.catalog.placing import placing_ids
from sluice.errors import ELSEWHERE, Evidence, PlanError
from sluice.types.columns import parse_type

_PROMOTED: Final = {("int", "bigint"), ("float", "double")}


@dataclass(frozen=True)
class TypeChange:
    """A column that gets another type; the types are Spark's."""

    column: str
    before: str
    after: str

    @property
    def promoted(self) -> bool:
        """Whether Iceberg makes the change in place."""
        return is_promoted(self.before, self.after)


def is_promoted(before: str, after: str) -> bool:
    """Whether Iceberg promotes one type to the other in place."""
    old, new = parse_type(before), parse_type(after)
    decimals = old.name == new.name == "decimal" and old.scale == new.scale
    return (decimals and old.precision < new.precision) or (before, after) in _PROMOTED


def refuse_widening(
    table: str, change: TypeChange, rewrites: bool, fixed: bool, wider: Collection[int] = ()
) -> None:
    """Raise PlanError unless the column can get the type.

    `rewrites`: the pipeline allows tables to be rewritten; `fixed`: one of `fixed_columns`;
    `wider`: the descriptions in events that need the type, by short name.
    """
    if change.promoted or (rewrites and not fixed):
        return
    placed = "one of the key, of `partition_by` or of the table's sort order"
    why = placed if fixed else "where on_schema_change is not evolve"
    raise PlanError(
        f"{table}: column {change.column!r} cannot become {change.after} from {change.before}, "
        f"{why}; hint a type that holds both, and where the table has the narrower one, "
        f"{ELSEWHERE}",
        evidence=Evidence([change.column], types=wider) if wider else None,
    )


def fixed_columns(table: Table, key: Sequence[str]) -> set[str]:
    """Return the columns that identify, partition or sort a table's rows, or partitioned them once:
    they cannot be dropped, and no other column can replace one of them."""
    placing = placing_ids(table)
    return {*key, *(field.name for field in table.schema().fields if field.field_id in placing)}
