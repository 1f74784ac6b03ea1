"""One Airflow DAG for each `pipelines/*.yaml` of the project."""

from __future__ import annotations

import os

from airflow.sdk import get_parsing_context

from sluice.config.project import load_sound
from sluice.environment import project_folder
from sluice_airflow.pipeline_dags import project_dags

globals().update(project_dags(load_sound(project_folder(os.environ)), get_parsing_context().dag_id))
