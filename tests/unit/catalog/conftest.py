"""A catalog for the tests of commits."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog

from tests.unit.staged_tables import one_table


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return one_table(tmp_path)
