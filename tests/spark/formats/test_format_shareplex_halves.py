"""SharePlex updates in two records, however they are numbered and wherever a batch ends."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

from sluice.config.format_options import FormatOptions
from sluice.ledger import states
from sluice.ledger.ledger import Ledger
from spark_jobs.canonical import ALL_BUT
from spark_jobs.formats.shareplex import SharePlex
from spark_jobs.lake.cut import Cutter
from spark_jobs.verifying.changelogs import verify
from tests.spark.envelopes import by_name, jsonl
from tests.spark.sandbox import NAMESPACE, Sandbox

DEFAULTS = FormatOptions()
pytestmark = [pytest.mark.spark, pytest.mark.formats]
OLD, NEW = "upd before", "upd after"


def change(scn: int, op: str, data: Any, seq: Any = 1, /, table: str = "ROWS", **meta: Any) -> Any:
    header = {
        "op": op, "table": f"O.{table}", "time": "2017-06-16T14:24:34", "scn": str(scn),
        "trans": "7.0.4", "seq": seq, "idx": f"{seq}/9", **meta,
    }  # fmt: skip
    header = {name: value for name, value in header.items() if value is not ...}
    return {"meta": header, "data": data}


def row(number: int, **more: Any) -> dict[str, Any]:
    return {"ID": str(number), "A": f"a{number}", "B": f"b{number}", **more}


HISTORY = [
    # one number for both
    change(1, "ins", row(1)), change(2, OLD, row(1)), change(2, NEW, {"ID": "1", "A": "z"}),
    # a number each, and another update of the row in the same transaction
    change(3, "ins", row(2)), change(4, OLD, row(2)),
    change(4, NEW, {"ID": "2", "A": "y"}, 2), change(4, OLD, {"ID": "2"}, 3),
    change(4, NEW, {"ID": "2", "A": "z"}, 4),
    # one `seq`, but a number each in `idx`
    change(5, "ins", row(3)), change(6, OLD, row(3), idx="1/2"),
    change(6, NEW, {"ID": "3", "A": "z"}, idx="2/2"),
    # `idx` alone
    change(7, "ins", row(4)), change(8, OLD, row(4), ..., idx="1/2"),
    change(8, NEW, {"ID": "4", "A": "z"}, ..., idx="2/2"),
    # deleted, then inserted with less: a delete is no old half
    change(9, "ins", row(5)), change(10, "del", row(5), 1), change(10, "ins", {"ID": "5"}, 2),
    # another key: what it leaves out is what the row had under the old one
    change(11, "ins", row(6)), change(12, OLD, {"ID": "6"}, 1), change(12, NEW, {"ID": "7"}, 2),
    # a swap, one number for both halves of each update, the next number for the next update
    change(13, "ins", row(8), 1), change(13, "ins", row(9), 2),
    change(14, OLD, row(8), 1), change(14, NEW, {"ID": "0"}, 1),
    change(14, OLD, row(9), 2), change(14, NEW, {"ID": "8"}, 2),
    change(14, OLD, row(8, ID="0"), 3), change(14, NEW, {"ID": "9"}, 3),
]  # fmt: skip
ROWS = [
    ("1", "z", "b1"), ("2", "z", "b2"), ("3", "z", "b3"), ("4", "z", "b4"), ("5", None, None),
    ("7", "a6", "b6"), ("8", "a9", "b9"), ("9", "a8", "b8"),
]  # fmt: skip
CUTS = {
    "whole": [HISTORY],
    "turned": [HISTORY[::-1]],
    "cut_in_pairs": [HISTORY[:5], HISTORY[4:10], HISTORY[10:]],
    "halves_apart": [
        [r for r in HISTORY if r["meta"]["op"] != OLD],
        [r for r in HISTORY if r["meta"]["op"] == OLD],
    ],
    "new_halves_last": [
        [r for r in HISTORY if r["meta"]["op"] != NEW],
        [r for r in HISTORY if r["meta"]["op"] == NEW],
    ],
}


def loaded(spark: SparkSession, folder: Path, batches: Iterable[list[Any]], **more: Any) -> Sandbox:
    tables = {"O.ROWS": {"key": ["ID"], **more}, "O.LOG": {"key": []}}
    sandbox = Sandbox(spark, folder, {"format": "shareplex", "tables": tables})
    for number, batch in enumerate(batches):
        sandbox.write(f"{number}.jsonl", batch)
        sandbox.load_landed()
    return sandbox


def refuse_difference(sandbox: Sandbox) -> None:
    """The target is what its changelog makes by the other way, that of `sluice verify`."""
    ledger = Ledger(sandbox.catalog).of("p")
    for batch_id in sandbox.published:
        ledger.batches.record(batch_id, states.PUBLISHED)
    found = verify(sandbox.spark, Cutter(sandbox.catalog, ledger, NAMESPACE), None)
    assert [table.agrees for table in found.tables] == [True], found


@pytest.mark.parametrize("cut", CUTS)
def test_columns_that_a_new_half_lacks_keep_their_values(
    spark: SparkSession, tmp_path: Path, cut: str
) -> None:
    sandbox = loaded(spark, tmp_path, CUTS[cut])
    assert sorted((r["ID"], r["A"], r["B"]) for r in sandbox.rows("ROWS")) == ROWS
    assert sandbox.quarantined() == []
    refuse_difference(sandbox)


def test_halves_in_a_history(spark: SparkSession, tmp_path: Path) -> None:
    """Two numbers are no end of a version, and no other version either."""
    sandbox = loaded(spark, tmp_path, CUTS["cut_in_pairs"], modes=["current", "history"])
    versions = [
        (r["A"], r["B"]) for r in sandbox.rows("ROWS__history", True) if r["ID"] in ("2", "3")
    ]
    assert sorted(versions) == [("a2", "b2"), ("a3", "b3"), ("y", "b2"), ("z", "b2"), ("z", "b3")]
    refuse_difference(sandbox)


MOVES = [
    change(1, "ins", row(1)), change(2, OLD, row(1, N=None), 1), change(2, NEW, {"ID": "2"}, 2),
    change(3, "ins", row(3)), change(4, OLD, row(3)), change(4, NEW, {"A": "z"}),
    change(5, "ins", {"M": "same"}, table="LOG"), change(6, OLD, {"M": "same"}, table="LOG"),
    change(6, NEW, {"M": "other"}, table="LOG"),
]  # fmt: skip


@pytest.mark.parametrize("turned", [False, True])
def test_a_row_that_moves_takes_its_old_half_along(
    spark: SparkSession, tmp_path: Path, turned: bool
) -> None:
    """Columns that a new half does not carry are its old half's, the key among them."""
    sandbox = loaded(spark, tmp_path, [[*MOVES[::-1], MOVES[0]] if turned else MOVES])
    found = sorted((r["ID"], r["A"], r["B"]) for r in sandbox.rows("ROWS"))
    assert found == [("2", "a1", "b1"), ("3", "z", "b3")]
    assert [r["M"] for r in sandbox.rows("LOG")] == ["other"]
    assert sandbox.quarantined() == []


