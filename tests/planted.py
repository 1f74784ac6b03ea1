"""A secret to plant where a person may put one, and the variables that hold Sluice's secrets."""

from __future__ import annotations

PLANTED = "PLANTED/s3cr3t+1"
SECRET_VARIABLES = (
    "SLUICE_CATALOG_TOKEN", "SLUICE_CATALOG_CREDENTIAL", "PGPASSWORD",
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
)  # fmt: skip
