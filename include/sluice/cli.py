"""The command line, on the same functions as the DAG's tasks.

Exit code 0 is success only; 2 is a mistake in the configuration, 75 try again, 1 stop.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from sluice import __version__
from sluice.catalog.client import open_catalog
from sluice.catalog.failures import EXPECTED, as_sluice_error
from sluice.cli_console import ShownCommands
from sluice.cli_options import (
    DEFAULT_PROJECT,
    AsJson,
    Changed,
    Files,
    ProjectDir,
    Since,
    Tables,
    To,
    moment,
    selected,
)
from sluice.config import new_epoch
from sluice.config.live_source import live_source
from sluice.config.project import load_project, load_sound
from sluice.errors import ConfigError
from sluice.escaping import LINES, shown
from sluice.fast_start import without_pandas
from sluice.ledger.ledger import Ledger
from sluice.manifest import Reprocess, as_batch_id
from sluice.objects.batch_files import batch_of
from sluice.operations import lake_mark, maintenance, read_ahead, stages
from sluice.operations.context import Context, open_context
from sluice.operations.preview import preview
from sluice.operations.reprocess import reprocess as reprocess_batches
from sluice.operations.rollback import RollbackRequest, roll_back
from sluice.operations.selection import Selection
from sluice.operations.verify import refuse_differences
from sluice.operations.verify import verify as verify_stage
from sluice.operations.why_nothing import why_nothing
from sluice.output import query, report, verify_report
from sluice.output.projects import show_project
from sluice.output.rows import Output, until_it_closes, write_rows
from sluice.output.status import batch_statuses, last_and_waiting, show_status, status_json
from sluice.output.terminal import for_terminal, print_line
from sluice.result import BatchResult
from sluice.spark_submit.child_process import SIGNALS, stop_children_when_ended

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Loads CDC files into Iceberg.")
# Logs and pipes have no width of their own.
_WIDTH: Final = None if sys.stdout.isatty() else 120
out = ShownCommands(width=_WIDTH)
err = ShownCommands(stderr=True, width=_WIDTH)

F = TypeVar("F", bound=Callable[..., Any])


def _reporting(command: F) -> F:
    """End a command that raises a Sluice error with its text and exit code, without a traceback."""

    @wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except EXPECTED as raw:
            error = as_sluice_error(raw)
            text = f"[bold red]{type(error).__name__}[/bold red]: {for_terminal(str(error), LINES)}"
            err.print(text, highlight=False, soft_wrap=True)
            raise typer.Exit(error.exit_code) from raw
        except KeyboardInterrupt as stopped:
            _say_stopped()
            raise typer.Exit(SIGNALS + signal.SIGINT) from stopped
        except SystemExit:  # of `stop_children_when_ended`
            _say_stopped()
            raise

    return wrapped  # type: ignore[return-value]


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"sluice {__version__}")
        raise typer.Exit


@app.callback()
def _version(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version"),
    ] = False,
) -> None:
    pass


def _say(text: str) -> None:
    print_line(err, text, "dim")


def _say_stopped() -> None:
    with suppress(OSError):  # the terminal may be closed
        _say("stopped; no table is half published, and what is landed stays so (sluice status)")


def _print_json(value: object) -> None:
    sys.stdout.write(shown(json.dumps(value, default=str, ensure_ascii=False)) + "\n")


@app.command()
@_reporting
def validate(project: ProjectDir = DEFAULT_PROJECT, as_json: AsJson = False) -> None:
    """Check sluice.yaml and every pipeline."""
    loaded = load_project(project)
    if as_json:
        types = {n: p.unknown_types for n, p in loaded.pipelines.items() if p.unknown_types}
        names = sorted(loaded.pipelines)
        summary = {"project": str(loaded.root), "pipelines": names, "unknown_types": types}
        _print_json(summary | {"not_read": [str(path) for path in loaded.not_read]})
        return
    show_project(out, loaded)


@app.command()
@_reporting
def run(
    pipeline: str,
    since: Since = None,
    to: To = None,
    file: Files = None,
    table: Tables = None,
    changed: Changed = False,
    project: ProjectDir = DEFAULT_PROJECT,
    as_json: AsJson = False,
) -> None:
    """Load what has landed: all stages, batch after batch until nothing is left."""
    ctx = open_context(project, pipeline, _say)
    requested = selected(since, to, file, changed, table)
    results, failure = stages.run(ctx, requested)
    if _finish(results, failure, as_json):
        _print_nothing(ctx, requested)


def _finish(results: list[BatchResult], failure: Exception | None, as_json: bool) -> bool:
    """Show the batches, then raise what stopped the run; return whether to say there were none."""
    if as_json:
        _print_json({"batches": [report.batch_json(r) for r in results]})
    for result in () if as_json else results:
        report.show_batch(out, result)
    if failure is not None:
        raise failure
    return not (results or as_json)


def _print_nothing(ctx: Context, requested: Selection) -> None:
    why = why_nothing(ctx, requested)
    print_line(out, f"{ctx.pipeline.name}: nothing to load; {why}")


@app.command()
@_reporting
def plan(
    pipeline: str,
    since: Since = None,
    to: To = None,
    file: Files = None,
    changed: Changed = False,
    project: ProjectDir = DEFAULT_PROJECT,
    as_json: AsJson = False,
) -> None:
    """Show what a run would do, without doing it."""
    ctx = open_context(project, pipeline, _say, read_only=True)
    requested = selected(since, to, file, changed)
    planned = preview(ctx, requested)
    for note in planned.forecast.notes:
        _say(f"plan: {note}")
    if as_json:
        _print_json(report.preview_json(planned))
        return
    report.show_preview(out, planned)
    if not (planned.files or planned.unfinished or planned.repeated or planned.denied):
        _print_nothing(ctx, requested)


@app.command()
@_reporting
def reprocess(
    pipeline: str,
    batch: Annotated[str, typer.Option(help="Only what this batch quarantined")] = "",
    reason: Annotated[
        str,
        typer.Option(
            help="Only batches with records quarantined for this reason; any other text is a note. "
            "Both are kept in the ledger"
        ),
    ] = "",
    accept_late: Annotated[
        bool, typer.Option("--accept-late", help="Also apply records that are beyond_floor")
    ] = False,
    accept_open: Annotated[
        bool, typer.Option("--accept-open", help="Also apply records that are transaction_open")
    ] = False,
    project: ProjectDir = DEFAULT_PROJECT,
    as_json: AsJson = False,
) -> None:
    """Decode quarantined records again, after a fix to the configuration or code."""
    ctx = open_context(project, pipeline, _say)
    requested = Reprocess(reason=reason, accept_late=accept_late, accept_open=accept_open)
    results, failure = reprocess_batches(ctx, as_batch_id(batch), requested)
    if _finish(results, failure, as_json):
        print_line(out, f"{pipeline}: nothing in quarantine is unresolved")


@app.command()
@_reporting
def status(
    pipeline: Annotated[str | None, typer.Argument(help="Absent: all pipelines")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Batches per pipeline")] = 10,
    project: ProjectDir = DEFAULT_PROJECT,
    as_json: AsJson = False,
) -> None:
    """Each pipeline's last batches, and older ones that wait for an operator."""
    loaded = load_sound(project)
    names = [loaded.checked(pipeline).name] if pipeline else sorted(loaded.pipelines)
    mistakes = [] if pipeline else "\n".join(loaded.mistakes()).splitlines()
    for mistake in mistakes:
        _say(f"a pipeline does not run, since a file of it is wrong: {mistake}")
    ledger = Ledger(open_catalog(loaded))
    others = set() if pipeline else ledger.pipelines() - {*names, *loaded.broken}
    if others:
        those = f"{', '.join(sorted(others))} (renamed, removed, or of another project)"
        _say(f"in this lake, but of no file here: {those}")
    found = {name: batch_statuses(ledger.of(name)) for name in names}
    if not (others or any(found.values()) or ledger.uuid()):
        _say(lake_mark.no_ledger(loaded))
    listed = [one for own in found.values() for one in last_and_waiting(own, limit)]
    if as_json:
        _print_json(status_json(listed))
    else:
        show_status(out, listed, [name for name, own in found.items() if not own])
    if mistakes:
        raise typer.Exit(ConfigError.exit_code)


