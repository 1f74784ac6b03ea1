"""Airflow DAGs of the operations: daily maintenance; undo or reprocess batches, tidy up, by
forms."""

from __future__ import annotations

import os

from sluice.config.project import load_sound
from sluice.environment import project_folder
from sluice_airflow.operation_dags import maintain_dag, reconcile_dag, reprocess_dag, rollback_dag

_project = load_sound(project_folder(os.environ))

sluice_rollback = rollback_dag(_project)
sluice_reprocess = reprocess_dag(_project)
sluice_reconcile = reconcile_dag(_project)
sluice_maintain = maintain_dag(_project)
