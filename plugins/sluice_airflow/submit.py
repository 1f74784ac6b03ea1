"""Spark applications submitted on an Airflow connection: loads and maintenance."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException

from sluice.config.project import Project, load_sound
from sluice.environment import ENV_SPARK_MASTER
from sluice.errors import SluiceError, TerminalError
from sluice.objects.batch_files import batch_of, pipeline_of
from sluice.operations.context import Context
from sluice.operations.holding import repeating
from sluice.operations.maintenance import MAINTAIN, arguments
from sluice.spark_submit.submit import (
    LOAD_BATCH,
    driver_environment,
    driver_error,
    is_small,
    properties_file,
    spark_conf,
)
from sluice_airflow import tasks
from sluice_airflow.advice import advised
from sluice_airflow.connection import SPARK_CONNECTION, spark_master
from sluice_airflow.landing import STALE

# The hook's error has so many of the driver's last lines: an error may have one for each table.
_LINES_KEPT: Final = 10_000
WAITING_EVERY_SECONDS: Final = STALE.total_seconds() / 3
# The hook's own lines in its error, among the driver's.
_OF_THE_HOOK: Final = ("Cannot execute: ", "Last spark-submit output:")
_DRIVER_NEEDS: Final = (
    "PATH", "PYTHONPATH", "SPARK_HOME", "SPARK_CONF_DIR", "JAVA_HOME", "LC_ALL",
)  # fmt: skip


class LoadOperator(SparkSubmitOperator):
    """Submit the load of one manifest; raises TransientError or TerminalError as the
    driver does."""

    template_fields = (*SparkSubmitOperator.template_fields, "manifest")

    def __init__(self, *, project_dir: str, manifest: Any, **kwargs: Any) -> None:
        super().__init__(
            application=str(LOAD_BATCH),
            conn_id=SPARK_CONNECTION,
            name="sluice-load",
            durable=False,  # a cleared durable task finds its finished driver and does nothing
            **kwargs,
        )
        self.project_dir = project_dir
        self.manifest = manifest

    def execute(self, context: Any) -> None:
        """Submit and wait; skip a batch that is published, rolled back, or loaded by
        another run."""
        manifest = str(self.manifest)
        pipeline = pipeline_of(manifest)
        self.application_args = ["--project", self.project_dir, "--manifest", manifest]
        with advised("load", pipeline) as advice:
            ctx = tasks.open_context(self.project_dir, pipeline)
            if state := tasks.loaded_as(ctx, manifest, advice):
                self.log.info("the batch is %s: nothing to load", state)
                return
            behind = context["ti"].xcom_pull(task_ids="land") or []
            with waiting(self.project_dir, pipeline, behind):
                _run(self, ctx.project, _is_small(ctx, manifest))


def waiting(
    project_dir: str, pipeline: str, manifests: Sequence[str]
) -> AbstractContextManager[None]:
    """Record in the ledger, while this block runs, that the run's other batches are still waiting;
    a run of one batch has none.

    Airflow does not hold a landed batch: only the time of its last row in the ledger shows that its
    run is still going on.
    """
    if len(manifests) < 2:
        return nullcontext()
    batches = [batch_of(manifest) for manifest in manifests]

    def keep_waiting() -> None:
        tasks.open_context(project_dir, pipeline).ledger.batches.keep_waiting(batches)

    return repeating(keep_waiting, WAITING_EVERY_SECONDS, first=0)


class MaintainOperator(SparkSubmitOperator):
    """Submit the maintenance of one pipeline, with the form's budget and dry run."""

    def __init__(self, *, project_dir: str, pipeline: str, **kwargs: Any) -> None:
        super().__init__(
            application=str(MAINTAIN),
            conn_id=SPARK_CONNECTION,
            name=f"sluice-maintain-{pipeline}",
            durable=False,  # as for a load: clearing it runs it again
            **kwargs,
        )
        self.project_dir = project_dir
        self.pipeline = pipeline

    def execute(self, context: Any) -> None:
        """Finish what dead attempts left, then submit and wait."""
        budget, dry_run = (context["params"][field] for field in ("budget", "dry_run"))
        if not dry_run:
            tasks.reconcile(self.project_dir, self.pipeline)
        with advised("maintain", self.pipeline):
            project = load_sound(self.project_dir)
            own = arguments(project, self.pipeline, budget, dry_run)
            self.application_args = ["--project", self.project_dir, *own]
            _run(self, project)


def _is_small(ctx: Context, manifest: str) -> bool:
    return is_small(ctx.files.read_manifest(manifest))


def _run(operator: SparkSubmitOperator, project: Project, small: bool = False) -> None:
    operator.conf = spark_conf(project, small=small)
    operator.env_vars = operator_environment()
    operator.properties_file = operator.properties_file or properties_file()
    operator._hook = operator._get_hook()
    operator._hook._last_submit_log_lines = deque(maxlen=_LINES_KEPT)
    _submit(operator._hook, operator.application)


def operator_environment() -> dict[str, str]:
    """Return the driver's environment besides the task's own; the connection's master
    takes precedence."""
    environment = driver_environment()
    needed: dict[str, str] = {
        name: environment[name] for name in _DRIVER_NEEDS if name in environment
    }
    return {**needed, ENV_SPARK_MASTER: spark_master()}


def _submit(hook: SparkSubmitHook, application: str) -> None:
    try:
        hook.submit(application)
    except AirflowException as error:
        # Apart from the driver's last words, the hook's error is in the log above.
        raise _typed(hook, str(error)) from None
    finally:
        if hook._submit_sp and hook._submit_sp.stdout:
            hook._submit_sp.stdout.close()  # the hook leaves it open


def _typed(hook: SparkSubmitHook, text: str) -> SluiceError:
    """Return the error of a driver; one that the hook did not start is refused again."""
    if hook._submit_sp is None:
        return TerminalError(f"no Spark driver was started: {text}").in_lines()
    lines = (line for line in text.splitlines() if not line.startswith(_OF_THE_HOOK))
    return driver_error(hook._submit_sp.returncode, "\n".join(lines))
