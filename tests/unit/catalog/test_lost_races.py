"""Two drivers that decode at once, without a lease, and change one table."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyspark.errors import AnalysisException

from sluice.errors import PublishRefusedError, TransientError
from spark_jobs.iceberg_types import iceberg_type_of, spark_type_of
from spark_jobs.lake import column_rewrite
from spark_jobs.lake.column_rewrite import has_wider
from spark_jobs.lake.table_id import TableId
from spark_jobs.lake.table_options import TableOptions
from spark_jobs.lake.tables import Lake
from spark_jobs.planning.table_columns import NewColumn
from tests.unit.staged_tables import NAME, table

pytestmark = pytest.mark.catalog

ORDERS = TableId(*NAME)
OPTIONS = TableOptions("", {}, (), rewrites=True)
ID = NewColumn("id", "bigint")
NOTE = NewColumn("note", "string")
CENTS = NewColumn("id", "decimal(22,2)")
ADDED = re.compile(r"ADD COLUMNS \(`(.+)` (.+)\)")


class Spark:
    """What evolves a table: as Spark, it refuses what is there already. `meanwhile`: what another
    driver does before a statement."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = MagicMock()
        self._tables = catalog
        self.meanwhile: list[Callable[[], object]] = []

    def table(self, _: str) -> Any:
        fields = self._tables.load_table(NAME).schema().fields
        return SimpleNamespace(
            schema=[self._field(f.name, spark_type_of(f.field_type)) for f in fields]
        )

    def _field(self, name: str, kind: str) -> Any:
        return SimpleNamespace(name=name, dataType=SimpleNamespace(simpleString=lambda: kind))

    def sql(self, text: str) -> None:
        while self.meanwhile:
            self.meanwhile.pop()()
        if text.startswith("CREATE"):
            self.create()
        elif (added := ADDED.search(text)) is not None:
            self.add(added[1], added[2])

    def create(self) -> None:
        if self._tables.table_exists(NAME):
            raise AnalysisException("[TABLE_OR_VIEW_ALREADY_EXISTS]")
        self._tables.create_table(NAME, Schema())

    def add(self, name: str, kind: str) -> None:
        loaded = self._tables.load_table(NAME)
        if name in loaded.schema().column_names:
            raise AnalysisException("[FIELD_ALREADY_EXISTS]")
        with loaded.update_schema() as update:
            update.add_column(name, iceberg_type_of(kind))


def ensure(catalog: Catalog, spark: Spark, *columns: NewColumn, alive: bool = True) -> bool:
    session: Any = spark
    return Lake(session, catalog, "shop", lambda: alive)._ensure(ORDERS, columns, OPTIONS)


def columns(catalog: Catalog) -> list[str]:
    return list(table(catalog).schema().column_names)


def test_a_table_that_another_driver_creates_meanwhile_is_evolved(catalog: Catalog) -> None:
    catalog.drop_table(NAME)
    spark = Spark(catalog)
    spark.meanwhile = [spark.create]
    assert not ensure(catalog, spark, NOTE)
    assert columns(catalog) == ["note"]


def test_a_column_that_another_driver_adds_meanwhile_is_there(catalog: Catalog) -> None:
    spark = Spark(catalog)
    spark.meanwhile = [lambda: spark.add("note", "string")]
    ensure(catalog, spark, ID, NOTE)
    assert columns(catalog) == ["id", "note"]


def test_an_error_about_a_table_that_nobody_changed_is_told(catalog: Catalog) -> None:
    spark = Spark(catalog)
    spark.add = MagicMock(side_effect=AnalysisException("[SOME]"))  # type: ignore[method-assign]
    with pytest.raises(AnalysisException, match="SOME"):
        ensure(catalog, spark, ID, NOTE)
    spark.add.assert_called_once()


@pytest.mark.parametrize("late", [True, False], ids=["meanwhile", "before"])
def test_a_change_of_type_stays_alone_beside_one_that_may_be_at_work(
    catalog: Catalog, late: bool
) -> None:
    """Else each would take away the other's column, and both write the table again for nothing."""
    spark = Spark(catalog)

    def begin() -> None:
        spark.add("_sluice_wider id", "string")

    if late:
        spark.meanwhile = [begin]
    else:
        begin()
    with pytest.raises(TransientError, match="another batch may be changing the type of a column"):
        ensure(catalog, spark, CENTS)
    assert columns(catalog) == ["id", "_sluice_wider id"]
    ensure(catalog, spark, ID)
    ensure(catalog, spark, CENTS, alive=False)
    assert [str(f.field_type) for f in table(catalog).schema().fields] == ["decimal(22, 2)"]


@pytest.mark.parametrize("others", [True, False])
def test_a_change_of_type_that_is_refused_drops_only_what_it_added(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, others: bool
) -> None:
    """A driver that was suspended may find another one's column in the place of its own."""
    spark = Spark(catalog)

    def refuse(*_: object) -> None:
        if others:
            column_rewrite.drop_wider(catalog, ORDERS)
            spark.add("_sluice_wider id", "string")
        raise PublishRefusedError("main moved")

    monkeypatch.setattr(column_rewrite, "replace_columns", refuse)
    monkeypatch.setattr(column_rewrite, "_TRIES", 1)
    with pytest.raises(TransientError, match="others write to it"):
        ensure(catalog, spark, CENTS)
    assert has_wider(table(catalog)) == others
