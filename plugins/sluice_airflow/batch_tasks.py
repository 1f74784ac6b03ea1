"""The tasks of a batch, `load → publish → left_out, rollback`, mapped over the manifests that a DAG
has landed."""

from __future__ import annotations

from typing import Any, Final

from airflow.sdk import AssetAlias, get_current_context, task, task_group

from sluice.config.pipeline import Pipeline
from sluice.config.project import Project
from sluice.objects.batch_files import batch_of
from sluice_airflow import tasks
from sluice_airflow.assets import alias_name
from sluice_airflow.dag_settings import SOON, longest_load, longest_stage
from sluice_airflow.submit import LoadOperator

# A load that waits for the pipeline's lease occupies a slot, and a publish that would release the
# lease must never wait for that slot. So a DAG runs one load at a time, and publish goes first.
MAX_LOADS: Final = 1
BATCH: Final = "{{ batch_id }}"
BATCH_OF_LOAD: Final = "{{ task.manifest.split('/')[-2] }}"


def map_batches(project: Project, pipelines: list[Pipeline], landed: Any) -> None:
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
            execution_timeout=longest_load(project),
            max_active_tis_per_dag=MAX_LOADS,
            map_index_template=BATCH_OF_LOAD,
        )
        published = load >> publish(manifest)
        if any(pipeline.each_table_alone for pipeline in pipelines):
            published = published >> left_out(manifest)
        published >> rollback(manifest).as_teardown()

    batch.expand(manifest=landed)


def _publish(project: Project, pipelines: list[Pipeline]) -> Any:
    @task(
        task_id="publish",
        outlets=[AssetAlias(alias_name(pipeline.name)) for pipeline in pipelines],
        map_index_template=BATCH,
        execution_timeout=longest_stage(project),
        priority_weight=SOON,
    )
    def publish(manifest: str) -> dict[str, Any]:
        context = _name_batch(manifest)
        return tasks.publish(str(project.root), manifest, context)

    return publish


def _left_out(project_dir: str) -> Any:
    @task(task_id="left_out", map_index_template=BATCH, priority_weight=SOON)
    def left_out(manifest: str) -> None:
        _name_batch(manifest)
        tasks.refuse_left_out(project_dir, manifest)

    return left_out


def _rollback(project: Project) -> Any:
    @task(
        task_id="rollback",
        map_index_template=BATCH,
        execution_timeout=longest_stage(project),
        priority_weight=SOON,
    )
    def rollback(manifest: str) -> list[str]:
        _name_batch(manifest)
        return tasks.clean_up(str(project.root), manifest)

    return rollback


def _name_batch(manifest: str) -> dict[str, Any]:
    """Return the running task's context, with the batch's name for BATCH."""
    context = get_current_context()
    context["batch_id"] = batch_of(manifest)  # type: ignore[typeddict-unknown-key]
    return dict(context)
