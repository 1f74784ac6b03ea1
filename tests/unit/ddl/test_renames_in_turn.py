"""Two columns of the source that are one by now: which of them counts in a row that had both."""

from __future__ import annotations

from sluice.column_renames import Rename, Renames
from spark_jobs.planning.rename_clashes import clash
from spark_jobs.planning.renames import _Into, moves_of_rows
from spark_jobs.planning.stretches import stretches_of

COLUMNS = dict.fromkeys(("a", "a__dropped", "d"), "string")


def of_changes(renames: Renames, column: str) -> str:
    """What changes below the first rename, wherever they rank, may hold of a column."""
    return _Into(column).value(stretches_of(renames, COLUMNS)[0].of(column), COLUMNS)


def test_column_that_was_given_the_name_last_counts() -> None:
    """Among changes, and among rows that were stored before one of the renames was told.

    `a` was dropped, another `a` dropped, which was called `d` first, and a third one added.
    """
    dropped = tuple(Rename(f"0000.2.02{at}", (("a", "a__dropped"),)) for at in (10, 14))
    all_renames = tuple(sorted((*dropped, Rename("0000.2.0212", (("d", "a"),)))))
    assert of_changes(all_renames, "a__dropped") == "coalesce(`d`, `a`, `a__dropped`)"
    assert clash(dropped, all_renames, COLUMNS, {}, ()) is None
    moved = moves_of_rows(dropped, all_renames, COLUMNS, "", (), ())["a__dropped"]
    assert "< '0000.2.0210' THEN coalesce(`d`, `a__dropped`) WHEN" in moved


def test_column_that_got_its_name_back_counts_before_the_one_with_the_other_name() -> None:
    """Of a full load, whose rows rank below both renames, whenever it was made: told of the first
    alone, it is the column that it is told of both."""
    there, back = Rename("0000.2.0202", (("a", "d"),)), Rename("0000.2.0204", (("d", "a"),))
    assert "ELSE coalesce(`a`, `d`)" in of_changes((there,), "d")
    assert "ELSE coalesce(`a`, `d`)" in of_changes((there, back), "a")
