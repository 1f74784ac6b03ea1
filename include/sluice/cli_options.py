"""Options that several commands share."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from sluice.environment import ENV_PROJECT, project_folder

ProjectDir = Annotated[
    Path, typer.Option("--project", envvar=ENV_PROJECT, help="Folder with sluice.yaml")
]
Since = Annotated[datetime | None, typer.Option("--from", help="UTC, inclusive: 2026-03-02T09:00")]
To = Annotated[datetime | None, typer.Option("--to", help="UTC, exclusive: 2026-03-02T10:00")]
Files = Annotated[list[str] | None, typer.Option(help="Only these files")]
Tables = Annotated[
    list[str] | None, typer.Option(help="Only these source tables; re-read files already loaded")
]
Changed = Annotated[
    bool, typer.Option("--changed", help="Also load files that changed after they were loaded")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON")]
DEFAULT_PROJECT: Final = project_folder({})
"""Used if neither the option nor the environment names a project."""
