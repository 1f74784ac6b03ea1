"""The load as a Spark application, submitted on an Airflow connection."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowException

from sluice.config import ENV_SPARK_MASTER, load_project
from sluice.errors import SluiceError, TerminalError, TransientError

SPARK_CONNECTION: Final = "spark_default"
REPOSITORY: Final = Path(__file__).resolve().parents[2]
APPLICATION: Final = REPOSITORY / "spark_jobs" / "load_batch.py"


class LoadOperator(SparkSubmitOperator):
    """`spark-submit` of one manifest; the driver's exit code decides whether a retry helps."""

    def __init__(self, *, project: str, pipeline: str, manifest: Any, **kwargs: Any) -> None:
        super().__init__(
            application=str(APPLICATION),
            conn_id=SPARK_CONNECTION,
            name=f"sluice-{pipeline}",
            application_args=load_arguments(project, manifest),
            durable=False,  # a cleared durable task finds its finished driver and does nothing
            **kwargs,
        )
        self.project = project
        self.pipeline = pipeline

    def execute(self, context: Any) -> None:
        """Submit and wait; raises TransientError or TerminalError."""
        from sluice_airflow.tasks import advised

        with advised("load", self.pipeline):
            self.conf = spark_conf(self.project)
            self.env_vars = driver_env()
            self._hook = self._get_hook()
            _submit(self._hook, self.application)


def submit_load(project: str, pipeline: str, manifest: str) -> None:
    """Load the manifest once more, from another task than `load`."""
    hook = SparkSubmitHook(
        conf=spark_conf(project),
        conn_id=SPARK_CONNECTION,
        name=f"sluice-{pipeline}",
        application_args=load_arguments(project, manifest),
        env_vars=driver_env(),
    )
    _submit(hook, str(APPLICATION))


def load_arguments(project: str, manifest: Any) -> list[Any]:
    """The command line of the application."""
    return ["--project", project, "--manifest", manifest]


def spark_conf(project: str) -> dict[str, str]:
    """What Spark has to know before the driver's own code runs (memory, for one); no secrets."""
    given = load_project(project).spark.conf
    return {key: str(value) for key, value in given.items()}


def driver_env() -> dict[str, str]:
    """The driver's environment: this Python's spark-submit first, Sluice on its path.

    The connection's master is told by the environment too, where it wins over sluice.yaml's.
    """
    own = os.environ.get("PYTHONPATH", "")
    path = [str(REPOSITORY), str(REPOSITORY / "include"), *filter(None, [own])]
    connection = SparkSubmitHook(conn_id=SPARK_CONNECTION)._connection
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PYTHONPATH": os.pathsep.join(path),
        "PYSPARK_PYTHON": sys.executable,
        ENV_SPARK_MASTER: connection["master"],
    }


def _submit(hook: SparkSubmitHook, application: str) -> None:
    try:
        hook.submit(application)
    except AirflowException as error:
        raise _typed(hook, error) from error


def _typed(hook: SparkSubmitHook, error: AirflowException) -> SluiceError:
    """The error that the driver's exit code names; a killed driver is worth another try."""
    code = hook._submit_sp.returncode if hook._submit_sp else None
    terminal = code in (TerminalError.exit_code, 2)
    kind = TerminalError if terminal else TransientError
    return kind(f"the Spark driver ended with code {code}: {error}")
