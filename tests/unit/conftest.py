"""Fixtures that several folders of unit tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.folders import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.fixture
def said() -> list[str]:
    """Gets each line that is told, where a context is opened with `said.append`."""
    return []
