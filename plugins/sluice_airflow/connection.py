"""The Airflow connection on which Spark applications are submitted."""

from __future__ import annotations

import os
from typing import Final

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from sluice.environment import ENV_SPARK_MASTER
from sluice.errors import ConfigError

SPARK_CONNECTION: Final = "spark_default"
_CLIENT: Final = "client"


def _require_connection() -> None:
    """Raise ConfigError without the connection: Airflow would silently use `--master yarn`."""
    try:
        BaseHook.get_connection(SPARK_CONNECTION)
    except AirflowNotFoundException as error:
        raise ConfigError(
            f"Airflow has no connection {SPARK_CONNECTION!r}. Add it: airflow connections add"
            f" {SPARK_CONNECTION} --conn-type spark --conn-host 'local[*]', or spark://host:7077"
        ) from error


def spark_master() -> str:
    """Return the connection's master; raises ConfigError without the connection, and for one whose
    drivers would not run on the worker."""
    _require_connection()
    connection = SparkSubmitHook(conn_id=SPARK_CONNECTION)._connection
    if (mode := connection["deploy_mode"]) not in (None, "", _CLIENT):
        raise ConfigError(
            f"Airflow's connection {SPARK_CONNECTION!r} has deploy-mode {mode!r}, where a driver"
            " has neither Sluice nor the environment's secrets. Take it out of the extra, or write"
            f" {_CLIENT}"
        )
    return str(connection["master"])


def use_connections_master() -> None:
    """Make loads that other stages start in this process use the connection's master."""
    os.environ[ENV_SPARK_MASTER] = spark_master()
