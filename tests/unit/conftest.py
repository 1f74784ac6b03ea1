"""Fixtures that several folders of unit tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.landing_folders import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.fixture
def messages() -> list[str]:
    """Gets each line that is told, where a context is opened with `messages.append`."""
    return []
