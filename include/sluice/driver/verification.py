"""What a verification found: the typed content of the driver's last line and of the reports."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

MISSING: Final = "missing"
UNEXPECTED: Final = "unexpected"
REPEATED: Final = "repeated"
DIFFERS: Final = "differs"
# In the order in which people look at them.
KINDS: Final = (MISSING, UNEXPECTED, REPEATED, DIFFERS)

# Ranges of the key's hash in which rows are compared first.
BUCKETS: Final = 256

Row = dict[str, str | None]


@dataclass(frozen=True)
class Difference:
    """One key that is not what the changelog says, its rows as text.

    `kind` is one of KINDS; `columns` says which differ. A side without a row is None.
    """

    kind: str
    columns: tuple[str, ...]
    expected: Row | None
    found: Row | None


@dataclass(frozen=True)
class Comparison:
    """One Iceberg table beside what it must hold.

    `snapshot`: the id of `main`'s as text, beyond what JSON readers hold exactly; None where
    there is none. `buckets`: ranges of the key's hash whose
    rows are not the same. `kinds` counts every key that differs, `shown` holds the first of them.
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
        """True where nothing differs."""
        return self.buckets == 0

    @property
    def differing(self) -> int:
        """How many keys differ."""
        return sum(self.kinds.values())


@dataclass(frozen=True)
class TableReport:
    """One target with its tombstones; `foreign`: snapshots of `main` that no batch wrote.

    `tombstones`: None beside a live source, which has none. `beside`: what its modes make.
    `floor`: the position up to which changes are forgotten; only what is above it is compared.
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
        """True where rows, tombstones and what is beside them are what the changelog says."""
        return all(comparison.agrees for comparison in self.comparisons)

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """All that there are."""
        tombstones = () if self.tombstones is None else (self.tombstones,)
        return (self.rows, *tombstones, *self.beside)


@dataclass(frozen=True)
class Verification:
    """A whole pipeline; `notes` say what else a reader has to know.

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
        """True where every table agrees."""
        return all(table.agrees for table in self.tables)

    def to_json(self) -> str:
        """The document for programs; it says of the whole and of every table whether it agrees."""
        return json.dumps(self.as_dict(), sort_keys=True)

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        found = asdict(self) | {"agrees": self.agrees}
        for raw, table in zip(found["tables"], self.tables, strict=True):
            raw["agrees"] = table.agrees
        return found

    @staticmethod
    def from_json(text: str) -> Verification:
        """Read what `to_json` wrote."""
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
