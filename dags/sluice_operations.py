"""Airflow DAGs beside the loads: daily maintenance; by a form, undo or repeat a batch, tidy up."""

from __future__ import annotations

import os
from pathlib import Path

from sluice.config.project import load_sound
from sluice_airflow.factory import (
    maintain_dag,
    project_folder,
    reconcile_dag,
    reprocess_dag,
    rollback_dag,
)

_project = load_sound(project_folder(dict(os.environ), Path(__file__).resolve().parents[1]))

sluice_rollback = rollback_dag(_project)
sluice_reprocess = reprocess_dag(_project)
sluice_reconcile = reconcile_dag(_project)
sluice_maintain = maintain_dag(_project)
