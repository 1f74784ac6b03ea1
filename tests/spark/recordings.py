"""The shared recordings: what a real engine wrote, and the tables of the database it came from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sluice.manifest import SourceFile
from tests.conftest import SHARED
from tests.spark.sandbox import landed


@dataclass(frozen=True)
class Recording:
    """One recording by name, in one or more variants of the same history."""

    name: str

    @property
    def folder(self) -> Path:
        """Where the recording is, or would be."""
        return SHARED / "recordings" / self.name

    def require(self) -> None:
        """Skip the tests where the recording is not: it may not be committed."""
        # A clone without others' data beside it has nothing to read.
        if not self.folder.is_dir():
            pytest.skip(f"the shared recording is not at {self.folder}")

    def files_of(self, variant: str) -> list[SourceFile]:
        """A variant's files by hour, as they came."""
        root = self.folder / f"landing.{variant}"
        found = sorted(root.rglob("*.gz"), key=lambda p: (p.parts[-3:-1], p))
        return [landed(path, str(path.relative_to(root))) for path in found]

    def read(self, name: str) -> list[dict[str, Any]]:
        """The JSON lines of one of the recording's own files."""
        lines = (self.folder / name).read_text().split("\n")
        return [json.loads(line) for line in lines if line]
