"""maintain: run the maintenance driver and return its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sluice.config.project import Project
from sluice.operations.context import Context
from sluice.operations.reconcile import reconcile
from sluice.spark_submit.submit import ENTRY_POINTS, submit
from sluice.typed_json import TypedJson

MAINTAIN: Final = ENTRY_POINTS / "maintain.py"
DEFAULT_BUDGET_MINUTES: Final = 60
# Share of the time that a driver may take; the rest is for its start and for its last step.
_SHARE_FOR_WORK: Final = 0.8


@dataclass(frozen=True)
class Step:
    """One piece of work on one table, done or (in a dry run) to be done; `detail`: a
    text for people."""

    table: str
    step: str
    detail: str


@dataclass(frozen=True)
class MaintenanceResult(TypedJson):
    """The report of one maintenance. `left`: tables that the time budget left for the next one."""

    pipeline: str
    dry_run: bool
    steps: tuple[Step, ...]
    left: tuple[str, ...] = ()
    seconds: float = 0.0


def budget(project: Project, minutes: float) -> float:
    """Return `minutes`, or fewer if the driver would be stopped before that, so that the step
    under way can end."""
    return min(minutes, project.spark.max_load_seconds / 60 * _SHARE_FOR_WORK)


def arguments(project: Project, pipeline: str, minutes: float, dry_run: bool) -> list[str]:
    """Return the driver's arguments after `--project`."""
    given = ["--pipeline", pipeline, "--budget", str(budget(project, minutes))]
    return [*given, "--dry-run"] if dry_run else given


def maintain(ctx: Context, minutes: float, dry_run: bool = False) -> MaintenanceResult:
    """Finish what dead attempts left, then run the driver; a dry run only runs the driver.

    Raises TransientError if a load has the pipeline's lease for longer than there is time.
    """
    if not dry_run:
        reconcile(ctx)  # also says which batch another process holds
    name, project = ctx.pipeline.name, ctx.project
    most = f"{budget(project, minutes)} minutes at most"
    ctx.say(f"maintain: pipeline {name}, {most}, the wait for a load included")
    report = submit(project, MAINTAIN, *arguments(project, name, minutes, dry_run))
    return MaintenanceResult.from_json(report)
