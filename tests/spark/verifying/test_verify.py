"""verify: a lake that is as its changelog says agrees; whatever is not is told by its key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice.errors import TerminalError, TransientError
from sluice.ledger import states
from sluice.ledger.ledger import Ledger
from sluice.verification import Comparison, Difference, TableReport, Verification
from spark_jobs.folding import no_key, resolve
from spark_jobs.lake.cut import Cut, Cutter
from spark_jobs.lake.table_id import TableId
from spark_jobs.lake.writer import Writer
from spark_jobs.merging import merge
from spark_jobs.verifying.changelogs import verify
from spark_jobs.verifying.comparison import compared
from spark_jobs.verifying.differences import Layout
from tests.reference import Change, row
from tests.spark.deliveries import Delivery, deliver, shown
from tests.spark.dialects.debezium import DIALECT, PLACEHOLDER, event
from tests.spark.histories import TABLES, KeyedSource, drawn, meaning, play
from tests.spark.sandbox import NAMESPACE, Sandbox

pytestmark = pytest.mark.spark

A = {"id": 1, "text": "old", "amount": "1.00", "doc": "kept"}
B = {"id": 1, "text": "new", "amount": "2.00", "doc": "kept"}
STEPS = drawn(1)
IN_TWO = Delivery(seed=1, batches=2, given_up=9, retried_last=False)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    """One lake; every test has a database of its own in it."""
    return Sandbox(spark, tmp_path_factory.mktemp("verify"), DIALECT.pipeline("", TABLES))


@pytest.fixture(scope="module")
def played(lake: Sandbox) -> list[Change]:
    """Long histories in `db`: snapshots, moves of keys, partial rows, deletes, TRUNCATEs."""
    log = [change for source in play(STEPS) for change in source.log]
    deliver(lake, DIALECT, "db", log, IN_TWO)
    return log


def cutter(lake: Sandbox) -> Cutter:
    """The lake as the driver sees it; the sandbox itself writes no ledger."""
    ledger = Ledger(lake.catalog).of("p")
    known = ledger.batches.published()
    for batch_id in lake.published:
        if batch_id not in known:
            ledger.batches.record(batch_id, states.PUBLISHED)
    return Cutter(lake.catalog, ledger, NAMESPACE)


def verified(lake: Sandbox, table: str) -> TableReport:
    """One table's report."""
    (report,) = verify(lake.spark, cutter(lake), table).tables
    return report


def tombstones(report: TableReport) -> Comparison:
    """What is told of those of a table with a key."""
    assert report.tombstones is not None
    return report.tombstones


def differences_of(comparison: Comparison) -> dict[str, tuple[str, tuple[str, ...]]]:
    """What differs by `id`, or by what a row without a key holds."""
    shown = comparison.shown
    return {str((d.expected or d.found or {}).get("id")): (d.kind, d.columns) for d in shown}


def load(lake: Sandbox, database: str, *batches: list[Change]) -> None:
    """Load each list of changes as one batch."""
    for batch in batches:
        lake.load_records([event(change, database) for change in batch])


@contextmanager
def tampered(lake: Sandbox, table: str, statement: str) -> Iterator[None]:
    """Run SQL on a table behind Sluice's back; put its `main` back afterwards."""
    before = lake.catalog.load_table(tuple(table.split("."))).current_snapshot()
    signed = [k for k in lake.spark.conf.getAll if k.startswith("spark.sql.iceberg.snapshot-p")]
    for key in signed:
        lake.spark.conf.unset(key)
    lake.spark.sql(statement.format(table=f"lake.{table}"))
    try:
        yield
    finally:
        assert before is not None
        lake.spark.sql(
            f"CALL lake.system.set_current_snapshot('{table}', {before.snapshot_id})"
        ).collect()


def test_clean_tables_agree(lake: Sandbox, played: list[Change]) -> None:
    """They hold what the reference says, so that agreeing means something."""
    for name in TABLES:
        report = verified(lake, f"db_{name}")
        assert report.agrees, report
        wanted = meaning(played, name)
        assert shown(lake, "db", name) == wanted
        assert report.rows.expected == report.rows.found == len(wanted) > 0
    assert tombstones(verified(lake, "db_keyed")).expected > 0


def test_the_whole_pipeline_at_once(lake: Sandbox, played: list[Change]) -> None:
    found = verify(lake.spark, cutter(lake), None)
    assert {f"{NAMESPACE}.db_{name}" for name in TABLES} <= {t.target for t in found.tables}
    assert found.batches == len(lake.published)
    assert Verification.from_json(found.to_json()) == found


def key_of(lake: Sandbox, table: str) -> int:
    """A key that is there."""
    return min(int(r["id"]) for r in lake.rows(table))


