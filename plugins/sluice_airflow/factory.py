"""DAGs from the project: one per pipeline, and one per operation on any of them.

A pipeline's: `reconcile → land → [load → publish → left_out, rollback] a batch`, and `denied` for
files that `land` could not read. The operations: rollback, reprocess, reconcile, maintain.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow.sdk import (
    DAG,
    AssetAlias,
    CronDataIntervalTimetable,
    ExceptionRetryPolicy,
    RetryAction,
    RetryRule,
    get_current_context,
    task,
    task_group,
)
from airflow.sdk.exceptions import AirflowTaskTimeout

from sluice.config.fields import LONGEST_PIPELINE_NAME, is_pipeline_name
from sluice.config.pipeline import USUAL_SCHEDULE, Pipeline
from sluice.config.project import Project
from sluice.errors import ConfigError, TerminalError, TransientError
from sluice.objects.batch_files import batch_of, pipeline_of
from sluice_airflow import documents, tasks
from sluice_airflow.forms import (
    LONGEST_NAME,
    LONGEST_REASON,
    batch_id,
    line_of_text,
    load_form,
    maintenance_form,
    pipeline_choice,
    tick,
)
from sluice_airflow.requests import context_of_run, pipeline_of_form, pipelines_of_form
from sluice_airflow.submit import LoadOperator, MaintainOperator

OWNER: Final = "sluice"
# Backfills may go back to here; catchup is off, so the schedule begins now.
START: Final = datetime(2000, 1, 1, tzinfo=UTC)
_LONGEST_TAG: Final = 100
MAX_ACTIVE_RUNS: Final = 2
# A load that waits for the pipeline's lease occupies a slot, and a publish that would release the
# lease must never wait for that slot. So a DAG runs one load at a time, and publish goes first.
MAX_LOADS: Final = 1
SOON: Final = 10
RETRIES: Final = 2
# For stages that copy files, which may grow a lot when decompressed, or that load batches again,
# each within the project's limit.
LONGEST_STAGE: Final = timedelta(hours=6)
LONGEST_TASK: Final = timedelta(hours=1)
# After the night's backups, before the day's reports; Spark has room for two at once.
MAINTENANCE_SCHEDULE: Final = "30 3 * * *"
MAINTAINED_AT_ONCE: Final = 2

RETRY_POLICY: Final = ExceptionRetryPolicy(
    rules=[
        RetryRule(
            exception=TerminalError,
            action=RetryAction.FAIL,
            reason="a person has to change something first",
        ),
        RetryRule(
            exception=AirflowTaskTimeout,
            action=RetryAction.FAIL,
            reason="it would take as long again; the next run tries it",
        ),
        RetryRule(
            exception=TransientError,
            action=RetryAction.RETRY,
            reason="the same again may well work",
        ),
    ]
)
DEFAULTS: Final[dict[str, Any]] = {
    "owner": OWNER,
    "retries": RETRIES,
    "retry_delay": timedelta(minutes=1),
    "retry_exponential_backoff": 2,
    "max_retry_delay": timedelta(minutes=15),
    "retry_policy": RETRY_POLICY,
    "execution_timeout": LONGEST_TASK,
    "weight_rule": "absolute",
}
BATCH: Final = "{{ batch_id }}"
BATCH_OF_LOAD: Final = "{{ task.manifest.split('/')[-2] }}"


def dag_id(name: str) -> str:
    """Return the DAG id of a pipeline or an operation; no pipeline is named like an operation."""
    return f"sluice_{name}"


def project_dags(project: Project, wanted: str | None = None) -> dict[str, DAG]:
    """Return the DAGs of all pipelines by id, or only the wanted one, as a worker asks for it.

    A pipeline whose file is wrong, or whose DAG Airflow refuses, gets a DAG that shows the mistake.
    """
    dags, broken = {}, dict(project.broken)
    for name, pipeline in sorted(project.pipelines.items()):
        if wanted in (None, dag_id(name)):
            try:
                dags[dag_id(name)] = pipeline_dag(project, pipeline)
            except Exception as error:
                broken[name] = f"{project.files[name]}: Airflow takes no DAG of it: {error}"
    for name, mistake in sorted(broken.items()):
        if wanted in (None, stand_in_id(name)):
            dags[stand_in_id(name)] = broken_dag(name, mistake)
    return dags


def pipeline_dag(project: Project, pipeline: Pipeline) -> DAG:
    """Build the DAG of one pipeline, from its configuration only.

    The DAG file registers it through a variable, once it is complete.
    """
    with DAG(
        dag_id=dag_id(pipeline.name),
        description=f"{pipeline.format} files of {pipeline.landing.url} into {pipeline.namespace}",
        schedule=_timetable(pipeline),
        start_date=START,
        catchup=False,
        max_active_runs=MAX_ACTIVE_RUNS,
        # Without a schedule it does nothing unless triggered: see `_manual_dag`.
        is_paused_upon_creation=None if pipeline.schedule else False,
        tags=["sluice", pipeline.format, pipeline.namespace[:_LONGEST_TAG]],
        auto_register=False,
        default_args=DEFAULTS,
        params=load_form(),
        doc_md=documents.of_pipeline(pipeline),
        render_template_as_native_obj=False,
    ) as dag:
        _wire(project, pipeline)
    return dag


def stand_in_id(name: str) -> str:
    """Return the DAG id for a pipeline whose file is wrong: its own, or if the name is not allowed,
    a unique one with a dot, which no valid pipeline's DAG has."""
    if is_pipeline_name(name):
        return dag_id(name)
    digest = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:8]
    shown_name = re.sub(r"[^\w.-]", "_", name)[:LONGEST_PIPELINE_NAME]
    return f"{dag_id(shown_name)}.{digest}"


