"""The context of every stage: one pipeline of one project, its catalog, ledger and files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyiceberg.catalog import Catalog

from sluice.catalog.client import open_catalog
from sluice.config.pipeline import Pipeline
from sluice.config.project import Project, load_sound
from sluice.counting import counted
from sluice.errors import TerminalError
from sluice.escaping import shown
from sluice.ledger import states
from sluice.ledger.leases import Lease, this_holder
from sluice.ledger.ledger import PipelineLedger
from sluice.ledger.rows import BatchRow
from sluice.objects.batch_files import BatchFiles
from sluice.operations.lake_mark import own_ledger

Say = Callable[[str], None]
# At most so many files are named in one run's messages; the others are counted.
MOST_FILES_NAMED: Final = 20


def _quiet(_: str) -> None:
    """Print nothing."""


@dataclass(frozen=True)
class Context:
    """One pipeline of one project, with the open catalog, its ledger and the batch files.

    `say`: prints a line for the operator; `warn`: one that needs attention.
    """

    project: Project
    pipeline: Pipeline
    catalog: Catalog
    ledger: PipelineLedger
    files: BatchFiles
    say: Say = _quiet
    warn: Say = _quiet

    @property
    def lease(self) -> Lease:
        """The lease with which this process takes a batch of the pipeline."""
        return Lease(this_holder(), self.pipeline.lease_seconds)


def say_of_files(ctx: Context, lines: Iterable[str]) -> None:
    """Warn of one file in each line; of many, the first ones and how many others there are."""
    messages = list(lines)
    for line in messages[:MOST_FILES_NAMED]:
        ctx.warn(line)
    if more := messages[MOST_FILES_NAMED:]:
        ctx.warn(f"land: and {counted(len(more), 'more such file')}")


def open_context(
    project_dir: Path,
    pipeline: str,
    say: Say = _quiet,
    warn: Say | None = None,
    *,
    read_only: bool = False,
) -> Context:
    """Open a project for one pipeline, and make its ledger unless this is `read_only`; raises
    ConfigError, and OtherLakeError as `own_ledger` does. `say`, and `warn` if it is another, get
    single lines, escaped."""
    project = load_sound(project_dir)
    chosen = project.pipeline(pipeline)
    catalog = open_catalog(project)

    def say_shown(text: str) -> None:
        say(shown(text))

    def warn_shown(text: str) -> None:
        (warn or say)(shown(text))

    ledger = own_ledger(project, catalog, say_shown, read_only=read_only).of(chosen.name)
    return Context(project, chosen, catalog, ledger, BatchFiles(project), say_shown, warn_shown)


def known_batch(ctx: Context, batch_id: str) -> BatchRow:
    """Return the ledger's row of a batch, or of one that has claimed files and was never recorded,
    because its landing died; raises TerminalError for an unknown one, and for the row under which
    maintenance holds the lease."""
    row = ctx.ledger.batches.get(batch_id)
    if row is None:
        unrecorded = (one for one in ctx.ledger.unfinished() if one.batch_id == batch_id)
        row = next(unrecorded, None)
    if row is None or batch_id == states.MAINTENANCE:
        raise TerminalError(f"pipeline {ctx.pipeline.name} has no batch {batch_id}")
    return row
