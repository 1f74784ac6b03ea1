"""A project of its own for a test: a small lake that the shared session loads batches into."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from pyspark.sql import SparkSession

from sluice.catalog.client import open_catalog
from sluice.catalog.spark import spark_catalog_conf
from sluice.catalog.table_publish import publish_table
from sluice.catalog.table_rollback import rollback_table
from sluice.config.project import Project, load_project
from sluice.ledger.leases import Lease, this_holder
from sluice.ledger.ledger import Ledger
from sluice.ledger.states import LOADED
from sluice.manifest import Manifest, SourceFile, name_batch
from sluice.names import CATALOG, TARGET_METADATA, branch_name
from sluice.operations import stages
from sluice.operations.context import Context, open_context
from sluice.positions import arrival_of
from sluice.result import BatchResult, Counts
from sluice.spark_submit.submit import LOAD_BATCH, PLAN_BATCH
from spark_jobs import driver
from spark_jobs.attempt import Attempt
from spark_jobs.job import Job, pipeline_for
from spark_jobs.lake.cut import Cutter
from spark_jobs.lake.tables import Lake
from spark_jobs.merging.forecast import forecast
from spark_jobs.merging.load import load
from spark_jobs.merging.rebuild import rebuild
from spark_jobs.session import sign_snapshots
from spark_jobs.verifying.changelogs import verify
from tests.all_readable import land

NAMESPACE = "shop"


class Sandbox:
    """One project, one pipeline `p`, one catalog; batches are loaded in this process."""

    def __init__(self, spark: SparkSession, root: Path, pipeline: Mapping[str, Any]) -> None:
        self.root = root
        self.landing = root / "landing"
        self.landing.mkdir(parents=True)
        self.configure(**pipeline)
        self.catalog = open_catalog(self.project)
        Ledger(self.catalog).ensure()
        self.spark = session_of(spark, self.project)
        self.published: list[str] = []
        self._attempts, self._files = itertools.count(1), itertools.count(1)

    def configure(self, **pipeline: Any) -> None:
        """Write the project's YAML (JSON is YAML) and read it again."""
        given = {
            "name": "p", "namespace": NAMESPACE, "landing": {"url": "landing"}, **pipeline,
        }  # fmt: skip
        (self.root / "pipelines").mkdir(exist_ok=True)
        (self.root / "pipelines" / "p.yaml").write_text(json.dumps(given))
        lake = {"catalog": {"type": "jdbc", "uri": "sqlite:///lake.db"}, "warehouse": "warehouse"}
        (self.root / "sluice.yaml").write_text(json.dumps({"lake": lake}))
        self.project = load_project(self.root)
        self.pipeline = self.project.pipeline("p")

    def write(self, key: str, records: Iterable[Any]) -> SourceFile:
        """Land one object of JSON lines: text as it stands, anything else as JSON."""
        path = self.landing / key
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
        path.write_text("".join(f"{line}\n" for line in lines))
        return landed(path, key)

    def land(self) -> Manifest:
        """Land all files that are new as one batch; return its manifest."""
        context = open_context(self.root, "p")
        (key,) = land(context)
        return context.files.read_manifest(key)

    def stage(self, *files: SourceFile) -> BatchResult:
        """Load one batch onto its branches, and leave `main` alone."""
        return self.stage_manifest(Manifest("p", name_batch("p", files), files))

    def stage_manifest(self, manifest: Manifest, attempt: str = "") -> BatchResult:
        """The same for a batch that landing made."""
        batch_id, attempt = manifest.batch_id, attempt or f"a{next(self._attempts)}"
        sign_snapshots(self.spark, "p", batch_id, attempt)
        job = Job(
            self.spark, Lake(self.spark, self.catalog, "p"),
            pipeline_for(self.project, manifest), manifest,
            Attempt(batch_id, attempt, branch_name(batch_id, attempt)),
            str(self.root / "scratch" / f"{batch_id}-{attempt}"),
        )  # fmt: skip
        if manifest.rebuild is not None:
            return rebuild(job, manifest.rebuild, lambda: tuple(self.published))
        return load(job, lambda: tuple(self.published), retried=False)

    def drive(self, project: Project, entry: Path, *arguments: str, small: bool = False) -> str:
        """Replaces `driver.submit.submit` for a load: does the driver's work, in the
        shared session."""
        assert entry == LOAD_BATCH
        context = self.context()
        manifest = context.files.read_manifest(arguments[arguments.index("--manifest") + 1])
        attempt, ledger = f"d{next(self._attempts)}", context.ledger
        self.published = sorted(ledger.batches.published())
        result = self.stage_manifest(manifest, attempt)
        lease = Lease(this_holder(), 60)
        ledger.lease.acquire(manifest.batch_id, attempt, lease, undone=manifest.undone)
        context.files.write_result(result)
        ledger.batches.record(manifest.batch_id, LOADED, attempt=attempt)
        return result.to_json()

    def driven(self, patch: pytest.MonkeyPatch) -> Self:
        """Let the drivers of the batches run in this process."""
        patch.setattr("sluice.operations.load.submit", self.drive)
        return self

    def submit(self, project: Project, entry: Path, *arguments: str, small: bool = False) -> str:
        """Replaces it by the driver itself, with its lease and its attempts."""
        assert entry == LOAD_BATCH
        key = arguments[arguments.index("--manifest") + 1]
        return driver.drive(self.project, key, lambda: self.spark, this_holder()).to_json()

    def look(self, project: Project, entry: Path, *arguments: str) -> str:
        """Replaces it for `sluice plan`."""
        assert entry == PLAN_BATCH
        context = self.context(read_only=True)
        manifest = context.files.read_manifest(arguments[arguments.index("--manifest") + 1])
        published = tuple(context.ledger.batches.published())
        job = Job(
            self.spark, Lake(self.spark, self.catalog, "p"),
            pipeline_for(self.project, manifest), manifest,
            Attempt(manifest.batch_id, "", "", published), "",
        )  # fmt: skip
        return forecast(job).to_json()

    def context(self, *, read_only: bool = False) -> Context:
        """The context of the stages."""
        return open_context(self.root, "p", read_only=read_only)

    def load_landed(self) -> BatchResult:
        """Land what is new, load and publish it; every record has to have an outcome."""
        result = self.stage_manifest(self.land())
        self.publish(result)
        assert total(result).balanced
        return result

    def run(self) -> BatchResult:
        """Load and publish what has landed as one batch, as `sluice run` does."""
        results, failure = stages.run(self.context())
        if failure is not None:
            raise failure
        (result,) = results
        return result

    def run_each(self, *batches: Iterable[Any]) -> list[str]:
        """The same of each of these, landed as a file of its own; the batches' names."""
        names = []
        for records in batches:
            self.write(f"run-{next(self._files)}.jsonl", records)
            names.append(self.run().batch_id)
        return names

    def agrees(self) -> bool:
        """Whether `sluice verify` finds every table as its changelog says."""
        cutter = Cutter(self.catalog, self.context().ledger, NAMESPACE)
        return all(table.agrees for table in verify(self.spark, cutter, None).tables)

    def load_halves(self, history: Sequence[Any], cut: int, again: int) -> None:
        """Load a history in two batches; the second begins with `again` records of the first."""
        for number, batch in enumerate((history[:cut], history[cut - again :])):
            self.write(f"{number}.jsonl", batch)
            self.load_landed()

    def publish(self, result: BatchResult) -> None:
        """Publish every table that the batch staged."""
        for table in result.tables:
            for staged in table.staged:
                publish_table(self.catalog, staged, result.batch_id)
        self.published.append(result.batch_id)

    def rollback(self, result: BatchResult) -> None:
        """Put every table that the batch published back."""
        for staged in (s for table in result.tables for s in table.staged):
            rollback_table(self.catalog, staged, result.batch_id)
        self.published.remove(result.batch_id)

    def load(self, *files: SourceFile) -> BatchResult:
        """Load and publish one batch."""
        result = self.stage(*files)
        self.publish(result)
        return result

    def load_records(self, records: Iterable[Any], key: str | None = None) -> BatchResult:
        """Load and publish one batch of one file."""
        return self.load(self.write(key or f"{next(self._attempts)}.jsonl", records))

    def rows(self, table: str, metadata: bool = False) -> list[dict[str, Any]]:
        """The rows of a target as people see them."""
        found = self.catalog.load_table((NAMESPACE, table)).scan().to_arrow().to_pylist()
        hidden = () if metadata else TARGET_METADATA
        return [{k: v for k, v in row.items() if k not in hidden} for row in found]

    def types(self, table: str) -> dict[str, str]:
        """A target's columns and their Iceberg types."""
        fields = self.catalog.load_table((NAMESPACE, table)).schema().fields
        return {f.name: str(f.field_type) for f in fields if f.name not in TARGET_METADATA}

    def quarantined(self) -> list[dict[str, Any]]:
        """The quarantine."""
        return self.catalog.load_table(("sluice", "quarantine")).scan().to_arrow().to_pylist()


def session_of(spark: SparkSession, project: Project) -> SparkSession:
    """A session beside the shared one, which knows the project's catalog."""
    session = spark.newSession()
    for key, value in spark_catalog_conf(project).items():
        if key.startswith("spark.sql.catalog."):
            session.conf.set(key, value)
    # As in `tests.conftest`, for the connections of Spark's catalog.
    session.conf.set(f"spark.sql.catalog.{CATALOG}.jdbc.synchronous", "OFF")
    return session


def landed(path: Path, key: str) -> SourceFile:
    """Describe an object as landing does where Spark can read it as it is."""
    return SourceFile(
        key=key, url=f"file://{path}", size=path.stat().st_size, arrival=arrival_of(key)
    )


def total(result: BatchResult) -> Counts:
    """The outcomes of every record of a batch."""
    return sum((t.counts for t in result.tables), result.unassigned)


@contextmanager
def driven_here(sandbox: Sandbox) -> Iterator[Sandbox]:
    """Let the drivers of a sandbox's batches run in this process, for fixtures of a module."""
    with pytest.MonkeyPatch.context() as patch:
        yield sandbox.driven(patch)
