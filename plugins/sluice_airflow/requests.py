"""What a run by hand asks for, read from its form's parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sluice.manifest import Reprocess
from sluice.operations.rollback import RollbackRequest


@dataclass(frozen=True)
class ReprocessRequest:
    """Which quarantined records are decoded again, how, and the user who asked for it."""

    batch: str
    how: Reprocess
    user: str


@dataclass(frozen=True)
class MaintenanceRequest:
    """For how many minutes a pipeline is maintained, and whether at all."""

    budget: float
    dry_run: bool


def pipeline_of_form(context: dict[str, Any]) -> str:
    """The pipeline that the form names."""
    return str(context["params"]["pipeline"])


def rollback_request(context: dict[str, Any]) -> RollbackRequest:
    """The form of `sluice_rollback`; raises ConfigError for what does not go together."""
    form = context["params"]
    return RollbackRequest(
        batch=form["batch"] or "",
        to=form["to"] or "",
        rebuild=form["rebuild"],
        table=form["table"] or "",
        release=form["release"],
        dry_run=form["dry_run"],
        user=_user(context),
    )


def reprocess_request(context: dict[str, Any]) -> ReprocessRequest:
    """The form of `sluice_reprocess`."""
    form = context["params"]
    how = Reprocess(
        reason=form["reason"] or "",
        accept_late=form["accept_late"],
        accept_open=form["accept_open"],
    )
    return ReprocessRequest(form["batch"] or "", how, _user(context))


def maintenance_request(context: dict[str, Any]) -> MaintenanceRequest:
    """The form of `sluice_maintain`, as each pipeline's task takes it."""
    form = context["params"]
    return MaintenanceRequest(form["budget"], form["dry_run"])


def pipelines_of_form(context: dict[str, Any]) -> list[str] | None:
    """The pipelines that the form of `sluice_maintain` names; None for all of them."""
    return list(context["params"]["pipelines"] or ()) or None


def _user(context: dict[str, Any]) -> str:
    """The user who triggered the run by hand; empty where Airflow does not tell."""
    return str(getattr(context["dag_run"], "triggering_user_name", None) or "")
