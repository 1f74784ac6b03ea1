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
_END: Final = r"$|\n|[)\[;,]|\.(?:\s|$)| \("
# Without an option it ends as a clause does: "sluice release of batch b1" is prose. What follows
# the command's name is not read further: names of tables may have any characters.
_COMMAND: Final = re.compile(
    r"\bsluice (?![^\n;)]* --project )"
    rf"(?:(?:{_NAMES})(?: (?=[\w-]+(?: --|{_END}|`))|(?={_END}))|sql (?=\"))"
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
    """Return a text of rich's markup with `--project` in each command of `sluice`, behind its
    name."""
    option = f" --project {escape(shlex.quote(str(project)))}"
    return _COMMAND.sub(lambda found: _inserted(found[0], option), text)


def _inserted(begin: str, option: str) -> str:
    command = begin.rstrip(" ")
    return command + option + begin[len(command) :]


def _with_project(printed: Any, project: Path) -> Any:
    if isinstance(printed, Padding) and isinstance(printed.renderable, str):
        printed.renderable = with_project(printed.renderable, project)
    return with_project(printed, project) if isinstance(printed, str) else printed
