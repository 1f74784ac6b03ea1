"""`on_open_transaction: hold`: events wait in quarantine until their transaction's end has landed.

`sluice.transactions` lists the ends in published batches, since an end may land first. If an end
lands after events that wait, its batch also decodes the files of those again
(`sluice.operations.open_transactions`), so that a transaction is published as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.errors import PlanError
from sluice.ledger.appends import LedgerTables
from sluice.ledger.tables import TRANSACTIONS
from sluice.names import LEDGER_NAMESPACE
from sluice.operations.open_transactions import REASON, HoldingBack
from sluice.positions import epoch_prefix
from spark_jobs.canonical import (
    OP_DDL,
    OP_DELETE,
    OUTCOME_EVENT,
    OUTCOME_REJECT,
    SOURCE_PARTS,
    UPDATES,
    record_text,
)
from spark_jobs.expressions import changed_where
from spark_jobs.job import Job
from spark_jobs.lake.table_id import TableId
from spark_jobs.materialize import materialize
from spark_jobs.row_conditions import of_batches

TRANSACTION: Final = "transaction"
_ENDS: Final = "ends"
TABLE: Final = TableId(LEDGER_NAMESPACE, TRANSACTIONS)
_OPEN: Final = "_sluice_open"


def holds(job: Job) -> bool:
    """Whether events of open transactions have to wait; False if an operator accepts them."""
    return job.pipeline.holds_transactions and not job.manifest.accepts_open


def hold_back(job: Job, envelope: DataFrame) -> DataFrame | None:
    """Return the envelope with events of open transactions as rejects, and the transaction in
    `detail`; None if there are none.

    Raises PlanError if changes lack a transaction id.
    """
    _refuse_without_id(job, envelope)
    ended = _ended(job, envelope)
    open_ones = materialize(_of_changes(envelope).join(ended, TRANSACTION, "left_anti"))
    if open_ones.isEmpty():
        return None
    if "detail" not in envelope.columns:
        envelope = envelope.withColumn("detail", F.lit(""))
    marked = envelope.join(open_ones.withColumn(_OPEN, F.lit(True)), TRANSACTION, "left")
    waits = _is_change() & F.col(_OPEN).isNotNull()
    rejected = {
        "outcome": F.lit(OUTCOME_REJECT),
        "reason": F.lit(REASON),
        "detail": F.col(TRANSACTION),
        "raw": F.coalesce("raw", record_text()),
    }
    return marked.withColumns(changed_where(waits, rejected)).drop(_OPEN)


def count_held(job: Job, envelope: DataFrame) -> int:
    """Return the number of records that wait; these do not count as bad records."""
    if not holds(job):
        return 0
    return envelope.where(
        (F.col("outcome") == OUTCOME_REJECT) & (F.col("reason") == REASON)
    ).count()


def record_transactions(job: Job, envelope: DataFrame) -> None:
    """Record the transactions that the batch ends, and those of its changes that other batches
    ended.

    The second kind keeps an end on which the batch depends when the other batch is undone. The rows
    replace those of an earlier attempt. Ids are prefixed by the epoch, since they are only unique
    within one.
    """
    if not job.pipeline.holds_transactions:
        return
    LedgerTables(job.lake.catalog).open(TRANSACTIONS)
    batch = job.manifest.batch_id
    columns = [F.lit(job.pipeline.name).alias("pipeline"), F.lit(batch).alias("batch_id")]
    leant_on = _of_changes(envelope).join(_ended(job, envelope), TRANSACTION, "left_semi")
    known_as = F.concat(F.lit(_of_epoch(job)), TRANSACTION).alias(TRANSACTION)
    rows = _ends(envelope).unionByName(leant_on).distinct().select(*columns, known_as)
    rows.writeTo(TABLE.sql()).overwrite(F.col("batch_id") == batch)


def ended_among(
    job: Job, envelope: Callable[[], DataFrame], holding: Sequence[HoldingBack]
) -> list[HoldingBack]:
    """Return the batches with a waiting transaction that has ended.

    If any wait, this reads the batch's files once more than a load does.
    """
    waiting = sorted({transaction for one in holding for transaction in one.transactions})
    if not waiting:
        return []
    rows = job.spark.createDataFrame([(one,) for one in waiting], f"{TRANSACTION} string")
    found = rows.join(_ended(job, envelope()), TRANSACTION, "left_semi").collect()
    ended = {row[TRANSACTION] for row in found}
    return [one for one in holding if ended.intersection(one.transactions)]


def _is_change() -> Column:
    return (F.col("outcome") == OUTCOME_EVENT) & (F.col("op") != OP_DDL)


def _ended(job: Job, envelope: DataFrame) -> DataFrame:
    """Return the transactions that end in this batch or in a published one of its epoch."""
    ends = _ends(envelope)
    if job.lake.load(TABLE) is None:
        return ends
    prefix = _of_epoch(job)
    mine = (F.col("pipeline") == job.pipeline.name) & F.col(TRANSACTION).startswith(prefix)
    known = job.spark.table(TABLE.sql()).where(mine & of_batches(job.attempt.published, "batch_id"))
    ids = F.substr(TRANSACTION, F.lit(len(prefix) + 1)).alias(TRANSACTION)
    return ends.unionByName(known.select(ids)).distinct()


def _of_epoch(job: Job) -> str:
    return f"{epoch_prefix(job.pipeline.epoch)}."


def _of_changes(envelope: DataFrame) -> DataFrame:
    changes = envelope.where(_is_change() & (F.col(TRANSACTION) != ""))
    return changes.select(TRANSACTION).distinct()


def _ends(envelope: DataFrame) -> DataFrame:
    ends = envelope.where(F.col(_ENDS) & F.col(TRANSACTION).isNotNull())
    return ends.select(TRANSACTION).distinct()


def _refuse_without_id(job: Job, envelope: DataFrame) -> None:
    """Raise PlanError for an update or delete without a transaction id; full loads have none."""
    changes = F.col("op").isin(*UPDATES, OP_DELETE)
    unknown = envelope.where(_is_change() & changes & F.col(TRANSACTION).isNull())
    first = unknown.select(*SOURCE_PARTS).first()
    if first is not None:
        table = ".".join(part for part in first if part)
        raise PlanError(
            f"table {table}: it has changes without a transaction id, and pipeline "
            f"{job.pipeline.name} holds back events of open ones. Let the source send it ("
            "Debezium: provide.transaction.metadata), or set `on_open_transaction: apply`"
        )
