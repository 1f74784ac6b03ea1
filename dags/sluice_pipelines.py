"""One Airflow DAG for each `pipelines/*.yaml` of the project."""

from __future__ import annotations

import os

from airflow.sdk import get_parsing_context

from sluice.config.project import load_sound
from sluice.environment import project_folder
from sluice_airflow.factory import (
    broken_dag,
    dag_id,
    pipeline_dag,
    stand_in_id,
)

_wanted = get_parsing_context().dag_id
_project = load_sound(project_folder(os.environ))

for _name, _pipeline in sorted(_project.pipelines.items()):
    # A worker asks for one DAG: the others need not be built.
    if _wanted in (None, dag_id(_name)):
        try:
            globals()[dag_id(_name)] = pipeline_dag(_project, _pipeline)
        except Exception as _error:  # whatever Airflow says to one pipeline, the others run
            _file = _project.files[_name]
            _project.broken[_name] = f"{_file}: Airflow takes no DAG of it: {_error}"

for _name, _mistake in sorted(_project.broken.items()):
    if _wanted in (None, stand_in_id(_name)):
        globals()[stand_in_id(_name)] = broken_dag(_name, _mistake)
