"""The driver of one attempt: manifest → decode → fold → merge → audit → result.

The result is stored beside the manifest; the ledger records the attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from sluice.catalog.client import open_catalog
from sluice.catalog.listing import pipeline_tables
from sluice.catalog.snapshots import drop_branches
from sluice.config.project import Project
from sluice.errors import SluiceError, TerminalError
from sluice.faults import Point, reach
from sluice.ledger import states
from sluice.ledger.changelogs import forget_changes
from sluice.ledger.details import failed
from sluice.ledger.leases import ANY_PUBLISHER
from sluice.ledger.ledger import Ledger
from sluice.ledger.rows import BatchRow, seq_of
from sluice.manifest import Manifest
from sluice.names import branch_name
from sluice.objects.batch_files import BatchFiles
from sluice.objects.originals import refuse_replaced
from sluice.operations.context import Context
from sluice.operations.holding import is_at_work
from sluice.operations.lake_mark import own_ledger
from sluice.operations.obsolete import why_obsolete
from sluice.operations.open_transactions import holding_back, with_completed
from sluice.operations.valid_publications import publications
from sluice.result import BatchResult
from spark_jobs.attempt import Attempt
from spark_jobs.attempt_lease import AttemptLease
from spark_jobs.decoding import transactions
from spark_jobs.decoding.staged_files import is_of_a_file, with_staged_files, without_damage
from spark_jobs.decoding.table_isolation import can_leave_out, report_left_out
from spark_jobs.decoding.whole_envelope import whole_envelope
from spark_jobs.driver_messages import collecting, emit
from spark_jobs.failures import typed
from spark_jobs.job import Job, pipeline_for
from spark_jobs.lake.tables import Lake
from spark_jobs.merging.load import load
from spark_jobs.merging.rebuild import rebuild
from spark_jobs.session import sign_snapshots

_BY_DRIVERS: Final = (states.LANDED, states.LOADING)
"""The states of a batch that a driver may have."""


class Driver:
    """One attempt at a batch: its claim on the batch, and the work.

    `session` returns the session of Spark, which is starting meanwhile; it blocks until there is
    one.
    """

    def __init__(
        self,
        project: Project,
        manifest: Manifest,
        session: Callable[[], SparkSession],
        publisher: str = "",
    ) -> None:
        self.project = project
        self.manifest = manifest
        self.session = session
        self.pipeline = pipeline_for(project, manifest)
        self.catalog = open_catalog(project)
        self.ledger = Ledger(self.catalog).of(self.pipeline.name)
        self.files = BatchFiles(project)
        seconds = self.pipeline.lease_seconds
        self.lease = AttemptLease(
            self.ledger, manifest.batch_id, publisher or ANY_PUBLISHER, seconds
        )
        self.lake: Lake | None = None
        self._left_out: dict[str, str] = {}
        self._published: set[str] = set()

    def run(self) -> BatchResult:
        """Load, write the result, then record success or failure in the ledger."""
        own_ledger(self.project, self.catalog)
        row = self.lease.row()
        try:
            self.lease.begin(row)
            reach(Point.LOAD_BEGUN)
            with self.lease.renewing(self._stop_work), collecting() as emitted:
                refuse_replaced(self.pipeline, self.manifest)
                result = self._work(bool(self.lease.predecessor))
            result = replace(result, notes=tuple(dict.fromkeys((*result.notes, *emitted))))
            # Checked before and after: an object that did not change in between was read as
            # inspected.
            refuse_replaced(self.pipeline, self.manifest)
            # Recorded after the last renewal: a later one would make this process the holder again.
            self.files.write_result(result)
            reach(Point.LOAD_RESULT)
            self.lease.record_loaded()
            reach(Point.LOAD_RECORDED)
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            self._forget_scratch()
        return result

    def _forget_scratch(self) -> None:
        """Remove scratch files; a failure is no error, since maintenance removes what is left."""
        try:
            self.files.delete_scratch(
                self.manifest.pipeline, self.manifest.batch_id, self.lease.attempt
            )
        except (SluiceError, OSError) as error:
            emit(f"scratch of attempt {self.lease.attempt} is left to maintenance: {error}")

    def _work(self, retried: bool) -> BatchResult:
        """Load; leave out tables that cannot be loaded if the pipeline allows that."""
        if self.manifest.rebuild is not None:
            return rebuild(self._job(), self.manifest.rebuild, self._take_lease)
        while True:
            try:
                return self._load(retried)
            except TerminalError as error:
                if not can_leave_out(self.pipeline, error, self._left_out):
                    raise
                report_left_out(error)
                self._left_out |= error.tables
            self._restore_schemas()
            self._drop_branches()
            retried = True

    def _load(self, retried: bool) -> BatchResult:
        self.session()  # files looked up before Spark is ready may be gone when it reads
        self.manifest = with_staged_files(self._context(), self.manifest, self._own_staged())
        try:
            return load(self._ready_job(), self._take_lease, retried)
        except Exception as error:
            if not is_of_a_file(error):
                raise
            mended = without_damage(self._context(), self.manifest, self._own_staged())
            if mended is None:
                raise
            self.manifest = mended
        return load(self._ready_job(), self._take_lease, True)

    def _ready_job(self) -> Job:
        """Return the job. If the pipeline holds transactions back, it also gets the parts in other
        batches of transactions that end here.

        The lease is taken before, so that no other batch adds to these.
        """
        job = self._job()
        if not transactions.holds(job) or self.manifest.repeats:
            return job
        job = job.counting(self._take_lease())
        ctx = self._context()
        ended = transactions.ended_among(job, lambda: whole_envelope(job), holding_back(ctx))
        return replace(job, manifest=with_completed(ctx, self.manifest, ended))

    def _own_staged(self) -> str:
        """Return the prefix of this attempt's staged files."""
        scratch = self.files.scratch_key(
            self.pipeline.name, self.manifest.batch_id, self.lease.attempt
        )
        return f"{scratch}-copies/"

    def _job(self) -> Job:
        spark = self.session()
        batch_id, own = self.manifest.batch_id, self.lease.attempt
        sign_snapshots(spark, self.pipeline.name, batch_id, own)
        attempt = Attempt(batch_id, own, branch_name(batch_id, own))
        self._published = self.ledger.batches.published()
        self.lake = Lake(spark, self.catalog, self.pipeline.name, self._is_beside_others)
        scratch = self.files.scratch_url(self.pipeline.name, batch_id, own)
        return Job(
            spark=spark,
            lake=self.lake,
            pipeline=self.pipeline,
            manifest=self.manifest,
            attempt=attempt,
            scratch=scratch,
            left_out=self._left_out,
            require_current=self.lease.require_current,
        )

    def _take_lease(self) -> tuple[str, ...]:
        return self.lease.take_lease(
            self._is_half_published, self.manifest.undone, self._refuse_obsolete
        )

    def _is_half_published(self) -> bool:
        return bool(publications(self._context(), self.manifest.batch_id))

    def _refuse_obsolete(self) -> None:
        """Refuse a batch that depends on one that was undone since it landed; called
        under the lease."""
        if why := why_obsolete(self._context(), self.manifest):
            raise TerminalError(
                f"batch {self.manifest.batch_id} of {self.pipeline.name} {why}: it is not loaded"
            )

    def _context(self) -> Context:
        return Context(self.project, self.pipeline, self.catalog, self.ledger, self.files)

    def _stop_work(self) -> None:
        """Cancel Spark's jobs after another process took the batch over.

        Called repeatedly, since between two jobs there is nothing to cancel.
        """
        if self.lake is not None:
            with suppress(Exception):  # the JVM may be gone
                self.lake.spark.sparkContext.cancelAllJobs()

    def _is_beside_others(self) -> bool:
        """Whether another driver may be at work: one needs no lease while it decodes."""
        rows = (row for row in self.ledger.batches.all() if row.state in _BY_DRIVERS)
        return any(is_at_work(row) and self.lease.is_owned_by_other(row) for row in rows)

    def _fail(self, error: BaseException) -> None:
        """Remove added columns, drop the branches, and record the error in the ledger."""
        with suppress(Exception):  # the first error is the one to report
            for table in self._restore_schemas():
                emit(f"{table}: columns as before the batch")
            self._drop_branches()
            self._forget_undone()
        reason = typed(error) if isinstance(error, Exception) else error
        self.ledger.batches.record(
            self.manifest.batch_id, states.FAILED, attempt=self.lease.attempt,
            add_details=failed(f"{type(reason).__name__}: {reason}"),
            expected=self.lease.is_current,
        )  # fmt: skip
        reach(Point.LOAD_FAILED)

    def _drop_branches(self) -> None:
        """Drop this attempt's branches.

        A late write may have created one again after another process finished the batch, and only
        this process knows.
        """
        own = branch_name(self.manifest.batch_id, self.lease.attempt)
        for namespace, name in pipeline_tables(self.catalog, self.pipeline.namespace):
            drop_branches(self.catalog, namespace, name, own)

    def _forget_undone(self) -> None:
        """Remove changes that a late write added after the batch was rolled back.

        Nothing else removes them, unless the batch is loaded again.
        """
        row = self.lease.row()
        if row is not None and row.state == states.ROLLED_BACK:
            batch = (self.pipeline.namespace, row.batch_id)
            forget_changes(self.catalog, *batch, confirm=partial(self._require_as_seen, row))

    def _require_as_seen(self, seen: BatchRow) -> None:
        if seq_of(self.lease.row()) != seen.seq:
            raise self.lease.lost_batch()

    def _restore_schemas(self) -> list[str]:
        """Remove the columns that this attempt added, unless another batch is being loaded or was
        published meanwhile.

        Such a batch may have changes with these columns, or of their types, even if `main` of its
        tables did not move: all of its changes may be late.
        """
        rows = self.ledger.unfinished()
        if self.lake is None or any(map(self.lease.is_owned_by_other, rows)):
            return []
        if self.ledger.batches.published() - self._published:
            return []
        return self.lake.restore_schemas()


def drive(
    project: Project, manifest: str, session: Callable[[], SparkSession], publisher: str
) -> BatchResult:
    """Run one attempt at the batch of a manifest; raises the error that ends it."""
    return Driver(project, BatchFiles(project).read_manifest(manifest), session, publisher).run()