def broken_dag(name: str, mistake: str) -> DAG:
    """Build the DAG of a pipeline whose file is wrong: it shows the mistake, and fails with it
    every hour, since a DAG that is not there shows nothing red."""
    with DAG(
        dag_id=stand_in_id(name),
        description=documents.short_mistake(mistake),
        schedule=CronDataIntervalTimetable(USUAL_SCHEDULE, timezone="UTC"),
        start_date=START,
        catchup=False,
        max_active_runs=1,
        tags=["sluice", "broken"],
        default_args={"owner": OWNER, "retries": 0},
        doc_md=documents.of_mistake(mistake),
    ) as dag:

        @task(task_id="configuration")
        def configuration() -> None:
            raise ConfigError(f"{mistake}\n{documents.UNTIL_MENDED}")

        configuration()
    return dag


def _timetable(pipeline: Pipeline) -> CronDataIntervalTimetable | None:
    """Return a timetable with data intervals; a plain cron text would give empty ones."""
    if pipeline.schedule is None:
        return None
    return CronDataIntervalTimetable(pipeline.schedule, timezone="UTC")


def _wire(project: Project, pipeline: Pipeline) -> None:
    root = str(project.root)

    @task(task_id="reconcile", execution_timeout=_longest_stage(project))
    def reconcile() -> list[str]:
        context_of_run()
        return tasks.reconcile(root, pipeline.name)

    @task(task_id="land", execution_timeout=_longest_stage(project))
    def land() -> list[str]:
        return tasks.land(root, pipeline.name, dict(get_current_context()))

    # Parallel to the batches: downstream it would hide which of them failed.
    # Not retried: it only reports.
    @task(task_id="denied", priority_weight=SOON, retries=0)
    def denied() -> None:
        tasks.refuse_denied(pipeline.name, dict(get_current_context()))

    landed = land()
    reconcile() >> landed >> denied()
    _batches(project, [pipeline], landed)


def _batches(project: Project, pipelines: list[Pipeline], landed: Any) -> None:
    """Map load, publish and teardown over the manifests; the teardown does not decide the run's
    state.

    `pipelines`: those to which the manifests may belong. A separate task reports tables that were
    left out, since a failed publish would hide what it published.
    """
    publish = _publish(project, pipelines)
    root = str(project.root)
    left_out, rollback = _left_out(root), _rollback(project)

    @task_group(group_id="batch")
    def batch(manifest: str) -> None:
        load = LoadOperator(
            task_id="load",
            project_dir=root,
            manifest=manifest,
            execution_timeout=_longest_load(project),
            max_active_tis_per_dag=MAX_LOADS,
            map_index_template=BATCH_OF_LOAD,
        )
        published = load >> publish(manifest)
        if any(pipeline.each_table_alone for pipeline in pipelines):
            published = published >> left_out(manifest)
        published >> rollback(manifest).as_teardown()

    batch.expand(manifest=landed)


def _longest_load(project: Project) -> timedelta:
    """Return the time limit of a driver that `sluice` starts itself."""
    return timedelta(seconds=project.spark.max_load_seconds)


def _longest_stage(project: Project) -> timedelta:
    return max(LONGEST_STAGE, _longest_load(project))


def _publish(project: Project, pipelines: list[Pipeline]) -> Any:
    @task(
        task_id="publish",
        outlets=[AssetAlias(tasks.alias_name(pipeline.name)) for pipeline in pipelines],
        map_index_template=BATCH,
        execution_timeout=_longest_stage(project),
        priority_weight=SOON,
    )
    def publish(manifest: str) -> dict[str, Any]:
        context = _name_batch(manifest)
        return tasks.publish(str(project.root), pipeline_of(manifest), manifest, context)

    return publish


def _left_out(project_dir: str) -> Any:
    @task(task_id="left_out", map_index_template=BATCH, priority_weight=SOON)
    def left_out(manifest: str) -> None:
        _name_batch(manifest)
        tasks.refuse_left_out(project_dir, pipeline_of(manifest), manifest)

    return left_out


def _rollback(project: Project) -> Any:
    @task(
        task_id="rollback",
        map_index_template=BATCH,
        execution_timeout=_longest_stage(project),
        priority_weight=SOON,
    )
    def rollback(manifest: str) -> list[str]:
        _name_batch(manifest)
        return tasks.clean_up(str(project.root), pipeline_of(manifest), manifest)

    return rollback


def _name_batch(manifest: str) -> dict[str, Any]:
    """Return the running task's context, with the batch's name for BATCH."""
    context = get_current_context()
    context["batch_id"] = batch_of(manifest)  # type: ignore[typeddict-unknown-key]
    return dict(context)


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
            execution_timeout=_longest_stage(project),
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

        @task(task_id="land", execution_timeout=_longest_stage(project))
        def land() -> list[str]:
            return tasks.land_quarantined(str(project.root), context_of_run())

        pipelines = [pipeline for _, pipeline in sorted(project.pipelines.items())]
        _batches(project, pipelines, land())
    return dag


def reconcile_dag(project: Project) -> DAG:
    """The form that completes or undoes what a killed run left."""
    with _manual_dag("reconcile", "Complete or undo what a killed run left", project) as dag:

        @task(task_id="reconcile", execution_timeout=_longest_stage(project))
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
            execution_timeout=_longest_load(project),
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