def test_a_new_half_that_comes_again_with_its_old_one_is_one_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of a table without a key, though only then it has what it leaves out."""
    old, new = {"M": "same", "N": "n"}, {"M": "other"}
    alone = [change(2, NEW, new, table="LOG")]
    pair = [change(2, OLD, old, table="LOG"), *alone]
    sandbox = loaded(spark, tmp_path, [alone, [change(1, "ins", old, table="LOG"), *pair]])
    assert [r["M"] for r in sandbox.rows("LOG")] == ["other"]


def test_halves_are_joined_where_no_batch_had_any_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Behind more lines than are looked at before a known table's batch is read.

    The first batch has all shapes of the second one: a new half without its old one, for which
    it is quarantined, and a row that tells some columns alone.
    """
    first = [change(scn, "ins", row(scn)) for scn in range(1, 4)]
    alone = [change(4, NEW, {"A": "alone"}), change(5, "upd", {"ID": "1", "A": "y"})]
    others = [change(scn, "ins", row(scn)) for scn in range(6, 126)]
    pair = [change(200, OLD, row(3)), change(200, NEW, {"A": "z"})]
    sandbox = loaded(spark, tmp_path, [[*first, *alone], [*others, *pair]])
    found = {r["ID"]: (r["A"], r["B"]) for r in sandbox.rows("ROWS")}
    assert (len(found), found["1"], found["3"]) == (123, ("y", "b1"), ("z", "b3"))
    assert len(sandbox.quarantined()) == 1


