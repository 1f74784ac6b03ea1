"""The Airflow plugin; its code is in `sluice_airflow`, imported by name."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin


class SluicePlugin(AirflowPlugin):
    """List Sluice among Airflow's plugins; the DAGs only need `plugins/` on the path."""

    name = "sluice"
