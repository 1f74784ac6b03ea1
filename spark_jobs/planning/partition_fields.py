"""The partition fields that Iceberg accepts for a table's columns.

Iceberg gives each field a name that no column may have (`PartitionSpec.Builder`), and accepts each
transform only for some types (its specification, "Partition Transforms"). It is checked here,
because Iceberg would only refuse in the middle of each batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from sluice.config.partitions import TIME_TRANSFORMS, Partition, unfit
from sluice.errors import ELSEWHERE, Evidence, PlanError

_SUFFIXES: Final = {
    "years": "year", "months": "month", "days": "day", "hours": "hour", "bucket": "bucket",
    "truncate": "trunc",
}  # fmt: skip


def refuse_fields(table: str, fields: Sequence[Partition], types: Mapping[str, str]) -> None:
    """Raise PlanError for fields that Iceberg refuses for columns of these Spark types."""
    problems = [*unfit(fields, types), *_called_alike(fields, types), *_twice(fields)]
    if problems:
        raise PlanError(f"table {table}: partition_by has {'; '.join(problems)}")


def refuse_taken(table: str, fields: Iterable[str], new: Collection[str]) -> None:
    """Raise PlanError for new columns with the name of a partition field of the stored table."""
    if taken := sorted(set(fields).intersection(new)):
        raise PlanError(
            f"table {table}: its new columns {taken} are called as partition fields of the stored "
            "table, which Iceberg refuses; leave them out with on_schema_change: ignore, or "
            f"partition otherwise: {ELSEWHERE}",
            evidence=Evidence(taken),
        )


def _called_alike(fields: Iterable[Partition], types: Mapping[str, str]) -> Iterator[str]:
    for field in fields:
        name = _name(field)
        if name in types and name != field.column:
            yield (
                f"{field.shown}, which Iceberg calls {name}, and so is a column of the table; "
                "partition by another column or transform"
            )


def _twice(fields: Iterable[Partition]) -> Iterator[str]:
    for column, count in Counter(map(_dimension, fields)).items():
        if count > 1:
            yield f"{column[0]} {count} times where Iceberg takes it once"


def _dimension(field: Partition) -> tuple[str, str]:
    """Return a column and its kind of transform; Iceberg accepts each such pair once."""
    return field.column, "time" if field.transform in TIME_TRANSFORMS else field.transform


def _name(field: Partition) -> str:
    suffix = _SUFFIXES.get(field.transform)
    return field.column if suffix is None else f"{field.column}_{suffix}"