@app.command()
@_reporting
def sql(
    statement: str,
    output: Annotated[Output, typer.Option("--format", help="How to write the rows")] = "table",
    project: ProjectDir = DEFAULT_PROJECT,
) -> None:
    """Query the lake with SQL, without a JVM."""
    with until_it_closes(sys.stdout) as answer:
        write_rows(query.run_sql(load_sound(project), statement), output, answer)


@app.command()
@_reporting
def verify(
    pipeline: str,
    table: Annotated[str | None, typer.Option(help="Only this target")] = None,
    html: Annotated[Path | None, typer.Option(help="Also write the report to this file")] = None,
    source: Annotated[
        str | None,
        typer.Option(help="Compare with the source: jdbc:postgresql://host/db, jdbc:mariadb:…"),
    ] = None,
    watermark: Annotated[
        datetime | None,
        typer.Option(parser=moment, help="With --source: compare as of this time, UTC"),
    ] = None,
    project: ProjectDir = DEFAULT_PROJECT,
    as_json: AsJson = False,
) -> None:
    """Recompute the tables from the changelogs and compare; exit code 1 where one differs."""
    live = live_source(source, watermark)
    verify_report.refuse_unwritable_page(html)
    verification = verify_stage(open_context(project, pipeline, _say, read_only=True), table, live)
    if as_json:
        _print_json(verification.as_dict())
    else:
        verify_report.show(out, verification)
    try:
        verify_report.write(html, verification, _say)
    finally:
        refuse_differences(verification)


