"""The table that one of Debezium's records names, or that the option `table` names for it."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.canonical import literal
from spark_jobs.formats.debezium_order import KEYSPACE, MONGODB
from spark_jobs.formats.told_table import ToldTable


def names(connector: str | None, told: ToldTable) -> dict[str, Column]:
    """The parts of its name; those that are `told` where a change names no table."""
    named = {
        "database": _database(connector),
        "schema": F.expr("coalesce(source.schema, schemaName)"),
        "table": F.expr(_own(connector)),
    }
    if told.table is None:
        return named
    unnamed = F.expr(f"kind IS NOT NULL AND coalesce({_own(connector)}, '') = ''")
    return {
        name: F.when(unnamed, F.coalesce(F.lit(getattr(told, name)), own)).otherwise(own)
        for name, own in named.items()
    }


def table_of(connector: str | None, told: ToldTable) -> str:
    """What names the table of a change, as text for Spark."""
    own = _own(connector)
    return own if told.table is None else f"coalesce(nullif({own}, ''), {literal(told.table)})"


def _own(connector: str | None) -> str:
    """Of MongoDB its collection."""
    many = connector in (None, MONGODB)
    return "coalesce(source.table, source.collection)" if many else "source.table"


def _database(connector: str | None) -> Column:
    """Of Vitess its keyspace, for its `db` is empty."""
    named = F.expr("coalesce(source.db, databaseName)")
    if connector:
        return named
    keyspace = F.col("source")[KEYSPACE]
    return F.when((named == "") & keyspace.isNotNull(), keyspace).otherwise(named)
