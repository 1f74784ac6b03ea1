"""What the DAGs share: ids, owner and start, retries, time limits and priorities."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule
from airflow.sdk.exceptions import AirflowTaskTimeout

from sluice.config.project import Project
from sluice.errors import TerminalError, TransientError

OWNER: Final = "sluice"
# Backfills may go back to here; catchup is off, so the schedule begins now.
START: Final = datetime(2000, 1, 1, tzinfo=UTC)
SOON: Final = 10
RETRIES: Final = 2
# For stages that copy files, which may grow a lot when decompressed, or that load batches again,
# each within the project's limit.
LONGEST_STAGE: Final = timedelta(hours=6)
LONGEST_TASK: Final = timedelta(hours=1)
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


def dag_id(name: str) -> str:
    """Return the DAG id of a pipeline or an operation; no pipeline is named like an operation."""
    return f"sluice_{name}"


def longest_load(project: Project) -> timedelta:
    """Return the time limit of a load or of maintenance: `spark.max_load_seconds`."""
    return timedelta(seconds=project.spark.max_load_seconds)


def longest_stage(project: Project) -> timedelta:
    """Return the time limit of all other tasks that may start a driver."""
    return max(LONGEST_STAGE, longest_load(project))
