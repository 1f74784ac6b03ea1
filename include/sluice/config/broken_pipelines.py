"""The names by which pipelines whose files are invalid are shown."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Final

from sluice.config.yaml_file import read_yaml

_NAME: Final = re.compile(r"""^name:[ \t]*["']?([\w-]+)["']?[ \t]*(?:#.*)?$""", re.MULTILINE)


def by_name(mistakes: Mapping[Path, str], taken: Container[str]) -> dict[str, str]:
    """Return mistakes by the pipeline's `name`; by the file's stem, else its full name, if that is
    taken or unreadable."""
    named: dict[str, str] = {}
    for path, mistake in mistakes.items():
        names = (_stated_name(path), path.stem, path.name)
        free = (name for name in names if name not in taken and name not in named)
        named[next(free, str(path))] = mistake
    return named


def _stated_name(path: Path) -> str:
    try:
        name = read_yaml(path).data.get("name")
    except Exception:  # the mistake is reported already
        return _written_name(path)
    return name if isinstance(name, str) else path.stem


def _written_name(path: Path) -> str:
    """Return the name on its own line in a text that is no YAML, so that a mistake on another line
    is shown under the pipeline's name."""
    try:
        found = _NAME.search(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return path.stem
    return found[1] if found else path.stem
