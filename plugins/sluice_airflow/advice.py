"""Advice logged beside the error of a task: what to do about it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, NoReturn

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowSkipException, AirflowTaskTimeout

from sluice.catalog.failures import EXPECTED, as_sluice_error
from sluice.config.project import PROJECT_FILE
from sluice.errors import TerminalError
from sluice.escaping import LINES, shown
from sluice.ledger.rows import BatchRow
from sluice.ledger.states import ROLLED_BACK
from sluice_airflow.requests import RIGHT_FORM

log = logging.getLogger(__name__)
ADVICE: Final = {
    "form": RIGHT_FORM,
    "reconcile": "it is safe to clear this task: reconcile only completes what was recorded",
    "land": "clear this task when the cause is gone; what was claimed keeps its manifest",
    "load": "nothing was published. Clear this task to load the same manifest again",
    "publish": "clear this task (a table published already stays so), or run the DAG"
    " sluice_rollback for this batch",
    "denied": "the other files are taken, and their batches go on. Give Sluice the right to read"
    " what it may not: the next run loads what is named",
    "unread": "the other files are taken. Make room, if that is it; the next run tries these again",
    "left_out": "the other tables are published. A later run loads what was left out again",
    "maintain": "no row was changed. Clear this task: it goes on where it stopped",
    "batch.rollback": "main was not moved. Run the DAG sluice_reconcile, it drops what was left",
    "halfway": "some tables may have the batch. The DAG sluice_reconcile, or the pipeline's next"
    " run, completes it; the DAG sluice_rollback undoes it",
    "undone": "the message above says how its records are loaded after all; clearing this task only"
    " repeats it",
    "rollback": "if it was refused, nothing moved, and the message says why; else the DAG"
    " sluice_reconcile completes it as it was asked for. Look at sluice status before you fill in"
    " To again: it undoes what was published since",
}


@dataclass
class Advice:
    """Which advice is logged beside an error of a task: the name in ADVICE."""

    about: str

    def choose_for(self, row: BatchRow | None) -> None:
        """Choose the advice about a batch of which some tables may be published, or about one that
        is rolled back, if this is one."""
        if row is not None and row.halfway:
            self.about = "halfway"
        elif row is not None and row.state == ROLLED_BACK:
            self.about = "undone"


def _log_advice(stage: str, pipeline: str, error: BaseException, advice: Advice) -> None:
    log.error("%s of pipeline %s failed: %s", stage, pipeline, shown(str(error), LINES))
    if isinstance(error, AirflowTaskTimeout):
        limit = get_current_context()["task"].execution_timeout
        setting = f"spark.max_load_seconds in {PROJECT_FILE}"
        log.error("Stopped after %s: see %s (at least 6 hours for stages)", limit, setting)
    what = ADVICE[advice.about]
    if not isinstance(error, (TerminalError, AirflowTaskTimeout)) and _has_tries_left():
        what = f"nothing yet, Airflow tries it again by itself. If the last try fails: {what}"
    log.error("What to do: %s. To look: sluice status %s", what, pipeline)


def _has_tries_left() -> bool:
    """Whether Airflow tries the task again after an error that its rules do not call lasting."""
    with suppress(RuntimeError):  # outside of a task there is no context
        ti = get_current_context()["ti"]
        return ti.try_number <= ti.max_tries
    return False


@contextmanager
def advised(stage: str, pipeline: str) -> Iterator[Advice]:
    """Log advice beside an error; raise one of Sluice's, which Airflow's rules of retries know."""
    advice = Advice(stage)
    try:
        yield advice
    except AirflowSkipException:
        raise
    except (Exception, AirflowTaskTimeout) as error:  # a timeout is no Exception
        reason = as_sluice_error(error) if isinstance(error, EXPECTED) else error
        _log_advice(stage, pipeline, reason, advice)
        if reason is not error:
            raise reason from error
        raise


@contextmanager
def about_form(advice: Advice) -> Iterator[None]:
    """Advise about the form while it is read, and about the stage after that."""
    stage, advice.about = advice.about, "form"
    yield
    advice.about = stage


def skip(reason: str) -> NoReturn:
    """Skip the task; Airflow's own line about it does not show the reason at once."""
    log.info("%s", reason)
    raise AirflowSkipException(reason)
