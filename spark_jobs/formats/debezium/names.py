"""The table of a Debezium record: its own, or else that of the option `table`."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.formats.common.default_table import DefaultTable
from spark_jobs.formats.debezium.order import KEYSPACE, MONGODB, OWNER
from spark_jobs.quoting import literal


def names(connector: str | None, default: DefaultTable) -> dict[str, Column]:
    """Return the parts of the table's name; those of `default` where a change names no table."""
    own = {
        "database": _database(connector),
        "schema": _schema(connector),
        "table": F.expr(_own(connector)),
    }
    if default.table is None:
        return own
    unnamed = F.expr(f"kind IS NOT NULL AND coalesce({_own(connector)}, '') = ''")
    return {
        name: F.when(unnamed, F.coalesce(F.lit(getattr(default, name)), part)).otherwise(part)
        for name, part in own.items()
    }


def table_of(connector: str | None, default: DefaultTable) -> str:
    """Return SQL for the table of a change."""
    own = _own(connector)
    return (
        own if default.table is None else f"coalesce(nullif({own}, ''), {literal(default.table)})"
    )


def _own(connector: str | None) -> str:
    """Return SQL for the table that a record names; MongoDB calls it a collection."""
    many = connector in (None, MONGODB)
    return "coalesce(source.table, source.collection)" if many else "source.table"


def _schema(connector: str | None) -> Column:
    """The schema, which oracdc calls the owner."""
    owner = "" if connector else f", source.{OWNER}"
    return F.expr(f"coalesce(source.schema, schemaName{owner})")


def _database(connector: str | None) -> Column:
    """The database; Vitess has a keyspace instead, and an empty `db`."""
    named = F.expr("coalesce(source.db, databaseName)")
    if connector:
        return named
    keyspace = F.col("source")[KEYSPACE]
    return F.when((named == "") & keyspace.isNotNull(), keyspace).otherwise(named)
