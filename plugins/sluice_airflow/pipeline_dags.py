"""One DAG per pipeline of the project.

`reconcile → land`, the tasks of each batch, and `denied` for files that `land` could not read.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from airflow.sdk import DAG, CronDataIntervalTimetable, get_current_context, task

from sluice.config.fields import LONGEST_PIPELINE_NAME, is_pipeline_name
from sluice.config.pipeline import USUAL_SCHEDULE, Pipeline
from sluice.config.project import Project
from sluice.errors import ConfigError
from sluice_airflow import documents, landing, tasks
from sluice_airflow.batch_tasks import map_batches
from sluice_airflow.dag_settings import DEFAULTS, OWNER, SOON, START, dag_id, longest_stage
from sluice_airflow.forms import load_form
from sluice_airflow.requests import context_of_run

_LONGEST_TAG: Final = 100
MAX_ACTIVE_RUNS: Final = 2
BROKEN: Final = "broken"


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
        # Without a schedule it does nothing unless triggered, as an operation's.
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
    """Return the DAG id for a pipeline whose file is wrong: a unique one with a dot, which no valid
    pipeline's DAG has.

    Under the pipeline's own id Airflow would take it for a new version of its DAG: it would kill
    the tasks of runs that are going on, and count the stand-in's runs as the schedule's.
    """
    if is_pipeline_name(name):
        return f"{dag_id(name)}.{BROKEN}"
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
        # A paused one would never be red.
        is_paused_upon_creation=False,
        tags=["sluice", BROKEN],
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

    @task(task_id="reconcile", execution_timeout=longest_stage(project))
    def reconcile() -> list[str]:
        context_of_run()
        return tasks.reconcile(root, pipeline.name)

    @task(task_id="land", execution_timeout=longest_stage(project))
    def land() -> list[str]:
        return landing.land(root, pipeline.name, dict(get_current_context()))

    # Parallel to the batches: downstream it would hide which of them failed.
    # Not retried: it only reports.
    @task(task_id="denied", priority_weight=SOON, retries=0)
    def denied() -> None:
        landing.refuse_denied(pipeline.name, dict(get_current_context()))

    landed = land()
    reconcile() >> landed >> denied()
    map_batches(project, [pipeline], landed)