@app.command()
@_reporting
def rollback(
    pipeline: str,
    batch: Annotated[str, typer.Option(help="The batch to undo")] = "",
    to: Annotated[str, typer.Option(help="Undo every batch published after this one")] = "",
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Rebuild targets from their changelogs")
    ] = False,
    table: Annotated[str, typer.Option(help="With --rebuild: only this table")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would move")] = False,
    project: ProjectDir = DEFAULT_PROJECT,
    as_json: AsJson = False,
) -> None:
    """Undo one batch, or all down to one, in all tables; files are held until `release`.

    With --rebuild, rebuild targets from their changelogs.
    """
    requested = RollbackRequest(batch, to, rebuild, table, dry_run=dry_run)
    _done(roll_back(open_context(project, pipeline, _say, read_only=dry_run), requested), as_json)


@app.command()
@_reporting
def release(
    pipeline: str,
    batch: Annotated[str, typer.Option(help="The batch whose files may be landed again")],
    project: ProjectDir = DEFAULT_PROJECT,
    as_json: AsJson = False,
) -> None:
    """Let the files of a rolled back batch be landed again, or the batch of a table that was left
    out be loaded again."""
    released = stages.release_batch(open_context(project, pipeline, _say), as_batch_id(batch))
    _done([released], as_json)


@app.command()
@_reporting
def reconcile(
    pipeline: str, project: ProjectDir = DEFAULT_PROJECT, as_json: AsJson = False
) -> None:
    """Finish or undo what dead attempts left behind."""
    again = stages.reconcile(open_context(project, pipeline, _say))
    lines = [f"to be loaded again: {batch_of(key)}" for key in again]
    _done(lines or ["no batch is left to load"], as_json)


@app.command("raise-epoch")
@_reporting
def raise_epoch(
    pipeline: str,
    full_load: Annotated[
        bool,
        typer.Option(
            "--full-load", help="The new epoch begins with a full load: rows it lacks are removed"
        ),
    ] = False,
    project: ProjectDir = DEFAULT_PROJECT,
    as_json: AsJson = False,
) -> None:
    """Rank what is loaded from now on above everything before: the source's positions restart."""
    epoch = new_epoch.raise_epoch(load_sound(project), pipeline, full_load)
    begins = ", which begins with a full load" if full_load else ""
    _done([f"{pipeline}: epoch {epoch}{begins}"], as_json)
    read_ahead.warn_of_read_ahead(project, pipeline, _say)


@app.command()
@_reporting
def maintain(
    pipeline: str,
    budget: Annotated[
        float, typer.Option(min=0, help="Minutes after which no new work begins")
    ] = maintenance.DEFAULT_BUDGET_MINUTES,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done")] = False,
    project: ProjectDir = DEFAULT_PROJECT,
    as_json: AsJson = False,
) -> None:
    """Rewrite small files and deletes, expire what is old, remove orphans, compact the ledger."""
    ctx = open_context(project, pipeline, _say, read_only=dry_run)
    result = maintenance.maintain(ctx, budget, dry_run)
    if as_json:
        _print_json(asdict(result))
        return
    report.show_maintenance(out, result)


def _done(lines: list[str], as_json: bool) -> None:
    if as_json:
        _print_json({"done": lines})
        return
    for line in lines:
        print_line(out, line)


def main() -> None:
    """Run the command `sluice` in a process of its own."""
    without_pandas()
    stop_children_when_ended()
    app()
