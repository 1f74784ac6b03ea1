"""What a load did: the typed content of `result.json`, handed from Spark to publish."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from sluice.names import full_name
from sluice.typed_json import read_json


@dataclass(frozen=True)
class Counts:
    """What happened to every record: `read` is the sum of all the others."""

    read: int = 0
    applied: int = 0
    superseded: int = 0
    duplicate: int = 0
    late: int = 0
    ignored: int = 0
    quarantined: int = 0

    @property
    def balanced(self) -> bool:
        """True when every record read has exactly one outcome."""
        return self.read == (
            self.applied + self.superseded + self.duplicate + self.late
            + self.ignored + self.quarantined
        )  # fmt: skip

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


@dataclass(frozen=True)
class StagedTable:
    """One Iceberg table that the batch wrote on a branch, and what `publish` has to require.

    `highest` is a position that no row of the head is above; `defaults` what is told of columns,
    renames and additions among it (see `spark_jobs.planning.told`); None where that is not known.
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

    @property
    def full_name(self) -> str:
        """Namespace and name, for people."""
        return full_name(self.namespace, self.name)


@dataclass(frozen=True)
class ComparedTable:
    """A table that the batch was compared with, at a snapshot of `main`, and has nothing for.

    It holds only while `main` is there: of another state the batch might have had something.
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
    """Records that share key and position with another one of other content; `at`: the lowest
    such position, None where there are none."""

    records: int = 0
    at: str | None = None

    def __add__(self, other: Conflicts) -> Conflicts:
        told = [at for at in (self.at, other.at) if at is not None]
        return Conflicts(self.records + other.records, min(told, default=None))


@dataclass(frozen=True)
class Nulled:
    """A column of `null_misfits`, and how many values are NULL in it because they did not fit."""

    column: str
    values: int


@dataclass(frozen=True)
class TableResult:
    """One target: where its events came from, what happened to them, what it staged, and which of
    its tables it was compared with and left alone."""

    source: str
    target: str
    counts: Counts
    staged: tuple[StagedTable, ...] = ()
    newest_source_ts: str | None = None
    compared: tuple[ComparedTable, ...] = ()
    conflicts: Conflicts = Conflicts()
    nulled: tuple[Nulled, ...] = ()


@dataclass(frozen=True)
class LeftOut:
    """A source table that the batch goes without, for it cannot be loaded, and its records, which
    no other number of the batch counts."""

    source: str
    records: int
    error: str


@dataclass(frozen=True)
class BatchResult:
    """The whole batch. `unassigned` counts records that belong to no target table; at `epoch` its
    positions are. `completed`: the published batches whose quarantined records it decoded again.
    `notes`: what an operator should know of it, a line each."""

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

    @property
    def total(self) -> Counts:
        """The outcomes of all its records."""
        return sum((table.counts for table in self.tables), self.unassigned)

    @property
    def staged(self) -> tuple[StagedTable, ...]:
        """What it staged of all its targets."""
        return tuple(staged for table in self.tables for staged in table.staged)

    def to_json(self) -> str:
        """The document that the driver writes last, when everything else is done."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> BatchResult:
        """Read what `to_json` wrote."""
        return read_json(BatchResult, text)
