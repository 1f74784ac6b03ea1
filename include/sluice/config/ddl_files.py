"""`ddl:` of a pipeline: scripts with CREATE TABLE statements that give types and keys.

The scripts are part of the configuration. They are found with the rest of it, and read for the
pipeline in use, since parsing a dump takes a second for each half megabyte. A source table matches
a script's table by the parts of the dotted name that both have.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, PrivateAttr

from sluice.bounds import MEBIBYTE
from sluice.config.fields import Strict, refuse_odd_path
from sluice.config.locations import resolved
from sluice.config.source_tables import ListedTables, listed_name
from sluice.config.yaml_file import Document, refused
from sluice.ddl.create_table import CreatedTable, Script, UnreadableScriptError, script
from sluice.errors import ConfigError
from sluice.types.columns import STRING, ColumnType
from sluice.types.source import column_type

MOST_BYTES: Final = 4 * MEBIBYTE
"""Limit for all scripts of a pipeline: every stage reads them."""
_MOST_FILES: Final = 1000
_FILES: Final = ("ddl", "files")
_SCRIPTS: Final = "*.sql"
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def _some(value: list[str]) -> list[str]:
    if not value or "" in value:
        raise ValueError(f"one path or more: files, or folders of {_SCRIPTS}")
    for path in value:
        refuse_odd_path(path)
    return value


class DdlFiles(Strict):
    """The scripts and their SQL dialect."""

    dialect: Literal["mysql", "postgres", "oracle", "tsql"] = Field(
        description="mysql is MariaDB's too, tsql SQL Server's"
    )
    files: Annotated[list[str], AfterValidator(_some)] = Field(
        description="files, or folders of *.sql, relative to sluice.yaml and inside its folder"
    )


@dataclass(frozen=True)
class DdlTable:
    """A table as a script defines it; `where`: file and line.

    `unknown`: column → type, for columns of a type that is not known; `columns` has them as text.
    """

    name: str
    where: str
    columns: Mapping[str, ColumnType]
    key: tuple[str, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Scripts:
    """A pipeline's scripts."""

    document: Document
    paths: tuple[Path, ...]
    dialect: str

    @cached_property
    def tables(self) -> Mapping[str, DdlTable]:
        """The scripts' tables by their names in lower case; raises ConfigError if a script cannot
        be read, or there are none."""
        tables = _tables(self.document, self.paths, self.dialect)
        if not tables:
            what = "CREATE TABLE statements in them, and there is none: is ddl.dialect right?"
            raise refused(self.document, _FILES, what)
        return tables


class PipelineDdl(ListedTables):
    """A pipeline's tables, with the types and keys that its scripts give."""

    ddl: DdlFiles | None = Field(
        None, description="CREATE TABLE statements: types and keys that are not given otherwise"
    )
    _scripts: Scripts | None = PrivateAttr(None)

    def described_by(self, scripts: Scripts) -> Self:
        """Return a copy with its scripts."""
        copy = self.model_copy()
        copy._scripts = scripts
        return copy

    @property
    def ddl_tables(self) -> Mapping[str, DdlTable]:
        """The scripts' tables, which are read at the first use; raises as `Scripts.tables`."""
        return self._scripts.tables if self._scripts else {}

    def ddl_table(self, source: str) -> DdlTable | None:
        """Return the scripts' table for a source table; None if no table or several match."""
        name = source.lower()
        tables = self.ddl_tables
        own = listed_name(tables, name)
        longer = [other for other in tables if other.endswith(f".{name}")]
        names = [own] if own else longer
        return tables[names[0]] if len(names) == 1 else None

    @property
    def unknown_types(self) -> list[str]:
        """Return one line for each column of unknown type in the scripts."""
        return [
            f"{table.where}: {table.name}.{column} is text: unknown type {kind}"
            for table in self.ddl_tables.values()
            for column, kind in table.unknown.items()
        ]


