"""The driver of one attempt: manifest → decode → fold → merge → audit → result.

The result is stored beside the manifest; the ledger records the attempt.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from sluice.catalog.client import open_catalog
from sluice.catalog.snapshots import drop_branches, tables_of
from sluice.config.project import Project
from sluice.errors import LeaseHeldError, SluiceError, TerminalError, TransientError
from sluice.faults import Point, reach
from sluice.ledger import rows as states
from sluice.ledger.changelogs import forget_changes
from sluice.ledger.details import failed
from sluice.ledger.leases import ANYBODY, Lease, is_dead, new_attempt, this_holder
from sluice.ledger.ledger import Ledger
from sluice.ledger.refusals import is_overtaken, refuse_closed
from sluice.manifest import Manifest
from sluice.names import branch_name
from sluice.objects.batch_files import BatchFiles
from sluice.objects.originals import refuse_replaced
from sluice.operations.context import Context
from sluice.operations.obsolete import why_obsolete
from sluice.operations.open_transactions import completed, holding_back
from sluice.operations.undoable import publications
from sluice.result import BatchResult
from spark_jobs.attempt import Attempt
from spark_jobs.decoding import transactions
from spark_jobs.decoding.apart import may_go_without, say_left_out
from spark_jobs.decoding.copies import is_of_a_file, with_copies, without_damage
from spark_jobs.decoding.decode_batch import whole_envelope
from spark_jobs.failures import typed
from spark_jobs.job import Job, pipeline_for
from spark_jobs.lake.tables import Lake
from spark_jobs.merging.load import load
from spark_jobs.merging.rebuild import rebuild
from spark_jobs.session import sign_snapshots
from spark_jobs.telling import listening, tell

_POLL_SECONDS: Final = 2.0
# A waiting driver occupies a worker's slot, which the publish that it waits for may need.
_LEASE_WAIT_SECONDS: Final = 60.0


class Driver:
    """One attempt: its id, its lease, its row in the ledger.

    `session` blocks until Spark, which is starting, has a session.
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
        self.publisher = publisher or ANYBODY
        self.pipeline = pipeline_for(project, manifest)
        self.catalog = open_catalog(project)
        self.ledger = Ledger(self.catalog)
        self.files = BatchFiles(project)
        self.attempt, self.predecessor = new_attempt(), ""
        self.lake: Lake | None = None
        self._left_out: dict[str, str] = {}
        self._held = threading.Event()
        self._stop = threading.Event()
        self._lost: LeaseHeldError | None = None

    def run(self) -> BatchResult:
        """Load, write the result, then record success or failure in the ledger."""
        self.ledger.ensure()
        row = self._row()
        self.predecessor = "" if row is None else row.attempt
        try:
            self._begin(row)
            with self._renewing(), listening() as said:
                refuse_replaced(self.pipeline, self.manifest)
                result = self._work(bool(self.predecessor))
            result = replace(result, notes=tuple(dict.fromkeys((*result.notes, *said))))
            # Objects that are the same before and after were the same while they were read.
            refuse_replaced(self.pipeline, self.manifest)
            # Recorded after the last renewal: a later one would make this process the holder again.
            self.files.write_result(result)
            reach(Point.LOAD_RESULT)
            self._record_loaded()
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
            self.files.forget_scratch(self.manifest.pipeline, self.manifest.batch_id, self.attempt)
        except (SluiceError, OSError) as error:
            tell(f"scratch of attempt {self.attempt} is left to maintenance: {error}")

    def _begin(self, row: states.BatchRow | None) -> None:
        """Hold the batch while it is decoded, so that it does not count as abandoned; that needs no
        lease of the pipeline. Raises LeaseHeldError where the batch is closed."""
        if row is not None:
            refuse_closed(row, self.attempt)
        self._hold(lambda row: row is None or row.state in (states.LANDED, states.FAILED))

    def _hold(self, expected: Callable[[states.BatchRow | None], bool]) -> bool:
        return self.ledger.record_batch(
            self.pipeline.name, self.manifest.batch_id, states.LANDED, attempt=self.attempt,
            lease=Lease(this_holder(), self.pipeline.lease_seconds), expected=expected,
        )  # fmt: skip

    def _work(self, retried: bool) -> BatchResult:
        """Load, leaving out tables that cannot be loaded where the pipeline allows that."""
        if self.manifest.rebuild is not None:
            return rebuild(self._job(), self.manifest.rebuild, self._take_lease)
        while True:
            try:
                return self._load(retried)
            except TerminalError as error:
                if not may_go_without(self.pipeline, error, self._left_out):
                    raise
                say_left_out(error)
                self._left_out |= error.tables
            self._restore_schemas()
            self._drop_branches()
            retried = True

    def _load(self, retried: bool) -> BatchResult:
        self.session()  # files looked up before Spark is ready may be gone when it reads
        self.manifest = with_copies(self._context(), self.manifest, self._own_copies())
        try:
            return load(self._ready_job(), self._take_lease, retried)
        except Exception as error:
            if not is_of_a_file(error):
                raise
            mended = without_damage(self._context(), self.manifest, self._own_copies())
            if mended is None:
                raise
            self.manifest = mended
        return load(self._ready_job(), self._take_lease, True)

    def _ready_job(self) -> Job:
        """Return the job; where the pipeline holds transactions back, with the parts that other
        batches have of transactions which end here. Under the lease nobody adds to these."""
        job = self._job()
        if not transactions.holds(job) or self.manifest.repeats:
            return job
        job = replace(job, attempt=replace(job.attempt, published=self._take_lease()))
        ctx = self._context()
        ended = transactions.ended_among(job, lambda: whole_envelope(job), holding_back(ctx))
        return replace(job, manifest=completed(ctx, self.manifest, ended))

    def _own_copies(self) -> str:
        """Return the prefix of this attempt's copies of landed files."""
        scratch = self.files.scratch_key(self.pipeline.name, self.manifest.batch_id, self.attempt)
        return f"{scratch}-copies/"

    def _row(self) -> states.BatchRow | None:
        return self.ledger.batch(self.manifest.pipeline, self.manifest.batch_id)

    def _job(self) -> Job:
        spark = self.session()
        sign_snapshots(spark, self.pipeline.name, self.manifest.batch_id, self.attempt)
        batch_id = self.manifest.batch_id
        attempt = Attempt(batch_id, branch_name(batch_id, self.attempt))
        self.lake = Lake(spark, self.catalog, self.pipeline.name)
        scratch = self.files.scratch_url(self.pipeline.name, batch_id, self.attempt)
        return Job(
            spark=spark,
            lake=self.lake,
            pipeline=self.pipeline,
            manifest=self.manifest,
            attempt=attempt,
            attempt_id=self.attempt,
            scratch=scratch,
            left_out=self._left_out,
            require_mine=self._require_mine,
        )

    def _take_lease(self) -> tuple[str, ...]:
        """Wait a while for the pipeline's lease; raises LeaseHeldError for the task to retry later.

        Returns the published batches; nobody adds to them while the lease is held.
        """
        deadline = time.monotonic() + _LEASE_WAIT_SECONDS
        while True:
            self._require_mine()  # taking the lease would make the batch this attempt's again
            try:
                half, undone = self._is_half_published, self.manifest.undone
                self._lease(partial(self.ledger.acquire_lease, half=half, undone=undone))
                self._held.set()
                self._refuse_obsolete()
                return tuple(sorted(self.ledger.published_batches(self.pipeline.name)))
            except LeaseHeldError as held:
                if time.monotonic() > deadline:
                    raise
                tell(f"waiting: {held}")
                time.sleep(_POLL_SECONDS)

    def _is_half_published(self) -> bool:
        return bool(publications(self._context(), self.manifest.batch_id))

    def _refuse_obsolete(self) -> None:
        """Refuse a batch whose basis was undone since it landed; called under the lease."""
        if why := why_obsolete(self._context(), self.manifest):
            raise TerminalError(
                f"batch {self.manifest.batch_id} of {self.pipeline.name} {why}: it is not loaded"
            )

    def _context(self) -> Context:
        return Context(self.project, self.pipeline, self.catalog, self.ledger, self.files)

    def _lease(self, action: Callable[[str, str, str, Lease], None]) -> None:
        action(
            self.pipeline.name,
            self.manifest.batch_id,
            self.attempt,
            Lease(this_holder(), self.pipeline.lease_seconds),
        )

    @contextmanager
    def _renewing(self) -> Iterator[None]:
        """Renew the lease during the work; raises LeaseHeldError where it was lost."""
        thread = threading.Thread(target=self._renew, daemon=True)
        thread.start()
        try:
            yield
        except Exception as error:
            if self._lost is not None:
                raise self._lost from error
            raise
        finally:
            self._stop.set()
            thread.join()

    def _renew(self) -> None:
        renewed = time.monotonic()
        while not self._stop.wait(_POLL_SECONDS):
            if is_dead(self.publisher):
                tell("nobody waits for this load any more: it stops")
                os._exit(TransientError.exit_code)
            if self._lost is not None:
                self._stop_work()
            elif time.monotonic() - renewed > self.pipeline.lease_seconds / 3:
                renewed = time.monotonic()
                self._renew_or_tell()

    def _renew_or_tell(self) -> None:
        try:
            self._renew_once()
        except LeaseHeldError as error:
            tell(f"lease lost: {error}")
            self._lost = error
            self._stop_work()
        except Exception as error:  # the catalog or its store may answer next time
            tell(f"lease not renewed: {type(error).__name__}: {error}")

    def _stop_work(self) -> None:
        """Cancel Spark's jobs for a batch that was taken over; called repeatedly, since between two
        jobs there is nothing to cancel."""
        if self.lake is not None:
            with suppress(Exception):  # the JVM may be gone
                self.lake.spark.sparkContext.cancelAllJobs()

    def _renew_once(self) -> None:
        """Renew once; raises LeaseHeldError where another attempt has the batch."""
        if self._held.is_set():
            self._lease(self.ledger.renew_lease)
        elif not self._hold(self._decodes):
            self._require_mine()

    def _decodes(self, row: states.BatchRow | None) -> bool:
        return row is not None and (row.attempt, row.state) == (self.attempt, states.LANDED)

    def _record_loaded(self) -> None:
        """Hand the batch to its publisher; raises LeaseHeldError where another attempt has it."""
        written = self.ledger.record_batch(
            self.pipeline.name, self.manifest.batch_id, states.LOADED, attempt=self.attempt,
            lease=Lease(self.publisher, self.pipeline.lease_seconds), expected=self._is_mine,
        )  # fmt: skip
        if not written:
            raise self._taken_over()

    def _taken_over(self) -> LeaseHeldError:
        return LeaseHeldError(
            f"batch {self.manifest.batch_id} of {self.pipeline.name} was taken over or undone "
            f"meanwhile; attempt {self.attempt} stops here"
        )

    def _require_mine(self) -> None:
        """Raise LeaseHeldError where a later attempt has the batch, or it is finished.

        Until this attempt takes the lease, the row may still name its predecessor, or say that its
        lease was overtaken.
        """
        row = self._row()
        if row is not None and self._is_predecessors(row):
            row = replace(row, attempt=self.attempt)
        if not self._still_mine(row):
            raise self._taken_over()

    def _is_predecessors(self, row: states.BatchRow) -> bool:
        overtaken = is_overtaken(row) and not self._held.is_set()
        return overtaken or row.attempt == self.predecessor

    def _is_mine(self, row: states.BatchRow | None) -> bool:
        return row is not None and row.attempt == self.attempt and row.state == states.LOADING

    def _fail(self, error: BaseException) -> None:
        """Restore the schemas, drop the branches, and record the error in the ledger."""
        with suppress(Exception):  # the first error is the one to report
            for table in self._restore_schemas():
                tell(f"{table}: schema as before the batch")
            self._drop_branches()
            self._forget_undone()
        reason = typed(error) if isinstance(error, Exception) else error
        self.ledger.record_batch(
            self.pipeline.name, self.manifest.batch_id, states.FAILED, attempt=self.attempt,
            add_details=failed(f"{type(reason).__name__}: {reason}"), expected=self._still_mine,
        )  # fmt: skip

    def _drop_branches(self) -> None:
        """Drop this attempt's branches: a late write may have created one again after another
        process finished the batch, and only this process knows."""
        own = branch_name(self.manifest.batch_id, self.attempt)
        for namespace, name in tables_of(self.catalog, self.pipeline.namespace):
            drop_branches(self.catalog, namespace, name, own)

    def _forget_undone(self) -> None:
        """Remove the changes that a late write added after the batch was rolled back: nothing else
        removes them, unless the batch is loaded again."""
        row = self._row()
        if row is not None and row.state == states.ROLLED_BACK:
            batch = (self.pipeline.namespace, row.batch_id)
            forget_changes(self.catalog, *batch, confirm=partial(self._require_as_seen, row))

    def _require_as_seen(self, seen: states.BatchRow) -> None:
        if states.seq_of(self._row()) != seen.seq:
            raise self._taken_over()

    def _restore_schemas(self) -> list[str]:
        """Remove new columns, unless another batch is being loaded: it may have rows for them."""
        rows = self.ledger.unfinished(self.pipeline.name)
        if self.lake is None or any(map(self._is_anothers, rows)):
            return []
        return self.lake.restore_schemas()

    def _is_anothers(self, row: states.BatchRow) -> bool:
        """Whether another batch, or a later attempt at this one, is under way."""
        own = row.batch_id == self.manifest.batch_id and not self._is_taken_over(row)
        return not own and not self.ledger.has_lapsed(row)

    def _still_mine(self, row: states.BatchRow | None) -> bool:
        """Whether no later attempt has the batch and nobody has finished it."""
        if row is None:
            return True
        return not self._is_taken_over(row) and row.state not in states.CLOSED

    def _is_taken_over(self, row: states.BatchRow) -> bool:
        return row.attempt not in ("", self.attempt)


def drive(
    project: Project, manifest: str, session: Callable[[], SparkSession], publisher: str
) -> BatchResult:
    """Run one attempt at the batch of a manifest; raises the error that ends it."""
    return Driver(project, BatchFiles(project).read_manifest(manifest), session, publisher).run()
