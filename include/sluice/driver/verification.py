"""The result of a verification: the driver's last line and the reports as types."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

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
class Verification:
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

    def to_json(self) -> str:
        """Return the JSON document, with `agrees` for the whole and for every table."""
        return json.dumps(self.as_dict(), sort_keys=True)

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the JSON document as plain values."""
        document = asdict(self) | {"agrees": self.agrees}
        for raw, table in zip(document["tables"], self.tables, strict=True):
            raw["agrees"] = table.agrees
        return document

    @staticmethod
    def from_json(text: str) -> Verification:
        """Read a document of `to_json`."""
        raw: dict[str, Any] = json.loads(text)
        del raw["agrees"]
        tables = tuple(_table(table) for table in raw["tables"])
        return Verification(**{**raw, "tables": tables, "notes": tuple(raw["notes"])})


def _table(raw: dict[str, Any]) -> TableReport:
    return TableReport(
        raw["target"],
        tuple(raw["key"]),
        _comparison(raw["rows"]),
        _comparison(raw["tombstones"]) if raw["tombstones"] else None,
        tuple(raw["foreign"]),
        raw["floor"],
        tuple(_comparison(each) for each in raw["beside"]),
    )


def _comparison(raw: dict[str, Any]) -> Comparison:
    shown = tuple(Difference(**{**d, "columns": tuple(d["columns"])}) for d in raw["shown"])
    return Comparison(**{**raw, "shown": shown})
