"""In which order a run loads its batches, and which shares of a table it tries.

A table that cannot be loaded leaves a share in every run (`consistency: table`). Each of them takes
a driver, and what one of them fails for mostly holds for all: so a run goes on with the shares of a
table only as long as they can be loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field

from sluice.ledger import details, states
from sluice.ledger.rows import BatchRow
from sluice.objects.batch_files import batch_of
from sluice.operations.context import Context

Tables = tuple[str, ...]


def tried(ctx: Context) -> set[str]:
    """Return the batches that could not be loaded, or of which an attempt was made."""
    rows = ctx.ledger.batches.all()
    return {row.batch_id for row in rows if row.attempt or row.state == states.FAILED}


def in_turn(ctx: Context, manifests: Iterable[str], tried: Container[str]) -> list[str]:
    """Return the manifests of batches in the order in which a run loads them.

    A half-published one comes first, since nothing else can be loaded before it is complete. Then
    come those that nobody has `tried`: others may fail every time, and would keep them waiting.
    """
    halfway = {row.batch_id for row in ctx.ledger.batches.all() if row.halfway}

    def turn(key: str) -> tuple[bool, bool]:
        return batch_of(key) not in halfway, batch_of(key) in tried

    return sorted(manifests, key=turn)


def tables_of_share(row: BatchRow) -> Tables:
    """Return the table that a share loads, () for any other batch."""
    known = row.details
    return tuple(known.get(details.TABLES, ())) if details.SHARE_OF in known else ()


@dataclass
class Shares:
    """The shares among the batches of a run: behind one that fails, the others of its table are
    left to the next run."""

    ctx: Context
    _left: Counter[Tables] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        rows = self.ctx.ledger.batches.all()
        self._tables = {row.batch_id: found for row in rows if (found := tables_of_share(row))}

    def leave(self, manifest_key: str) -> bool:
        """Whether the batch is left to the next run."""
        tables = self._tables.get(batch_of(manifest_key), ())
        if tables not in self._left:
            return False
        self._left[tables] += 1
        return True

    def failed(self, manifest_key: str) -> None:
        """Take notice that a batch, a share or not, could not be loaded."""
        if tables := self._tables.get(batch_of(manifest_key)):
            self._left.setdefault(tables, 0)

    def report(self) -> None:
        """Say how many were left."""
        for tables, count in self._left.items():
            if count:
                batches = "batch of it waits" if count == 1 else "batches of it wait"
                self.ctx.say(
                    f"load: {', '.join(tables)} failed; {count} more {batches} for the next run"
                )


def shares_to_try(ctx: Context, rows: Iterable[BatchRow]) -> Iterator[BatchRow]:
    """Yield each batch, but of several shares of one table only the first; the others too if they
    were last tried before a share of that table was published, for then the cause seems mended.

    It is for runs that decide which batches they load before the first one is loaded.
    """
    published: dict[Tables, int] = {}
    for row in ctx.ledger.batches.all():
        if row.state == states.PUBLISHED and (tables := tables_of_share(row)):
            published[tables] = max(row.seq, published.get(tables, 0))
    seen: set[Tables] = set()
    for row in rows:
        tables = tables_of_share(row)
        if not tables or tables not in seen or row.seq < published.get(tables, 0):
            yield row
        seen.add(tables)
