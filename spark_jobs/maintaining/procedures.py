"""Iceberg's procedures on one table, and queries for whether they are due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pyspark.sql import Row, SparkSession

from sluice import names
from sluice.config.maintenance import Maintenance
from sluice.counting import counted
from spark_jobs.lake.table_id import TableId
from spark_jobs.quoting import literal, quoted

# Iceberg's own threshold: three quarters of the target size of a file.
SMALL_FILE_BYTES: Final = 384 << 20
SMALL_MANIFEST_BYTES: Final = 4 << 20
MANIFESTS: Final = 16
_POSITION_DELETES: Final = 1  # a file's content; 2: equality deletes
_FILE_PATH: Final = 2147483546  # field id of `file_path` in position-delete files


@dataclass(frozen=True)
class RewriteNeed:
    """The number of partitions of a table that have too many small files, and of those that have
    too many deleted rows."""

    crowded: int
    hidden: int


def rewrite_need(spark: SparkSession, table: TableId, rules: Maintenance) -> RewriteNeed:
    """Count the partitions with many small files, and those with many deleted rows."""
    row = _one(
        spark,
        f"SELECT count_if(file_count >= {rules.small_files} AND"
        f" total_data_file_size_in_bytes < file_count * {SMALL_FILE_BYTES}L) AS crowded,"
        " count_if(position_delete_record_count > 0 AND"
        f" position_delete_record_count >= {rules.delete_share} * record_count) AS hidden"
        f" FROM {_metadata(table, 'partitions')}",
    )
    return RewriteNeed(row["crowded"], row["hidden"])


def rewrite_data(spark: SparkSession, table: TableId, rules: Maintenance) -> str:
    """Compact small data files, and rewrite those with many deleted rows."""
    options = {
        "min-input-files": str(rules.small_files),
        "delete-ratio-threshold": str(rules.delete_share),
        "remove-dangling-deletes": "true",
        # Groups that are committed stay done if time is up or the driver dies.
        "partial-progress.enabled": "true",
        "partial-progress.max-commits": "10",
    }
    done = _call(spark, "rewrite_data_files", table, f"options => {_map(options)}")
    return f"{done['rewritten_data_files_count']} → {done['added_data_files_count']} data files"


def spare_deletes(spark: SparkSession, table: TableId) -> int:
    """Count the position-delete files that a rewrite may save: all but one per data file.

    A delete file for one data file has equal bounds of `file_path`.
    """
    first, last = (f"{side}_bounds[{_FILE_PATH}]" for side in ("lower", "upper"))
    row = _one(
        spark,
        f"SELECT count(*) - count(DISTINCT CASE WHEN {first} = {last} THEN {first} END) AS spare"
        f" FROM {_metadata(table, 'delete_files')} WHERE content = {_POSITION_DELETES}",
    )
    return int(row["spare"])


def rewrite_deletes(spark: SparkSession, table: TableId, rules: Maintenance) -> str:
    """Compact position-delete files, and remove those of data files that no longer exist."""
    options = {"min-input-files": str(rules.small_files)}
    done = _call(spark, "rewrite_position_delete_files", table, f"options => {_map(options)}")
    before, after = done["rewritten_delete_files_count"], done["added_delete_files_count"]
    return f"{before} → {after} delete files" if before else ""


def small_manifests(spark: SparkSession, table: TableId) -> int:
    """Count the manifests that are worth merging."""
    row = _one(
        spark,
        f"SELECT count_if(length < {SMALL_MANIFEST_BYTES}) AS small"
        f" FROM {_metadata(table, 'manifests')}",
    )
    return int(row["small"])


def rewrite_manifests(spark: SparkSession, table: TableId) -> str:
    """Merge manifests by partition."""
    done = _call(spark, "rewrite_manifests", table, "use_caching => false")
    return f"{done['rewritten_manifests_count']} → {done['added_manifests_count']} manifests"


def expire_snapshots(spark: SparkSession, table: TableId, snapshots: Sequence[int]) -> str:
    """Expire exactly these snapshots, and delete the files that only they refer to.

    By age alone the procedure would expire snapshots that a rollback needs. So it gets the list,
    and a time before every snapshot.
    """
    ids = ", ".join(f"{int(snapshot)}L" for snapshot in snapshots)
    done = _call(
        spark,
        "expire_snapshots",
        table,
        "older_than => TIMESTAMP '1970-01-02 00:00:00'",
        "retain_last => 1",
        "stream_results => true",
        f"snapshot_ids => ARRAY({ids})",
    )
    files = counted(sum(done.asDict().values()), "file")
    return f"{counted(len(snapshots), 'snapshot')}, {files}"


def remove_orphans(spark: SparkSession, table: TableId, before: datetime, dry_run: bool) -> int:
    """Delete files in the table's folder that no snapshot refers to; returns how many."""
    moment = literal(f"{before:%Y-%m-%d %H:%M:%S}")
    orphans = _rows(
        spark,
        "remove_orphan_files",
        table,
        f"older_than => TIMESTAMP {moment}",
        f"dry_run => {str(dry_run).lower()}",
    )
    return len(orphans)


def _call(spark: SparkSession, procedure: str, table: TableId, *arguments: str) -> Row:
    return _rows(spark, procedure, table, *arguments)[0]


def _rows(spark: SparkSession, procedure: str, table: TableId, *arguments: str) -> list[Row]:
    name = literal(f"{quoted(table.namespace)}.{quoted(table.name)}")
    given = ", ".join((f"table => {name}", *arguments))
    return spark.sql(f"CALL {quoted(names.CATALOG)}.system.{procedure}({given})").collect()


def _one(spark: SparkSession, statement: str) -> Row:
    return spark.sql(statement).collect()[0]


def _metadata(table: TableId, kind: str) -> str:
    return f"{table.sql()}.{kind}"


def _map(options: dict[str, str]) -> str:
    pairs = (literal(text) for pair in options.items() for text in pair)
    return f"map({', '.join(pairs)})"
