"""Raise a pipeline's epoch in its own YAML file when the source's positions restart.

If the new epoch begins with a full load, the file records that with the time.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sluice.config.epochs import MAX_EPOCH
from sluice.config.project import Project
from sluice.config.yaml_file import read_yaml
from sluice.errors import ConfigError

_KEY: Final = "epoch"
_LINE: Final = re.compile(rf"^{_KEY}:[ \t]*\d+", re.MULTILINE)
_FULL_LOADS: Final = "full_loads"
_LIST: Final = re.compile(rf"^{_FULL_LOADS}:[ \t]*(#.*)?\n", re.MULTILINE)


def raise_epoch(project: Project, pipeline: str, full_load: bool = False) -> int:
    """Raise the epoch by one in the pipeline's YAML, keeping comments; returns the new epoch.

    `full_load`: the epoch begins with a full load, as of now. Raises ConfigError with the line to
    write by hand if the file cannot be changed.
    """
    raised = project.pipeline(pipeline).epoch + 1
    if raised > MAX_EPOCH:
        raise ConfigError(f"pipeline {pipeline}: epoch {MAX_EPOCH} is the last there can be")
    path = project.files[pipeline].resolve()  # a link to it stays one
    text = _with_epoch(path.read_text(encoding="utf-8"), raised)
    changed: dict[str, Any] = {_KEY: raised}
    if full_load:
        declared = {_KEY: raised, "at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
        text = _with_full_load(text, declared)
        changed[_FULL_LOADS] = [declared, *_content(path).get(_FULL_LOADS, [])]
    _replace(path, text, changed)
    return raised


def _content(path: Path) -> dict[str, Any]:
    try:
        return read_yaml(path).data
    except ConfigError:
        return {}


def _with_epoch(text: str, epoch: int) -> str:
    line = f"{_KEY}: {epoch}"
    changed, found = _LINE.subn(line, text)
    return changed if found else f"{text.rstrip()}\n{line}\n"


def _with_full_load(text: str, declared: dict[str, Any]) -> str:
    line = f"  - {_flow(declared)}\n"
    changed, found = _LIST.subn(lambda key: key.group() + line, text)
    return changed if found else f"{text.rstrip()}\n{_FULL_LOADS}:\n{line}"


def _flow(value: Any) -> str:
    """Return a value as one line of YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(one)}" for key, one in value.items()) + "}"
    return f"[{', '.join(map(_flow, value))}]" if isinstance(value, list) else str(value)


def _line_end(path: Path) -> str:
    """Return the line end that the file uses."""
    raw = path.read_bytes()
    return "\r\n" if 0 < raw.count(b"\n") == raw.count(b"\r\n") else "\n"


def _replace(path: Path, text: str, changed: dict[str, Any]) -> None:
    """Replace the file atomically, after checking that nothing else in it changes."""
    draft = path.with_name(f".{path.name}.draft")
    lines = " and ".join(f"{key}: {_flow(value)}" for key, value in changed.items())
    try:
        draft.write_text(text, encoding="utf-8", newline=_line_end(path))
        if _content(draft) != _content(path) | changed:
            raise ConfigError(f"{path}: write {lines} into it by hand")
        shutil.copymode(path, draft)
        os.replace(draft, path)
    except OSError as error:
        raise ConfigError(f"{path}: {error}; write {lines} into it by hand") from error
    finally:
        with suppress(OSError):  # it would hide the error; a read-only disk refuses any deletion
            draft.unlink()
