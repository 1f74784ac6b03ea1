"""What one maintenance works on: session, tables, ledger, pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from pyspark.sql import SparkSession

from sluice.catalog.folders import TableFolders
from sluice.config.pipeline import Pipeline
from sluice.ledger.ledger import PipelineLedger
from sluice.objects.batch_files import BatchFiles
from sluice.operations.expiry import Retentions
from spark_jobs.lake.tables import Lake


@dataclass(frozen=True)
class MaintenanceContext:
    """What one maintenance works on; ages count from `now`."""

    spark: SparkSession
    lake: Lake
    ledger: PipelineLedger
    files: BatchFiles
    pipeline: Pipeline
    now: datetime
    dry_run: bool

    @cached_property
    def retentions(self) -> Retentions:
        """What must be kept for rollbacks, for as long as this maintenance lasts."""
        return Retentions(self.ledger, self.pipeline)

    @cached_property
    def folders(self) -> TableFolders:
        """The folders of all tables of the catalog."""
        return TableFolders(self.lake.catalog)

    def days_ago(self, days: int) -> datetime:
        """Return the time that is `days` before `now`."""
        return self.now - timedelta(days=days)
