"""Sluice in Airflow: DAGs from the project's YAML, and the tasks that call Sluice's stages."""
