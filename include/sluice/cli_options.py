"""Options that several commands share."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from sluice.cli_console import ShownCommands
from sluice.config.project import PROJECT_FILE
from sluice.environment import ENV_PROJECT, project_folder
from sluice.operations.selection import Selection
from sluice.operations.window import Window


def _default_project() -> Path:
    here = Path()
    return here if (here / PROJECT_FILE).is_file() else project_folder({})


DEFAULT_PROJECT: Final = _default_project()
"""Used if neither the option nor the environment names a project: the current folder if it is one,
else the checkout's."""


def _noted(project: Path) -> Path:
    """Have shown commands name the project, unless they work without."""
    usual = project.expanduser().resolve() == DEFAULT_PROJECT.resolve()
    ShownCommands.project = None if usual else project
    return project


ProjectDir = Annotated[
    Path,
    typer.Option("--project", envvar=ENV_PROJECT, callback=_noted, help="Folder with sluice.yaml"),
]


def moment(text: str) -> datetime:
    """Read a time of the command line; raises BadParameter with what is expected."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"expected a time such as 2026-03-02T09:00 (UTC), got {text!r}"
        ) from None


Since = Annotated[
    datetime | None, typer.Option("--from", parser=moment, help="UTC, inclusive: 2026-03-02T09:00")
]
To = Annotated[
    datetime | None, typer.Option("--to", parser=moment, help="UTC, exclusive: 2026-03-02T10:00")
]
Files = Annotated[list[str] | None, typer.Option(help="Only these files")]
Tables = Annotated[
    list[str] | None, typer.Option(help="Only these source tables; re-read files already loaded")
]
Changed = Annotated[
    bool, typer.Option("--changed", help="Also load files that changed after they were loaded")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON")]


def selected(
    since: datetime | None,
    to: datetime | None,
    files: list[str] | None,
    changed: bool,
    tables: list[str] | None = None,
) -> Selection:
    """Return the files that the options select."""
    bounded = since is not None or to is not None
    window = Window.between(since, to, ("--from", "--to")) if bounded else None
    return Selection(window, files=tuple(files or ()), tables=tuple(tables or ()), changed=changed)