def test_update_by_somebody_else_is_a_difference(lake: Sandbox, played: list[Change]) -> None:
    one = key_of(lake, "db_keyed")
    with tampered(
        lake, "shop.db_keyed", f"UPDATE {{table}} SET text = 'tampered' WHERE id = {one}"
    ):
        report = verified(lake, "db_keyed")
    assert not report.agrees
    assert tombstones(report).agrees
    assert differences_of(report.rows) == {str(one): ("differs", ("text",))}
    assert report.rows.kinds == {"differs": 1}
    (shown_one,) = report.rows.shown
    assert shown_one.found is not None
    assert shown_one.expected is not None
    assert shown_one.found["text"] == "tampered"
    real = {r["id"]: r["text"] for r in lake.rows("db_keyed")}
    assert shown_one.expected["text"] == real[one]
    assert [snapshot.split(" ")[1] for snapshot in report.foreign] == ["(overwrite)"]


def test_a_row_taken_away(lake: Sandbox, played: list[Change]) -> None:
    one = key_of(lake, "db_partial")
    with tampered(lake, "shop.db_partial", f"DELETE FROM {{table}} WHERE id = {one}"):
        report = verified(lake, "db_partial")
    assert differences_of(report.rows) == {str(one): ("missing", ())}
    assert (report.rows.expected, report.rows.found) == (
        len(lake.rows("db_partial")), len(lake.rows("db_partial")) - 1,
    )  # fmt: skip


def test_a_row_put_in_and_a_key_twice(lake: Sandbox, played: list[Change]) -> None:
    one = key_of(lake, "db_keyed")
    twice = (
        "INSERT INTO {table} SELECT * FROM {table} WHERE id = " + str(one) + " UNION ALL "
        "SELECT * EXCEPT (id), 77 AS id FROM {table} WHERE id = " + str(one)
    )
    columns = ", ".join(lake.spark.table("lake.shop.db_keyed").columns)
    twice = twice.replace("SELECT * EXCEPT (id), 77 AS id", f"SELECT {columns}").replace(
        columns, columns.replace("id,", "77 AS id,", 1)
    )
    with tampered(lake, "shop.db_keyed", twice):
        report = verified(lake, "db_keyed")
    assert differences_of(report.rows) == {str(one): ("repeated", ()), "77": ("unexpected", ())}


def test_a_key_before_christ(spark: SparkSession) -> None:
    """Python has no such time."""
    one = spark.sql("SELECT timestamp_micros(-63517780800000000) AS id")
    table, cut = TableId("shop", "times"), Cut((), {}, ())
    found = compared(table, cut, one, one.where("false"), Layout(("id",), ()))
    assert differences_of(found) == {"-0043-03-15 12:00:00": ("missing", ())}


@pytest.mark.long
def test_a_null_that_changed_its_column(lake: Sandbox) -> None:
    """Hash functions pass over a NULL: (NULL, 'x') and ('x', NULL) must not look alike."""
    swap: dict[str, object] = {"id": 1, "text": None, "amount": "1.00", "doc": "x"}
    load(lake, "swapped", [Change("keyed", "c", (1, 1), after=row(swap))])
    statement = "UPDATE {table} SET text = doc, doc = text"
    with tampered(lake, "shop.swapped_keyed", statement):
        report = verified(lake, "swapped_keyed")
    assert {kind: set(columns) for kind, columns in differences_of(report.rows).values()} == {
        "differs": {"text", "doc"}
    }


def test_a_table_without_a_key(lake: Sandbox, played: list[Change]) -> None:
    before = verified(lake, "db_keyless").rows
    victim = lake.rows("db_keyless", metadata=True)[0]["_position"]
    with tampered(lake, "shop.db_keyless", f"DELETE FROM {{table}} WHERE _position = '{victim}'"):
        report = verified(lake, "db_keyless")
    assert (report.rows.expected, report.rows.found) == (before.found, before.found - 1)
    (difference,) = report.rows.shown
    assert (difference.kind, (difference.expected or {})["_position"]) == ("missing", victim)
    with tampered(lake, "shop.db_keyless", "INSERT INTO {table} SELECT * FROM {table} LIMIT 1"):
        report = verified(lake, "db_keyless")
    assert report.rows.kinds == {"repeated": 1}


