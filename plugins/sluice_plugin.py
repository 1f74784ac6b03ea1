"""What Airflow loads as a plugin; the code is in `sluice_airflow`, imported by name."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin


class SluicePlugin(AirflowPlugin):
    """Names Sluice in Airflow's list of plugins; `plugins/` on the path is what the DAGs need."""

    name = "sluice"
