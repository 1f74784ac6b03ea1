"""The result of a verification: the driver's last line and the reports as types."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from sluice.typed_json import TypedJson

MISSING: Final = "missing"
UNEXPECTED: Final = "unexpected"
REPEATED: Final = "repeated"
DIFFERS: Final = "differs"
# In the order of reports.
KINDS: Final = (MISSING, UNEXPECTED, REPEATED, DIFFERS)

# The number of ranges of the key's hash; ranges are compared before rows.
BUCKETS: Final = 256

Row = dict[str, str | None]


@dataclass(frozen=True)
class Difference:
    """One key whose row differs from the changelog, rows as text.

    `kind` is one of KINDS; `columns`: those that differ; a side without a row is None.
    """

    kind: str
    columns: tuple[str, ...]
    expected: Row | None
    found: Row | None


@dataclass(frozen=True)
class Comparison:
    """One Iceberg table compared with its expected rows.

    `snapshot`: the id of `main`'s snapshot, as text since JSON readers round such numbers; None:
    there is none. `buckets`: the number of ranges of the key's hash that differ. `kinds` counts all
    keys that differ, `shown` has the first of them.
    """

    table: str
    snapshot: str | None
    expected: int
    found: int
    buckets: int
    kinds: dict[str, int]
    shown: tuple[Difference, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether nothing differs."""
        return self.buckets == 0

    @property
    def differing(self) -> int:
        """The number of keys that differ."""
        return sum(self.kinds.values())


@dataclass(frozen=True)
class TableReport:
    """One target with its tombstones and the tables of its modes (`beside`).

    `foreign`: snapshots of `main` that no batch wrote. `tombstones` None: compared with a live
    source, which has none. `floor`: changes up to this position have expired; only rows above it
    are compared.
    """

    target: str
    key: tuple[str, ...]
    rows: Comparison
    tombstones: Comparison | None
    foreign: tuple[str, ...] = ()
    floor: str | None = None
    beside: tuple[Comparison, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether rows, tombstones and tables of modes all agree."""
        return all(comparison.agrees for comparison in self.comparisons)

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """All comparisons of the target."""
        tombstones = () if self.tombstones is None else (self.tombstones,)
        return (self.rows, *tombstones, *self.beside)


@dataclass(frozen=True)
class Verification(TypedJson):
    """The verification of a pipeline; `notes`: remarks for the reader.

    `source`: the address of the live source that it was compared with; None: its changelogs.
    """

    pipeline: str
    at: str
    batches: int
    tables: tuple[TableReport, ...]
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    source: str | None = None

    @property
    def agrees(self) -> bool:
        """Whether every table agrees."""
        return all(table.agrees for table in self.tables)

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the JSON document, with `agrees` for the whole and every table."""
        document = asdict(self) | {"agrees": self.agrees}
        for raw, table in zip(document["tables"], self.tables, strict=True):
            raw["agrees"] = table.agrees
        return document
