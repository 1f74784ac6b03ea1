"""Sluice in Airflow: DAGs from the project's YAML, and tasks that call Sluice's stages."""
