"""The epoch of a pipeline, raised in its own file when the source starts counting anew."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

from sluice.config import MAX_EPOCH, PIPELINES_FOLDER, Project
from sluice.errors import ConfigError
from sluice.yamlfile import read_yaml

_KEY: Final = "epoch"
_LINE: Final = re.compile(rf"^{_KEY}:[ \t]*\d+", re.MULTILINE)


def raise_epoch(project: Project, pipeline: str) -> int:
    """Raise the epoch by one in the pipeline's YAML, comments kept; returns the new one.

    Raises ConfigError with the line to write by hand where the file can't be changed so.
    """
    raised = project.pipeline(pipeline).epoch + 1
    if raised > MAX_EPOCH:
        raise ConfigError(f"pipeline {pipeline}: epoch {MAX_EPOCH} is the last there can be")
    path = _file_of(project, pipeline)
    _replace(path, _with_epoch(path.read_text(encoding="utf-8"), raised), raised)
    return raised


def _file_of(project: Project, pipeline: str) -> Path:
    files = sorted((project.root / PIPELINES_FOLDER).glob("*.y*ml"))
    return next(path for path in files if _content(path).get("name") == pipeline)


def _content(path: Path) -> dict[str, Any]:
    try:
        return read_yaml(path).data
    except ConfigError:
        return {}


def _with_epoch(text: str, epoch: int) -> str:
    line = f"{_KEY}: {epoch}"
    changed, found = _LINE.subn(line, text)
    return changed if found else f"{text.rstrip()}\n{line}\n"


def _replace(path: Path, text: str, epoch: int) -> None:
    """Written beside the file and read back first: nothing else of it may change."""
    draft = path.with_name(f".{path.name}.draft")
    try:
        draft.write_text(text, encoding="utf-8")
        if _content(draft) != _content(path) | {_KEY: epoch}:
            raise ConfigError(f"{path}: write {_KEY}: {epoch} into it by hand")
        os.replace(draft, path)
    except OSError as error:
        raise ConfigError(f"{path}: {error}; write {_KEY}: {epoch} into it by hand") from error
    finally:
        draft.unlink(missing_ok=True)
