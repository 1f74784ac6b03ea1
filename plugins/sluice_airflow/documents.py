"""The documentation of each DAG in Airflow."""

from __future__ import annotations

from typing import Final

from sluice.config.pipeline import Pipeline

OPERATIONS: Final = {
    "rollback": """\
**Undo a batch**, in all of its tables or in none: **Batch** names it, or **To** the last one to
keep.

- **Dry run** first: the log says what would move.
- The batch's files are held, so that no run takes them again. **Load its files again** releases
  them to the next run; `sluice release` does so later.
- **Rebuild** rebuilds every target, or the one in **Table**, from its changelog; name no batch.
- **Failed**: the log says why. If it had begun, run `sluice_reconcile`, which completes it; look at
  `sluice status` before you fill in **To** again, which also undoes what was published since.
""",
    "reprocess": """\
**Decode quarantined records again**, after a fix to the configuration or code: each takes
its right place in order, and is resolved once.

- **Batch** and **Reason** narrow it down; without them, everything unresolved is decoded.
- **Accept late** also applies records beyond the floor, **Accept open** those of transactions
  without an end.
- **Skipped**: nothing is unresolved. **Failed**: some batch is not published, others may be; the
  failed task's log says what to do.
- **Queued**: one run at a time, whatever pipelines they are of; the others wait for it.
""",
    "reconcile": """\
**Complete or undo what a killed run left.** Publications that were recorded are completed, branches
of dead attempts dropped. Safe at any time; every run of a pipeline begins with it.
""",
    "maintain": """\
**Maintain every pipeline's tables**, daily, or some of them by the form: rewrite small files and
deletes, expire snapshots and history by their retention, remove orphans, compact the ledger.

- After **Minutes** no new work begins; the next run goes on from there.
- A load that is running is waited for, within these minutes.
""",
}
"""Documentation by operation, see `sluice.config.fields.OPERATIONS`."""

WRONG: Final = "The configuration of this pipeline is wrong"
UNTIL_MENDED: Final = (
    "No new run of this pipeline begins until its file is mended (sluice validate checks it); then"
    " its own DAG is here again, goes on with the runs it had, and its next run takes all that has"
    " landed meanwhile."
)


def of_pipeline(pipeline: Pipeline) -> str:
    """Return what a pipeline's DAG loads, and what each kind of run takes."""
    by_table = pipeline.each_table_alone
    whole = "each table for itself" if by_table else "all of its tables, or none"
    return f"""\
**{pipeline.name}**: `{pipeline.format}` files of `{pipeline.landing.url}` into Iceberg tables of
`{pipeline.namespace}`, a batch at a time: {whole}.

- **Scheduled**: everything landed before the interval's end that is not loaded yet, late files too.
- **Backfill**, or a window in the form: exactly the files of that window.
- **Manual**: everything landed so far; with a date or an interval of the past, up to its end.
- **Failed**: some batch is not published; the run's others are. The failed task's log says whether
  any table has something of it, and what to do.
- **Undo a published batch**: DAG `sluice_rollback`.
"""


def of_mistake(mistake: str) -> str:
    """Return why a pipeline does not run, for the DAG that replaces its own."""
    return f"**{WRONG}.** {UNTIL_MENDED}\n\n```\n{mistake}\n```"


def short_mistake(mistake: str) -> str:
    """Return the first line of it, for the list of DAGs."""
    return f"{WRONG}: {mistake.partition(chr(10))[0]}"
