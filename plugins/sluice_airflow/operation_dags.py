"""One DAG per operation on any pipeline: rollback, reprocess, reconcile and maintain, by forms;
maintain also daily."""

from __future__ import annotations

from typing import Final

from airflow.sdk import DAG, CronDataIntervalTimetable, task

from sluice.config.project import Project
from sluice_airflow import documents, tasks
from sluice_airflow.batch_tasks import map_batches
from sluice_airflow.dag_settings import DEFAULTS, SOON, START, dag_id, longest_load, longest_stage
from sluice_airflow.forms import (
    LONGEST_NAME,
    LONGEST_REASON,
    batch_id,
    line_of_text,
    maintenance_form,
    pipeline_choice,
    tick,
)
from sluice_airflow.requests import context_of_run, pipeline_of_form, pipelines_of_form
from sluice_airflow.submit import MaintainOperator

# After the night's backups, before the day's reports; Spark has room for two at once.
MAINTENANCE_SCHEDULE: Final = "30 3 * * *"
MAINTAINED_AT_ONCE: Final = 2


def rollback_dag(project: Project) -> DAG:
    """The form that undoes one batch, or all later than one."""
    with _manual_dag("rollback", "Undo a batch: all of its tables", project) as dag:
        dag.params["batch"] = batch_id("Batch", "The one to undo, as `sluice status` lists it.")
        dag.params["to"] = batch_id("To", "Or: undo every batch that was published after this one.")
        dag.params["rebuild"] = tick("Rebuild", "Or: rebuild every target from its changelog.")
        dag.params["table"] = line_of_text("Table", "With Rebuild: only this target.", LONGEST_NAME)
        dag.params["release"] = tick(
            "Load its files again", "Otherwise they are held until an operator releases them."
        )
        dag.params["dry_run"] = tick("Dry run", "Log what would move, without moving it.")

        # A rollback must not wait for a slot behind the loads of earlier hours.
        @task(
            task_id="rollback",
            priority_weight=SOON,
            retries=0,
            execution_timeout=longest_stage(project),
        )
        def rollback() -> list[str]:
            return tasks.roll_back(str(project.root), context_of_run())

        rollback()
    return dag


def reprocess_dag(project: Project) -> DAG:
    """The form that decodes quarantined records again, in the stages of any batch."""
    about = "Decode quarantined records again, after a fix to the configuration or code"
    with _manual_dag("reprocess", about, project) as dag:
        dag.max_active_runs = 1
        dag.params["batch"] = batch_id("Batch", "Only what this batch quarantined.")
        dag.params["reason"] = line_of_text(
            "Reason",
            "Only batches with records quarantined for this reason. Any other text is a note in the"
            " ledger.",
            LONGEST_REASON,
        )
        dag.params["accept_late"] = tick("Accept late", "Also apply records that are beyond_floor.")
        dag.params["accept_open"] = tick(
            "Accept open", "Also apply records that are transaction_open."
        )

        @task(task_id="land", execution_timeout=longest_stage(project))
        def land() -> list[str]:
            return tasks.land_quarantined(str(project.root), context_of_run())

        pipelines = [pipeline for _, pipeline in sorted(project.pipelines.items())]
        map_batches(project, pipelines, land())
    return dag


def reconcile_dag(project: Project) -> DAG:
    """The form that completes or undoes what a killed run left."""
    with _manual_dag("reconcile", "Complete or undo what a killed run left", project) as dag:

        @task(task_id="reconcile", execution_timeout=longest_stage(project))
        def reconcile() -> list[str]:
            return tasks.reconcile(str(project.root), pipeline_of_form(context_of_run()))

        reconcile()
    return dag


def maintain_dag(project: Project) -> DAG:
    """Maintain every pipeline's tables daily, in one mapped task each; by a form, some of them."""
    names = sorted(project.pipelines)
    with DAG(
        dag_id=dag_id("maintain"),
        description="Rewrite small files, expire snapshots and history, remove orphans",
        schedule=CronDataIntervalTimetable(MAINTENANCE_SCHEDULE, timezone="UTC"),
        start_date=START,
        catchup=False,
        max_active_runs=1,
        tags=["sluice", "operations"],
        default_args=DEFAULTS,
        doc_md=documents.OPERATIONS["maintain"],
        params=maintenance_form(names),
    ) as dag:

        @task(task_id="choose")
        def choose() -> list[str]:
            return pipelines_of_form(context_of_run()) or names

        MaintainOperator.partial(
            task_id="maintain",
            project_dir=str(project.root),
            execution_timeout=longest_load(project),
            max_active_tis_per_dag=MAINTAINED_AT_ONCE,
            map_index_template="{{ task.pipeline }}",
        ).expand(pipeline=choose())
    return dag


def _manual_dag(operation: str, description: str, project: Project) -> DAG:
    """Return a DAG without a schedule. It is not paused: it does nothing unless somebody triggers
    it, and that run must not wait in silence until the DAG is switched on."""
    return DAG(
        dag_id=dag_id(operation),
        description=description,
        schedule=None,
        start_date=START,
        catchup=False,
        is_paused_upon_creation=False,
        tags=["sluice", "operations"],
        default_args=DEFAULTS,
        doc_md=documents.OPERATIONS[operation],
        params={"pipeline": pipeline_choice(sorted(project.pipelines))},
    )
