"""Descriptions of columns in events: names and types, as formats read them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from sluice.config.format_options import FormatOptions
from sluice.config.pipeline import Pipeline
from sluice.errors import PlanError
from sluice.source_names import LONGEST, is_column_name
from spark_jobs.formats.base import Format, SourceColumn
from spark_jobs.planning.planned_column import PlannedColumn
from spark_jobs.planning.table_summary import Source, TableSummary


def descriptions(
    fmt: Format, summary: TableSummary, options: FormatOptions
) -> dict[int, dict[str, SourceColumn]]:
    """Return the columns of each description, by its short name and then by column name."""
    return {
        ident: {c.name: c for c in read_description(fmt, types, options)}
        for ident, types in sorted(summary.types.items(), key=lambda item: item[1])
    }


def read_description(fmt: Format, types: str, options: FormatOptions) -> list[SourceColumn]:
    """Return a description's columns; [] for a damaged one, whose columns are then text.

    Names that no column may have are left out: rows with such a column are quarantined.
    """
    try:
        columns = fmt.columns(types, options)
        named = all(isinstance(c.name, str) for c in columns)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ArithmeticError):
        return []
    return [c for c in columns if is_column_name(c.name)] if named else []


def as_read(
    described: Mapping[int, Mapping[str, SourceColumn]], planned: Iterable[PlannedColumn]
) -> dict[int, dict[str, SourceColumn]]:
    """Return descriptions of the planned columns, with the types that their values are read as."""
    columns = {column.name: column for column in planned}
    return {
        ident: {
            n: replace(c, type=columns[n].reading(ident)) for n, c in listed.items() if n in columns
        }
        for ident, listed in described.items()
    }


def refuse_too_many_columns(pipeline: Pipeline, source: Source, columns: Collection[str]) -> None:
    """Raise PlanError above the pipeline's limit, which bounds a table's metadata."""
    if len(columns) > pipeline.max_columns_per_table:
        raise PlanError(
            f"table {source.name[:LONGEST]}: its events have {len(columns)} columns, above "
            f"max_columns_per_table ({pipeline.max_columns_per_table}) of pipeline "
            f"{pipeline.name}: raise it, or take the table out of `tables:`"
        )
