"""DataHub Tuple: rows with columns about the change; an update is two records."""

from __future__ import annotations

from functools import partial

from tests.reference import Change
from tests.spark.dialects.base import MILLIS, Dialect, Row, images
from tests.spark.dialects.tables import CONTAINERS, TableRow

BEFORE, AFTER = ("Y", "N"), ("N", "Y")


def tell(change: Change, database: str, sent: int) -> list[Row]:
    """One record a change, two where the source knows the old row of an update."""
    before, after = images(change)
    letter = {"r": "I", "c": "I", "u": "U", "d": "D"}[change.op]
    halves = [(BEFORE, before), (AFTER, after)]
    return [_record(change, database, letter, flags, row) for flags, row in halves if row]


def _record(change: Change, database: str, letter: str, flags: tuple[str, str], row: Row) -> Row:
    return {
        "_sequence_id_": "-1" if change.op == "r" else str(10**18 + change.place[1]),
        "_operation_type_": letter, "_execute_time_": MILLIS + change.place[1],
        "_source_table_": f"{database}_{change.table}",
        "_before_image_": flags[0], "_after_image_": flags[1], **row,
    }  # fmt: skip


DIALECT = Dialect(
    "datahub_tuple", "datahub_tuple", tell, truncates=False,
    source_table="{database}_{table}", table_name="{table}",
)  # fmt: skip


def tell_rows(change: Change, database: str, sent: int) -> list[TableRow]:
    """The same as rows of files, each of one topic and so of one table."""
    return [TableRow(change.table, record) for record in tell(change, database, sent)]


def file_of(row: TableRow, at: int, container: str) -> str:
    """Its name tells nothing of the table."""
    return f"{row.table}-{at:03}.{container}"


FILES = tuple(
    Dialect(
        f"datahub_tuple in {container}", "datahub_tuple", tell_rows, truncates=False,
        source_table="{database}_{table}", table_name="{table}", content=content,
        file=partial(file_of, container=container),
    )
    for container, content in CONTAINERS.items()
)  # fmt: skip
