"""The console of the command line: commands that a message shows are for the same project."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, ClassVar, Final

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

_NAMES: Final = (
    "maintain|plan|raise-epoch|reconcile|release|reprocess|rollback|run|status|validate|verify"
)
_OPTION: Final = (
    r" --(?:(?:batch|file|from|source|table|to) [\w.…-]+"
    r"|(?:accept-late|accept-open|changed|dry-run|full-load|json|rebuild)\b)"
)
_END: Final = r"$|\n|[)\[;,]|\.(?:\s|$)| \("
# Without an option it ends as a clause does: "sluice release of batch b1" is prose.
_COMMAND: Final = re.compile(
    rf"\bsluice (?:(?:{_NAMES}) [\w-]+(?:{_OPTION})+"
    rf"|(?:{_NAMES}) [\w-]+(?={_END}|`)"
    rf"|(?:{_NAMES})(?={_END})"
    r'|sql "[^"]*")(?! --)'
)


class ShownCommands(Console):
    """A console that adds `--project` to the commands in what it prints.

    `project`: the one of the command that runs, None if commands work without the option.
    """

    project: ClassVar[Path | None] = None

    def print(self, *objects: Any, **how: Any) -> None:
        """Print as `Console` does."""
        if self.project is not None:
            objects = tuple(_with_project(one, self.project) for one in objects)
        super().print(*objects, **how)


def with_project(text: str, project: Path) -> str:
    """Return a text of rich's markup with `--project` behind each command of `sluice`."""
    option = f" --project {escape(shlex.quote(str(project)))}"
    return _COMMAND.sub(lambda found: found[0] + option, text)


def _with_project(printed: Any, project: Path) -> Any:
    if isinstance(printed, Padding) and isinstance(printed.renderable, str):
        printed.renderable = with_project(printed.renderable, project)
    return with_project(printed, project) if isinstance(printed, str) else printed
