"""What a batch has of one source table: its name there, and a summary of its events."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import Column, Row
from pyspark.sql import functions as F

from sluice.config.policies import IGNORE
from sluice.source_names import stored_name
from spark_jobs.canonical import SOURCE_PARTS


@dataclass(frozen=True)
class Source:
    """A table's name at its source; '' for parts that the format lacks."""

    database: str
    schema: str
    table: str

    @property
    def name(self) -> str:
        """The dotted name, without missing parts."""
        return ".".join(part for part in (self.database, self.schema, self.table) if part)


@dataclass(frozen=True, order=True)
class Drop:
    """A statement that is read as a TRUNCATE: its position, with epoch, and its text."""

    at: str
    text: str


@dataclass
class TableSummary:
    """A summary of one table's events, the same in every order of delivery.

    `images`, `keys` and `types` have each distinct value by its `short_name`. `lowest`: the lowest
    position of an event with such an image or types, by short name and kind of position; for
    arrivals, whose positions are not known yet, only the kind. `may_move`: whether an update may
    change the key; True unless it was checked. `drops`: the statements that are read as a
    TRUNCATE: a DROP of the table, or a TRUNCATE of a table without other events.
    """

    source: Source
    records: int = 0
    ignored: int = 0
    rejected: int = 0
    ddl: int = 0
    truncates: int = 0
    newest_source_ts: str | None = None
    images: dict[int, tuple[str, ...]] = field(default_factory=dict)
    keys: dict[int, tuple[str, ...]] = field(default_factory=dict)
    types: dict[int, str] = field(default_factory=dict)
    lowest: dict[tuple[int, str], str] = field(default_factory=dict)
    partial: bool = False
    unordered: bool = False
    has_old_images: bool = False
    may_move: bool = True
    drops: tuple[Drop, ...] = ()

    @property
    def total(self) -> int:
        """The number of records, whatever their outcome."""
        return self.records + self.ignored + self.rejected

    @property
    def has_changes(self) -> bool:
        """Whether it has other events than statements."""
        return self.records > self.ddl

    @property
    def columns(self) -> set[str]:
        """The names of all columns in images."""
        return {name for image in self.images.values() for name in image}

    def passed_over(self, on_truncate: str) -> int:
        """Count the events that change no row, by the table's `on_truncate`."""
        return self.ddl + (self.truncates if on_truncate == IGNORE else 0)

    @property
    def duplicated(self) -> bool:
        """Whether an image has a column twice, in two spellings or as its table calls it too."""
        images = self.images.values()
        return any(len({stored_name(n).lower() for n in image}) < len(image) for image in images)


def source_of(row: Row) -> Source:
    """Return the table of a row with the parts of its name."""
    return Source(*(row[part] or "" for part in SOURCE_PARTS))


def short_name(part: Column) -> Column:
    """Return a hash that identifies a list of names or a description of types."""
    return F.xxhash64(part)
