"""A table without a key whose updates leave large values out: the old row tells them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_jobs.canonical import ALL_BUT, OP_UPDATE
from spark_jobs.decoding.whole_rows import completed
from tests.spark.sandbox import Sandbox

pytestmark = pytest.mark.spark
Row = dict[str, Any]
UNSENT = "__debezium_unavailable_value"
NOTES = {"format": "debezium", "tables": {"s.notes": {"key": [], "columns": {"id": "int"}}}}


def event(lsn: int, before: Row | None, after: Row | None) -> Row:
    source = {"connector": "postgresql", "db": "d", "schema": "s", "table": "notes", "lsn": lsn}
    op = "c" if before is None else "d" if after is None else "u"
    return {"op": op, "before": before, "after": after, "source": source}


def note(ident: int, doc: str) -> Row:
    return {"id": ident, "doc": doc}


EVENTS = [
    event(10, None, note(1, "big")),
    event(20, note(1, "big"), note(2, UNSENT)),
    event(30, None, note(3, "other")),
    event(40, note(3, "other"), note(4, UNSENT)),
    event(50, note(4, "other"), None),
]


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param([EVENTS], id="once"),
        pytest.param([[e] for e in EVENTS], id="as it happened", marks=pytest.mark.long),
        pytest.param([[e] for e in EVENTS[::-1]], id="newest first", marks=pytest.mark.long),
    ],
)
def test_value_that_was_not_sent_is_taken_from_the_old_row(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    batches: Sequence[Sequence[Row]],
) -> None:  # fmt: skip
    lake = Sandbox(spark, tmp_path, NOTES).driven(monkeypatch)
    for number, events in enumerate(batches):
        lake.write(f"{number}.jsonl", events)
        lake.run()
    assert lake.rows("notes") == [note(2, "big")]
    assert lake.agrees()


def test_update_whose_unsent_value_is_in_no_old_row_is_quarantined(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Sandbox(spark, tmp_path, NOTES).driven(monkeypatch)
    for number, old in enumerate((None, {"id": 5})):
        lake.write(f"{number}.jsonl", [event(100 + number, None, note(1, "a"))])
        lake.write(f"{number}u.jsonl", [event(200 + number, old, note(2, UNSENT)) | {"op": "u"}])
    lake.run()
    assert lake.rows("notes") == [note(1, "a")] * 2
    details = [(bad["reason"], bad["detail"]) for bad in lake.quarantined()]
    untold = ("old_row_missing", "not_sent:doc")
    assert sorted(details) == sorted(("does_not_fit", detail) for detail in untold)


def at(connector: str, number: int) -> Row:
    """A place in the log of each of the connectors whose old rows may lack a large value."""
    binlog = {"file": "binlog.000009", "pos": number, "row": 0}
    lsns = dict.fromkeys(("commit_lsn", "change_lsn"), f"00000027:{number:08x}:0005")
    scns = {"scn": str(number), "commit_scn": str(number), "rs_id": f"0x0000.{number:08x}.0010"}
    places: dict[str, Row] = {"mysql": binlog, "oracle": scns, "sqlserver": lsns}
    return places[connector] | ({} if connector == "mysql" else {"schema": "S"})


def history_of(table: str, connector: str) -> list[Row]:
    """As Oracle's connector has it: nothing tells a LOB of the old row, be it changed or not.

    That of SQL Server leaves out what an update did not change, those of MySQL and MariaDB what
    `binlog_row_image=NOBLOB` did not log.
    """
    halves: list[tuple[Row | None, Row | None]] = [(None, note(n, "big")) for n in (1, 2, 3)]
    halves += [(note(1, UNSENT), note(4, UNSENT)), (note(2, UNSENT), note(2, "new"))]
    halves += [(note(3, UNSENT), None)]
    of_table = {"connector": connector, "db": "S", "table": table}
    return [
        event(0, before, after) | {"source": of_table | at(connector, number)}
        for number, (before, after) in enumerate(halves, start=1)
    ]


@pytest.mark.parametrize(
    ("connector", "cut"),
    [
        pytest.param("oracle", 6, id="oracle, once", marks=pytest.mark.long),
        pytest.param("oracle", 3, id="oracle, apart", marks=pytest.mark.long),
        pytest.param("sqlserver", 3, id="sqlserver, apart"),
        pytest.param("mysql", 6, id="mysql, once", marks=pytest.mark.long),
        pytest.param("mysql", 3, id="mysql, apart", marks=pytest.mark.long),
    ],
)
def test_an_old_row_whose_large_value_was_not_sent_is_quarantined(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connector: str, cut: int
) -> None:
    """It names no row of a table without a key; of one with a key nothing is missing."""
    columns = {"columns": {"id": "int"}}
    tables = {"S.BARE": {"key": [], **columns}, "S.KEYED": {"key": ["id"], **columns}}
    lake = Sandbox(spark, tmp_path, {"format": "debezium", "tables": tables}).driven(monkeypatch)
    bare, keyed = history_of("BARE", connector), history_of("KEYED", connector)
    for number, part in enumerate((slice(cut), slice(cut, None))):
        lake.write(f"{number}.jsonl", bare[part] + keyed[part])
        lake.run()
    assert sorted(row["id"] for row in lake.rows("BARE")) == [1, 2, 3]
    assert sorted(lake.rows("KEYED"), key=str) == [note(2, "new"), note(4, "big")]
    details = [(bad["reason"], bad["detail"]) for bad in lake.quarantined()]
    assert details == [("does_not_fit", "not_sent:doc")] * 3
    assert lake.agrees()


@pytest.mark.parametrize(("position", "lost"), [("2.011.013.1", ["id"]), ("2.011.013~.1", None)])
def test_columns_that_an_old_row_lacks_are_unknown_unless_it_is_a_record_of_its_own(
    spark: SparkSession, position: str, lost: list[str] | None
) -> None:
    images = "before map<string,string>, after map<string,string>"
    events = spark.createDataFrame(
        [(OP_UPDATE, position, {"v": "old"}, {"id": "1", "v": "new"}, [ALL_BUT, "id", "v"])],
        f"op string, position string, {images}, absent array<string>",
    )
    row = completed(events).first()
    assert row is not None
    assert (row["after"], row["absent"]) == ({"id": "1", "v": "new"}, lost)