_T = TypeVar("_T", bound=PipelineDdl)


def with_ddl(root: Path, document: Document, pipeline: _T) -> _T:
    """Return the pipeline with its scripts, which are not read yet; raises ConfigError if one is
    not there, or outside the project."""
    if pipeline.ddl is None:
        return pipeline
    paths = (path for place in pipeline.ddl.files for path in _scripts(root, document, place))
    return pipeline.described_by(
        Scripts(document, tuple(dict.fromkeys(paths)), pipeline.ddl.dialect)
    )


def _scripts(root: Path, document: Document, place: str) -> list[Path]:
    path = _inside(root, document, place, Path(resolved(root, place)))
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise refused(document, _FILES, f"a file or folder, found no {place}")
    inside = (_inside(root, document, place, p.resolve()) for p in sorted(path.glob(_SCRIPTS)))
    scripts = [script for script in inside if script.is_file()]
    if not 0 < len(scripts) <= _MOST_FILES:
        raise refused(document, _FILES, f"files {_SCRIPTS} in {place}, {_MOST_FILES} at most")
    return scripts


def _inside(root: Path, document: Document, place: str, path: Path) -> Path:
    """Return a resolved path; raises ConfigError if it is outside the project, links followed."""
    if not path.is_relative_to(root):
        raise refused(document, _FILES, f"a path inside the project's folder, got {place!r}")
    return path


def _tables(document: Document, paths: Iterable[Path], dialect: str) -> dict[str, DdlTable]:
    tables: dict[str, DdlTable] = {}
    keys: dict[str, tuple[str, ...]] = {}
    for path, text in _texts(document, paths):
        parsed = _parsed(path, text, dialect)
        keys |= {name.lower(): key for name, key in parsed.keys.items()}
        for table in (_ddl_table(path, dialect, made) for made in parsed.tables):
            _refuse_another(tables.setdefault(table.name.lower(), table), table)
    return {n: replace(t, key=t.key or keys.get(n, ())) for n, t in tables.items()}


def _texts(document: Document, paths: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    left = MOST_BYTES
    for path in paths:
        try:
            with path.open("rb") as file:
                raw = file.read(left + 1)
            left -= len(raw)
            if left < 0:
                raise refused(document, _FILES, f"no more than {MOST_BYTES} bytes in all of them")
            # SQL Server's tools save scripts as UTF-16.
            text = raw.decode("utf-16" if raw.startswith(_UTF_16) else "utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: expected a readable UTF-8 file: {error}") from error
        yield path, text


@lru_cache(maxsize=16)
def _parsed(path: Path, text: str, dialect: str) -> Script:
    try:
        return script(text, dialect)
    except UnreadableScriptError as error:
        raise ConfigError(f"{path}: expected a script in {dialect}: {error}") from error


def _ddl_table(path: Path, dialect: str, made: CreatedTable) -> DdlTable:
    where = f"{path}:{made.line}"
    types = {name: _type_of(name, where, dialect, made) for name in made.columns}
    return DdlTable(
        made.name,
        where,
        {name: kind or STRING for name, kind in types.items()},
        made.key,
        {name: made.columns[name].text for name, kind in types.items() if kind is None},
    )


def _type_of(name: str, where: str, dialect: str, made: CreatedTable) -> ColumnType | None:
    """Return a column's type; None if it is unknown."""
    named = made.columns[name]
    try:
        return column_type(dialect, named)
    except ValueError as error:
        raise ConfigError(
            f"{where}: expected column {name} of table {made.name} in {dialect}, got the type "
            f"{named.text}: {error}"
        ) from error


def _refuse_another(first: DdlTable, table: DdlTable) -> None:
    """Raise ConfigError if two scripts define one table differently."""
    if (first.columns, first.key) != (table.columns, table.key):
        raise ConfigError(
            f"{table.where}: expected table {table.name} once, or as it is in {first.where}"
        )
