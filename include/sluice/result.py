"""The result of a load: the typed content of `result.json`, passed from Spark to publish."""

from __future__ import annotations

from dataclasses import dataclass, fields

from sluice.names import full_name
from sluice.typed_json import TypedJson


@dataclass(frozen=True)
class Counts:
    """Records by outcome: `read` is the sum of all the others."""

    read: int = 0
    applied: int = 0
    superseded: int = 0
    duplicate: int = 0
    late: int = 0
    ignored: int = 0
    quarantined: int = 0

    @property
    def balanced(self) -> bool:
        """Whether every record read has exactly one outcome."""
        return self.read == (
            self.applied + self.superseded + self.duplicate + self.late
            + self.ignored + self.quarantined
        )  # fmt: skip

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True)
class StagedTable:
    """An Iceberg table that the batch wrote on a branch, with what `publish` requires of it.

    `highest`: an upper bound of the rows' positions at the head. `defaults`: the value of the table
    property with defaults, renames and additions of columns (see
    `spark_jobs.planning.column_history`). `hints`: that of the property with the hints of columns
    (`spark_jobs.planning.stored_hints`). Each is None if unknown. `dropped`: columns that the table
    loses when it is published.
    """

    namespace: str
    name: str
    branch: str
    base_snapshot: int | None
    head_snapshot: int
    base_schema: int
    created: bool = False
    highest: str | None = None
    defaults: str | None = None
    hints: str | None = None
    dropped: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """Namespace and name, for people."""
        return full_name(self.namespace, self.name)


def moved_main(before: int | None, after: int | None) -> str:
    """Return the move of a table's `main` from one snapshot to another, for people."""
    return f"{before or 'none'} → {after or 'none'}"


@dataclass(frozen=True)
class ComparedTable:
    """A table with which the batch was compared, at a snapshot of `main`, without changing it.

    The result only holds while `main` is at that snapshot.
    """

    namespace: str
    name: str
    snapshot: int | None

    @property
    def full_name(self) -> str:
        """Namespace and name, for people."""
        return full_name(self.namespace, self.name)


@dataclass(frozen=True)
class Conflicts:
    """Records that share key and position with another record of different content; `at` is the
    lowest such position, None without any."""

    records: int = 0
    at: str | None = None

    def __add__(self, other: Conflicts) -> Conflicts:
        positions = [at for at in (self.at, other.at) if at is not None]
        return Conflicts(self.records + other.records, min(positions, default=None))


@dataclass(frozen=True)
class Nulled:
    """A column of `null_misfits`, and how many of its values are NULL because they did not fit."""

    column: str
    values: int


@dataclass(frozen=True)
class TableResult:
    """One target: its source, the outcomes of its events, the tables that were staged, those with
    which the batch was compared and that it left unchanged, and the columns that the target lost
    (`on_dropped_column`)."""

    source: str
    target: str
    counts: Counts
    staged: tuple[StagedTable, ...] = ()
    newest_source_ts: str | None = None
    compared: tuple[ComparedTable, ...] = ()
    conflicts: Conflicts = Conflicts()
    nulled: tuple[Nulled, ...] = ()
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True)
class LeftOut:
    """A source table that cannot be loaded, and the number of its records, which no other
    count includes."""

    source: str
    records: int
    error: str


@dataclass(frozen=True)
class BatchResult(TypedJson):
    """The result of a whole batch.

    `unassigned`: records that belong to no target. `epoch`: the epoch of its positions.
    `completed`: published batches whose quarantined records it decoded again. `notes`: messages for
    the operator, one line each. `folded`: of a rebuild, the published batches whose changes it
    counted.
    """

    pipeline: str
    batch_id: str
    attempt: str
    tables: tuple[TableResult, ...]
    unassigned: Counts = Counts()
    seconds: float = 0.0
    epoch: int = 0
    left_out: tuple[LeftOut, ...] = ()
    completed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    folded: tuple[str, ...] = ()

    @property
    def total(self) -> Counts:
        """The outcomes of all records."""
        return sum((table.counts for table in self.tables), self.unassigned)

    @property
    def staged(self) -> tuple[StagedTable, ...]:
        """The staged tables of all targets."""
        return tuple(staged for table in self.tables for staged in table.staged)
