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
_ADD: Final = (
    f"airflow connections add {SPARK_CONNECTION} --conn-type spark --conn-host 'local[*]', or"
    " spark://host:7077"
)
_YARN: Final = "yarn"
# Spark refuses YARN without one of the first two, which may also be set in a conf folder.
_YARN_NEEDS: Final = frozenset({"HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR"})


def _require_connection() -> None:
    """Raise ConfigError without the connection: Airflow would silently use `--master yarn`."""
    try:
        BaseHook.get_connection(SPARK_CONNECTION)
    except AirflowNotFoundException as error:
        raise ConfigError(
            f"Airflow has no connection {SPARK_CONNECTION!r}. Add it: {_ADD}"
        ) from error


def spark_master() -> str:
    """Return the connection's master; raises ConfigError without the connection, for one whose
    drivers would not run on the worker, and for YARN where Spark is not set up for it."""
    _require_connection()
    connection = SparkSubmitHook(conn_id=SPARK_CONNECTION)._connection
    if (mode := connection["deploy_mode"]) not in (None, "", _CLIENT):
        raise ConfigError(
            f"Airflow's connection {SPARK_CONNECTION!r} has deploy-mode {mode!r}, where a driver"
            " has neither Sluice nor the environment's secrets. Take it out of the extra, or write"
            f" {_CLIENT}"
        )
    if connection["master"] == _YARN and _YARN_NEEDS.isdisjoint(os.environ):
        raise ConfigError(
            f"Airflow's connection {SPARK_CONNECTION!r} has the master {_YARN}, as that of"
            " `airflow connections create-default-connections` has, and neither HADOOP_CONF_DIR nor"
            f" YARN_CONF_DIR is set. Set one, or replace the connection: airflow connections delete"
            f" {SPARK_CONNECTION}, then {_ADD}"
        )
    return str(connection["master"])


def use_connections_master() -> None:
    """Make loads that other stages start in this process use the connection's master."""
    os.environ[ENV_SPARK_MASTER] = spark_master()
