"""Requests of runs that a person triggers, read from the forms' parameters."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Final

from airflow.sdk import get_current_context

from sluice.errors import ConfigError
from sluice.manifest import Reprocess
from sluice.operations.rollback import RollbackRequest

# What TriggerDagRunOperator adds by itself where the OpenLineage provider is installed.
_OF_AIRFLOW: Final = frozenset({"openlineage"})


def context_of_run() -> dict[str, Any]:
    """Return the context of a DAG's first task; raises ConfigError as `refuse_unknown_fields`."""
    context = dict(get_current_context())
    refuse_unknown_fields(context)
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
                f"conf of the run: {dag.dag_id} has no field {key!r}; {meant}"
                f"there are: {', '.join(fields)}. Nothing was done"
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