@pytest.mark.long
def test_tombstones(lake: Sandbox) -> None:
    """One lost, one moved; one for a row that lives."""
    source = KeyedSource("keyed")
    for ident in range(1, 5):
        source.write("c", after={"id": ident, "text": "a", "amount": "1.00", "doc": None})
    for ident in (1, 2, 3):
        source.write("d", before={"id": ident})
    load(lake, "graves", source.log)
    graves = f"{NAMESPACE}__cdc.graves_keyed__tombstones"
    assert verified(lake, "graves_keyed").agrees
    with tampered(lake, graves, "DELETE FROM {table} WHERE id = 2"):
        report = verified(lake, "graves_keyed")
    assert report.rows.agrees
    assert differences_of(tombstones(report)) == {"2": ("missing", ())}
    moved = "UPDATE {table} SET _position = concat('0', _position) WHERE id = 3"
    with tampered(lake, graves, moved):
        report = verified(lake, "graves_keyed")
    assert differences_of(tombstones(report)) == {"3": ("differs", ("_position",))}
    buried = "INSERT INTO {table} SELECT 4, _position, _source_ts, _batch_id FROM {table} LIMIT 1"
    with tampered(lake, graves, buried):
        report = verified(lake, "graves_keyed")
    assert differences_of(tombstones(report)) == {"4": ("unexpected", ())}


@pytest.mark.long
def test_the_tombstone_of_a_truncate(lake: Sandbox) -> None:
    source = KeyedSource("keyed")
    old, new = ({"id": n, "text": "a", "amount": "1.00", "doc": None} for n in (1, 2))
    source.write("c", after=old)
    source.write("d", before=old)
    source.write("t")
    source.write("c", after=new)
    load(lake, "cut", source.log)
    report = verified(lake, "cut_keyed")
    assert report.agrees
    assert (report.rows.expected, tombstones(report).expected) == (1, 1)
    graves = f"{NAMESPACE}__cdc.cut_keyed__tombstones"
    with tampered(lake, graves, "DELETE FROM {table}"):
        assert differences_of(tombstones(verified(lake, "cut_keyed"))) == {"None": ("missing", ())}


def test_columns_and_then_a_target_that_are_gone(lake: Sandbox) -> None:
    """No change has a value in `doc`, as in a column that only a rolled back batch brought."""
    full = row({"id": 1, "text": "a", "amount": "1.00", "doc": None})
    load(lake, "gone", [Change("keyed", "c", (1, 1), after=full)])
    lake.spark.sql("ALTER TABLE lake.shop.gone_keyed DROP COLUMNS (text, doc)")
    assert differences_of(verified(lake, "gone_keyed").rows) == {"1": ("differs", ("text",))}
    lake.spark.sql("DROP TABLE lake.shop.gone_keyed")
    rows = verified(lake, "gone_keyed").rows
    assert (differences_of(rows), rows.snapshot) == ({"1": ("missing", ())}, None)


@pytest.mark.long
def test_two_events_at_one_place(lake: Sandbox) -> None:
    """The same of them stays whether they come in one batch or in two, in either order."""
    halves = [
        [Change("keyed", "u", (1, 1), after=row(A | {"id": n, "text": text})) for n in range(8)]
        for text in ("one", "two")
    ]
    load(lake, "tie1", halves[0] + halves[1])
    load(lake, "tie2", *halves)
    load(lake, "tie3", *reversed(halves))
    assert shown(lake, "tie1", "keyed") == shown(lake, "tie2", "keyed")
    assert shown(lake, "tie2", "keyed") == shown(lake, "tie3", "keyed")
    assert [verified(lake, f"tie{n}_keyed").agrees for n in (1, 2, 3)] == [True] * 3


# --- one rule of the merge broken at a time


