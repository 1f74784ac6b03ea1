"""Selections: the landed files for which a run is requested, whether a batch has them or not."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

from sluice.counting import counted
from sluice.errors import ConfigError, TerminalError
from sluice.escaping import shown
from sluice.objects.store import ObjectStore, StoredObject, open_store
from sluice.operations.context import Context
from sluice.operations.window import Window


@dataclass(frozen=True)
class Selection:
    """Either one window, or everything below `until` (None: everything), or certain files.

    `tables`: for these source tables alone, of loaded files too (see `single_tables`); () for all.
    `changed`: also objects that replaced loaded ones. Raises ConfigError for both together.
    """

    window: Window | None = None
    until: datetime | None = None
    files: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    changed: bool = False

    def __post_init__(self) -> None:
        """Refuse changed files for some tables alone."""
        if self.tables and self.changed:
            raise ConfigError(
                "changed files are loaded for all tables: --changed without --table (in the form: "
                "Changed files without Tables)"
            )

    @property
    def explicit(self) -> bool:
        """Whether a window or files were named."""
        return bool(self.files or self.window)

    def holds(self, hour: str) -> bool:
        """Whether an hour, in the manifest's notation, is selected."""
        begins = hour_start(hour)
        if self.window is not None:
            return self.window.holds(begins)
        return self.until is None or begins < self.until


@dataclass(frozen=True)
class FileHour:
    """A file of a batch, with its hour in the manifest's notation."""

    key: str
    hour: str


EVERYTHING: Final = Selection()
# Those of seven years: a landing folder has many files of each, and each run lists them.
_HOURS_KEPT: Final = 1 << 16


def open_landing(ctx: Context) -> ObjectStore:
    """Open the store in which the pipeline's files land."""
    return open_store(ctx.pipeline.landing.url, ctx.pipeline.landing.region, versions=True)


def landed(ctx: Context, selection: Selection = EVERYTHING) -> list[StoredObject]:
    """Return the selected objects, whether a batch has them or not."""
    return selected(ctx, open_landing(ctx), selection)


def selected(ctx: Context, store: ObjectStore, selection: Selection) -> list[StoredObject]:
    """Return the selected objects of an open store, whether a batch has them or not.

    Raises TerminalError for a named file that is not there, and for a landing folder that is none.
    """
    _refuse_file(ctx)
    listed = store.list(ctx.pipeline.landing.pattern)
    objects = sorted((o for o in listed if _can_be_named(ctx, o.key)), key=lambda o: o.key)
    if not objects:
        refuse_missing_folder(ctx)
    if selection.files:
        objects = _named(ctx, objects, selection.files)
    if selection.until is not None:
        _report_future_hours(ctx, objects)
    return [o for o in objects if selection.holds(o.hour)]


def covers(ctx: Context, files: Collection[FileHour], selection: Selection = EVERYTHING) -> bool:
    """Whether a selection has all of a batch's files."""
    if selection.files:
        wanted = {way for name in selection.files for way in _spellings(ctx, name)}
        return all(wanted & {file.key, _absolute(ctx, file.key)} for file in files)
    return all(selection.holds(file.hour) for file in files)


@lru_cache(maxsize=_HOURS_KEPT)
def hour_start(hour: str) -> datetime:
    """Return the start of an hour in the manifest's notation: 20260301T05."""
    return datetime.strptime(hour, "%Y%m%dT%H").replace(tzinfo=UTC)


def _named(ctx: Context, objects: list[StoredObject], files: Sequence[str]) -> list[StoredObject]:
    by_name = {name: o for o in objects for name in (o.key, _absolute(ctx, o.key))}
    ways = {name: [way for way in _spellings(ctx, name) if way in by_name] for name in files}
    if missing := [name for name, found in ways.items() if not found]:
        raise TerminalError(
            f"pipeline {ctx.pipeline.name}: {', '.join(map(repr, missing))} are not among the "
            f"files of {ctx.pipeline.landing.url} that match {ctx.pipeline.landing.pattern}"
        )
    chosen = [by_name[found[0]] for found in ways.values()]
    return list({found.key: found for found in chosen}.values())


def _spellings(ctx: Context, name: str) -> tuple[str, ...]:
    """Return the keys and paths that a user may mean by a name; in a bucket only the key."""
    landing = ctx.pipeline.landing
    if landing.on_s3:
        return (name,)
    inside = os.path.normpath(os.path.join(landing.url, name))
    return (name, inside, str(Path(name).resolve()))


def _absolute(ctx: Context, key: str) -> str:
    return f"{ctx.pipeline.landing.url}/{key}"


def _report_future_hours(ctx: Context, objects: list[StoredObject]) -> None:
    """Report files whose name has a future hour (local time, or a mistake), which an
    hour's run skips."""
    now = datetime.now(UTC)
    if later := [o.key for o in objects if hour_start(o.hour) > now]:
        ctx.say(
            f"land: {counted(len(later), 'file')}, such as {shown(later[0])}, of an hour that is "
            "yet to come (dt=…/hr=… is UTC): left to the run of that hour, or to one without a "
            "window"
        )


def _can_be_named(ctx: Context, key: str) -> bool:
    """Whether a name is UTF-8: neither a manifest nor Spark can have any other."""
    try:
        key.encode()
    except UnicodeEncodeError:
        name = key.encode(errors="surrogateescape")
        ctx.say(
            f"land: pipeline {ctx.pipeline.name}: the file {name!r} is left out, for its name is "
            "no UTF-8; rename it, or take it out of the landing folder"
        )
        return False
    return True


def _refuse_file(ctx: Context) -> None:
    landing = ctx.pipeline.landing
    if not landing.on_s3 and Path(landing.url).is_file():
        raise TerminalError(
            f"pipeline {ctx.pipeline.name}: its landing folder {landing.url} is a file, expected a "
            f"folder: write landing: {{url: {Path(landing.url).parent}, pattern: "
            f'"{Path(landing.url).name}"}}'
        )


def refuse_missing_folder(ctx: Context) -> None:
    """Raise TerminalError if the landing folder is not there, as while its disk is not mounted."""
    landing = ctx.pipeline.landing
    if not landing.on_s3 and not Path(landing.url).is_dir():
        raise TerminalError(
            f"pipeline {ctx.pipeline.name}: its landing folder {landing.url} does not exist; make "
            "it, or mend landing.url"
        )