NEIGHBOURS = {
    "alone": change(1, NEW, {"ID": "1"}, 2),
    "others_old": change(2, OLD, row(8), 1), "others_new": change(2, NEW, row(9), 1),
    "after_another": change(2, NEW, {"ID": "1"}, 2),
    "old": change(3, OLD, row(8), 1), "old_again": change(3, OLD, row(8), 1, posttime="x"),
    "new": change(3, NEW, {"ID": "1"}, 2), "new_again": change(3, NEW, {"ID": "1"}, 2, size=3),
    "too_far": change(3, NEW, {"ID": "1"}, 5),
    "other_table": change(3, NEW, {"ID": "1"}, 2, "LOG"),
    "other_transaction": change(3, NEW, {"ID": "1"}, 2, trans="7.0.5"),
    "row_a": change(5, OLD, row(8), 1, rowid="A"),
    "other_row": change(5, NEW, {"ID": "1"}, 2, rowid="B"),
    "own_row": change(5, NEW, {"ID": "1"}, 2, rowid="A "),
    "lost_old": change(6, OLD, row(8), 1), "lost_new": change(6, NEW, {"ID": "1"}, 3),
    "old_by_key": change(7, OLD, None) | {"key": row(8)}, "new_by_key": change(7, NEW, {"ID": "1"}),
    "old_by_both": change(8, OLD, {"ID": "8", "A": "a8"}) | {"key": {"A": None, "B": "b8"}},
    "new_by_both": change(8, NEW, {"ID": "1"}),
    "old_of_nothing": change(9, OLD, {}) | {"key": row(8)},
    "new_of_nothing": change(9, NEW, {"ID": "1"}),
    "old_of_another": change(10, OLD, row(8)),
    "own_key": change(10, NEW, {"A": "z"}) | {"key": {"ID": "5"}},
    "many_digits": change(11, NEW, {"ID": "1"}, "9" + "0" * 18),
    "in_turn": change(12, NEW, {"ID": "1", "A": "z"}),
    "turned": change(12, NEW, {"A": "z", "ID": "1"}),
    "no_scn_old": change(4, OLD, row(8), scn=...), "no_scn": change(4, NEW, {"ID": "1"}, scn=...),
}  # fmt: skip


@pytest.fixture(scope="module")
def halves(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    folder = tmp_path_factory.mktemp("halves")
    file = jsonl(folder / "all.jsonl", [json.dumps(r) for r in NEIGHBOURS.values()])
    names = list(NEIGHBOURS)
    rows = SharePlex().read(spark, (file,), DEFAULTS).collect()
    return by_name(rows, lambda found: names[found["ordinal"]])


@pytest.mark.parametrize(
    "name", ["new", "new_again", "own_row", "new_by_key", "new_by_both", "new_of_nothing"]
)
def test_a_new_half_knows_the_row_of_its_old_half(halves: dict[str, Row], name: str) -> None:
    assert halves[name]["after"] == row(8) | {"ID": "1"}
    assert halves[name]["absent"][0] == ALL_BUT
    assert set(halves[name]["absent"][1:]) == {"ID", "A", "B"}
    assert halves[name]["before"] is None


@pytest.mark.parametrize(
    "name",
    ["alone", "after_another", "lost_new", "too_far", "many_digits", "no_scn"]
    + [f"other_{what}" for what in ("table", "transaction", "row")],
)
def test_a_new_half_takes_no_other_row(halves: dict[str, Row], name: str) -> None:
    assert (halves[name]["after"], halves[name]["before"]) == ({"ID": "1"}, None)
    assert halves[name]["absent"] == [ALL_BUT, "ID"]


def test_a_new_half_with_a_key_of_its_own_needs_no_old_half(halves: dict[str, Row]) -> None:
    own = halves["own_key"]
    assert (own["op"], own["before"], own["after"]) == (
        "update", {"ID": "5"}, {"ID": "5", "A": "z"})  # fmt: skip


def test_a_new_half_is_the_same_in_any_order_of_its_columns(halves: dict[str, Row]) -> None:
    assert halves["in_turn"]["event_id"] == halves["turned"]["event_id"] is not None


def test_halves_in_capitals_are_joined(spark: SparkSession, tmp_path: Path) -> None:
    pair = [change(1, OLD.upper(), row(8)), change(1, NEW.upper(), {"A": "z"})]
    file = jsonl(tmp_path / "all.jsonl", map(json.dumps, pair))
    rows = SharePlex().read(spark, (file,), DEFAULTS).collect()
    assert [r["after"] for r in rows] == [None, row(8, A="z")]


def test_a_truncate_without_a_number_empties_the_table(spark: SparkSession, tmp_path: Path) -> None:
    """It is in the order by its scn, above what was before."""
    empty = {"meta": {"op": "truncate", "table": "O.ROWS", "scn": "2", "trans": "7.0.4"}}
    history = [change(1, "ins", row(1)), empty, change(3, "ins", row(2))]
    assert [r["ID"] for r in loaded(spark, tmp_path, [history]).rows("ROWS")] == ["2"]


def test_a_new_half_with_an_empty_key_takes_its_row_from_the_old_half(
    spark: SparkSession, tmp_path: Path
) -> None:
    new = change(2, NEW, {"A": "z"}) | {"key": {}}
    sandbox = loaded(spark, tmp_path, [[change(1, "ins", row(1)), change(2, OLD, row(1)), new]])
    assert sandbox.rows("ROWS") == [row(1, A="z")]
    assert sandbox.quarantined() == []