def test_a_late_event_that_wins(lake: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def all_apply(folded: DataFrame, *_: Any) -> DataFrame:
        applied = {resolve.STATUS: F.lit(resolve.APPLY), resolve.CONTRADICTS: F.lit(False)}
        return folded.withColumns(applied)

    monkeypatch.setattr(merge, "resolve", all_apply)
    newer = Change("keyed", "u", (1, 2), after=row(B))
    load(lake, "late", [newer], [Change("keyed", "c", (1, 1), after=row(A))])
    report = verified(lake, "late_keyed")
    ((kind, columns),) = differences_of(report.rows).values()
    assert (kind, set(columns)) == ("differs", {"text", "amount", "_position"})


@pytest.mark.long
def test_a_deleted_row_that_comes_back(lake: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is buried, so the late insert of a deleted row is taken for a new one."""
    monkeypatch.setattr(Writer, "write_tombstones", lambda *_: None)
    deleted = Change("keyed", "d", (1, 2), before=row({"id": 1}))
    other = Change("keyed", "c", (1, 3), after=row(A | {"id": 2}))
    load(lake, "back", [deleted, other], [Change("keyed", "c", (1, 1), after=row(A))])
    report = verified(lake, "back_keyed")
    assert differences_of(report.rows) == {"1": ("unexpected", ())}
    assert differences_of(tombstones(report)) == {"1": ("missing", ())}


@pytest.mark.long
def test_a_partial_row_taken_for_a_whole_one(
    lake: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merge, "_with_folded_again", lambda _, applied, *rest: applied)
    whole = Change("partial", "c", (1, 1), after=row(A))
    part = Change("partial", "u", (1, 2), after=row(B), absent=frozenset({"doc"}))
    load(lake, "parts", [whole], [part])
    report = verified(lake, "parts_partial")
    assert differences_of(report.rows) == {"1": ("differs", ("doc",))}
    (difference,) = report.rows.shown
    assert isinstance(difference, Difference)
    assert difference.expected is not None
    assert difference.found is not None
    assert (difference.expected["doc"], difference.found["doc"]) == ("kept", PLACEHOLDER)


@pytest.mark.long
def test_the_wrong_one_of_two_in_a_batch(lake: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_jobs.folding.fold.F.max", F.min)
    first, second = (Change("keyed", op, (1, n), after=row(r)) for op, n, r in
                     (("c", 1, A), ("u", 2, B)))  # fmt: skip
    load(lake, "least", [first, second])
    monkeypatch.undo()
    assert set(differences_of(verified(lake, "least_keyed").rows)) == {"1"}


@pytest.mark.long
def test_a_repeat_counted_again(lake: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(no_key, "_fresh", lambda rows, known: rows)
    one = Change("keyless", "c", (1, 1), after=row({"x": 1, "text": "a"}))
    load(lake, "again", [one], [one])
    report = verified(lake, "again_keyless")
    assert (report.rows.expected, report.rows.found) == (1, 2)
    assert report.rows.kinds == {"repeated": 1}


@pytest.mark.long
def test_a_delete_without_a_key_ignored(lake: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(no_key, "is_delete", lambda: F.lit(False))
    equal = row({"x": 1, "text": "a"})
    made = [Change("keyless", "c", (1, n), after=equal) for n in (1, 2)]
    load(lake, "ignored", made, [Change("keyless", "d", (1, 3), before=equal)])
    monkeypatch.undo()
    report = verified(lake, "ignored_keyless")
    assert report.rows.expected == 1
    assert not report.agrees


# --- what is compared


@pytest.mark.long
def test_rows_below_the_floor_are_not_compared(lake: Sandbox) -> None:
    """The first batch's changes are forgotten: its row 1 stays, 2 goes, `doc` of 3 is unknown."""
    first = [Change("partial", "c", (1, n), after=row(A | {"id": n})) for n in (1, 2, 3, 4)]
    deleted = Change("partial", "d", (1, 6), before=row({"id": 2}))
    part = Change("partial", "u", (1, 9), after=row(B | {"id": 3}), absent=frozenset({"doc"}))
    whole = Change("partial", "u", (1, 12), after=row(B | {"id": 4}))
    load(lake, "floor", first, [deleted, part, whole])
    changes = f"lake.{NAMESPACE}__cdc.floor_partial__changes"
    ids = "SELECT max(_position) FROM " + changes + f" WHERE _batch_id = '{lake.published[-2]}'"
    floor = lake.spark.sql(ids).collect()[0][0]
    lake.spark.sql(f"DELETE FROM {changes} WHERE _batch_id = '{lake.published[-2]}'")
    assert set(differences_of(verified(lake, "floor_partial").rows)) == {"1", "3"}
    lake.spark.sql(
        f"ALTER TABLE lake.shop.floor_partial SET TBLPROPERTIES ('sluice.floor' = '{floor}')"
    )
    report = verified(lake, "floor_partial")
    assert report.agrees
    assert (report.floor, report.rows.found, tombstones(report).found) == (floor, 1, 1)
    with tampered(lake, "shop.floor_partial", "UPDATE {table} SET text = 'x', _position = '0'"):
        tampered_with = differences_of(verified(lake, "floor_partial").rows)
    assert tampered_with == {"4": ("differs", ("text", "_position"))}


@pytest.mark.long
def test_a_batch_that_is_not_published_does_not_count(lake: Sandbox) -> None:
    load(lake, "staged", [Change("keyed", "c", (1, 1), after=row(A))])
    lake.stage(lake.write("staged.jsonl", [event(
        Change("keyed", "u", (1, 2), after=row(B)), "staged")]))  # fmt: skip
    assert verified(lake, "staged_keyed").agrees


def test_a_publication_under_way_is_waited_for(
    lake: Sandbox, played: list[Change], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(lake.catalog).of("p")
    monkeypatch.setattr("spark_jobs.lake.cut.time.sleep", lambda _: None)
    ledger.batches.record("half", states.PUBLISHING)
    try:
        with pytest.raises(TransientError, match="sluice reconcile p"):
            verified(lake, "db_keyed")
    finally:
        ledger.batches.record("half", states.FAILED)


def test_unknown_table_is_refused_with_the_known_ones(lake: Sandbox, played: list[Change]) -> None:
    with pytest.raises(TerminalError, match=r"no table nothing; it has: .*shop\.db_keyed"):
        verified(lake, "nothing")
