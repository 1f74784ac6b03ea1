"""Requests of runs that a person triggers, read from the forms' parameters."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final

from airflow.sdk import get_current_context

from sluice.errors import ConfigError
from sluice.escaping import shown
from sluice.manifest import Reprocess
from sluice.operations.rollback import RollbackRequest

log = logging.getLogger(__name__)

# Advice about a mistake in a form or a conf: a task that is cleared has the same again.
RIGHT_FORM: Final = (
    "trigger the DAG again with what is right in its form or conf; clearing this task repeats the"
    " same"
)
# How long a rollback may wait for its task to begin: for a slot, or in a DAG that is paused.
LONGEST_WAIT: Final = timedelta(hours=1)

# What TriggerDagRunOperator adds by itself where the OpenLineage provider is installed.
_OF_AIRFLOW: Final = frozenset({"openlineage"})


def context_of_run() -> dict[str, Any]:
    """Return the context of a DAG's first task; raises ConfigError as `refuse_unknown_fields` and
    `refuse_ignored_fields`, and logs what to do about it."""
    context = dict(get_current_context())
    try:
        refuse_unknown_fields(context)
        refuse_ignored_fields(context)
    except ConfigError as error:
        log.error("%s", shown(str(error)))
        log.error("What to do: %s", RIGHT_FORM)
        raise
    return context


def refuse_unknown_fields(context: dict[str, Any]) -> None:
    """Raise ConfigError for a key in the run's conf that is no field of the DAG's form.

    Airflow ignores such a key, so a run with `dry-run` for `dry_run` would move tables.
    """
    dag, conf = context["dag"], context["dag_run"].conf or {}
    fields = list(dag.params)
    for key in conf:
        if key not in fields and key not in _OF_AIRFLOW:
            near = get_close_matches(key.replace("-", "_"), fields, n=1)
            meant = f"did you mean {near[0]}? " if near else ""
            raise ConfigError(
                f"Nothing was done: the run's conf has {key!r}, and {dag.dag_id} has no such field;"
                f" {meant}there are: {', '.join(fields)}"
            )


def refuse_ignored_fields(context: dict[str, Any]) -> None:
    """Raise ConfigError if the run does not have what its conf asks for.

    With `[core] dag_run_conf_overrides_params = False` Airflow ignores all of it, so a dry run
    would be a real one.
    """
    dag, conf = context["dag"], context["dag_run"].conf or {}
    fields = [key for key in conf if key in dag.params]
    if ignored := [key for key in fields if context["params"][key] != conf[key]]:
        raise ConfigError(
            f"Nothing was done: Airflow ignores what the run's conf says of {', '.join(ignored)};"
            f" {dag.dag_id} needs [core] dag_run_conf_overrides_params = True, Airflow's default"
        )


def pipeline_of_form(context: dict[str, Any]) -> str:
    """Return the pipeline that the form names."""
    return str(context["params"]["pipeline"])


def rollback_request(context: dict[str, Any]) -> RollbackRequest:
    """Read the form of `sluice_rollback`; raises ConfigError for fields that exclude each other."""
    form = context["params"]
    return RollbackRequest(
        batch=form["batch"] or "",
        to=form["to"] or "",
        rebuild=bool(form["rebuild"]),
        table=form["table"] or "",
        release=bool(form["release"]),
        dry_run=bool(form["dry_run"]),
        user=user_of_run(context),
        called=("Batch", "To", "Rebuild", "Table"),
    )


def refuse_late(context: dict[str, Any], request: RollbackRequest) -> None:
    """Raise ConfigError for a rollback that begins long after its form was filled in.

    A rebuild and a dry run undo nothing, so they may.
    """
    asked: datetime = context["dag_run"].run_after
    if request.dry_run or request.rebuild:
        return
    if context["ti"].try_number > 1:
        why = "this task was cleared or restarted"
    elif datetime.now(UTC) - asked > LONGEST_WAIT:
        why = f"this run has waited since {asked:%Y-%m-%d %H:%MZ}"
    else:
        return
    raise ConfigError(
        f"Nothing was undone: {why}, and its form is of an earlier time: batches that were"
        " published since could be undone too. Look at sluice status, and trigger the DAG again"
    )


def reprocess_of_form(context: dict[str, Any]) -> Reprocess:
    """Return how the form of `sluice_reprocess` asks to decode quarantined records again."""
    form = context["params"]
    return Reprocess(
        reason=form["reason"] or "",
        accept_late=bool(form["accept_late"]),
        accept_open=bool(form["accept_open"]),
    )


def pipelines_of_form(context: dict[str, Any]) -> list[str] | None:
    """Return the pipelines that the form of `sluice_maintain` names; None for all."""
    return list(context["params"]["pipelines"] or ()) or None


def user_of_run(context: dict[str, Any]) -> str:
    """Return the user who triggered the run; '' if Airflow does not say."""
    return str(getattr(context["dag_run"], "triggering_user_name", None) or "")
