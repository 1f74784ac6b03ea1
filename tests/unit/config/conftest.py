"""The configuration is read without what the environment of the tests says."""

from __future__ import annotations

import pytest

from sluice.environment import ENV_CATALOG_URI, ENV_SPARK_MASTER
from tests.planted import SECRET_VARIABLES


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (ENV_CATALOG_URI, ENV_SPARK_MASTER, "PGUSER", *SECRET_VARIABLES):
        monkeypatch.delenv(name, raising=False)
