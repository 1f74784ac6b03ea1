"""The environment variables that Sluice reads, and the project folder that they name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

CHECKOUT: Final = Path(__file__).resolve().parents[2]
ENV_PROJECT: Final = "SLUICE_PROJECT"
ENV_CATALOG_URI: Final = "SLUICE_CATALOG_URI"
ENV_REST_TOKEN: Final = "SLUICE_CATALOG_TOKEN"
ENV_REST_CREDENTIAL: Final = "SLUICE_CATALOG_CREDENTIAL"
ENV_SPARK_MASTER: Final = "SLUICE_SPARK_MASTER"
ENV_S3_ENDPOINT: Final = "SLUICE_S3_ENDPOINT"
ENV_SOURCE_USER: Final = "SLUICE_SOURCE_USER"
ENV_SOURCE_PASSWORD: Final = "SLUICE_SOURCE_PASSWORD"
ENV_REGISTRY_USER_INFO: Final = "SCHEMA_REGISTRY_USER_INFO"
ENV_REGISTRY_TOKEN: Final = "SCHEMA_REGISTRY_TOKEN"
SECRETS: Final = (
    ENV_CATALOG_URI, ENV_REST_TOKEN, ENV_REST_CREDENTIAL, ENV_SOURCE_USER, ENV_SOURCE_PASSWORD,
    ENV_REGISTRY_USER_INFO, ENV_REGISTRY_TOKEN, "PGUSER", "PGPASSWORD",
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
)  # fmt: skip
"""The variables that hold secrets (docs/security.md, "Secrets")."""
ENV_FAULT: Final = "SLUICE_FAULT"
"""For tests: where the process ends, see `sluice.faults`."""


def from_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return what the environment has of some variables, by the names that a client has for it."""
    values = {name: os.environ.get(variable) for name, variable in variables.items()}
    return {name: value for name, value in values.items() if value}


def project_folder(environment: Mapping[str, str]) -> Path:
    """Return the project that the environment names, else the checkout's own."""
    return Path(environment.get(ENV_PROJECT) or CHECKOUT / "include")
