"""The one way to write the ledger's tables: append to the snapshot just read.

pyiceberg's own append retries a lost commit on the new head, so that of two claims both would
succeed. Here the tables allow no retry (`commit.retry.num-retries` is 0), the append requires
`main` to be the snapshot from which the decision was made, and Sluice's own loop reads and decides
again.
"""

from __future__ import annotations

import errno
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, TypeVar

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.table import Table

from sluice.catalog.client import load_once
from sluice.catalog.clocks import refuse_clock_behind
from sluice.catalog.failures import (
    EXPECTED,
    OUTCOME_UNKNOWN,
    error_text,
    is_permanent,
    is_switchover,
)
from sluice.catalog.retries import CatalogAwayError, pause, retry_while_away
from sluice.catalog.table_transaction import transaction_on
from sluice.errors import CommitStateUnknownError, SluiceError, TerminalError, TransientError
from sluice.faults import Point, reach
from sluice.ledger.arrow_rows import newest
from sluice.ledger.scans import ALL_COLUMNS, Scans, scan
from sluice.ledger.tables import (
    BATCHES,
    SAME_STATE,
    Row,
    partition_spec_of,
    properties_of,
    schema_of,
)
from sluice.names import LEDGER_NAMESPACE
from sluice.objects.store import FULL

T = TypeVar("T")
Decision = tuple[list[Row], T]

MAX_TRIES: Final = 60
LONGEST_WAIT: Final = 1.0
_LONGEST_WAIT_STANDBY: Final = 3.0
# Each file adds about 2 ms to a read. Snapshots stay while a lost answer may be looked up.
COMPACT_AT: Final = 48
KEEP_SNAPSHOTS: Final = timedelta(hours=1)
SUMMARY_TOKEN: Final = "sluice.ledger-token"


@dataclass(frozen=True)
class Compacted:
    """The number of rows of a ledger table before and after compaction (also for a dry run)."""

    before: int
    after: int


class LedgerTables:
    """Opens the ledger's tables, creates missing ones to write them, and appends rows by decisions
    on what they have."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._scans = Scans()

    def find(self, name: str) -> Table | None:
        """Load a table as it is now; None if it does not exist."""
        return _with_retries(lambda: self._find(name))

    def open(self, name: str) -> Table:
        """Load a table as it is now; creates it on first use."""
        return _with_retries(lambda: self._open(name))

    def read(
        self, name: str, where: BooleanExpression, columns: tuple[str, ...] = ALL_COLUMNS
    ) -> pa.Table:
        """Read the rows of a table's newest snapshot into Arrow; none if it does not exist."""
        return _with_retries(lambda: self._read(name, where, columns))

    def scan(self, table: Table, where: BooleanExpression) -> pa.Table:
        """Read the rows of the table object's own snapshot into Arrow."""
        return self._scans.read(table, where)

    def append(self, name: str, decide: Callable[[Table], Decision[T]]) -> T:
        """Append the rows that `decide` returns for the current table, if no one wrote meanwhile.

        If another process wrote first, `decide` is called again with the new table. It returns
        rows, perhaps none, and the value to return. Every row gets the commit's sequence number as
        its `seq`. Raises TerminalError if this process may not write; TransientError if the disk is
        full, this host's clock is behind, or every try fails.
        """
        sent: dict[str, T] = {}
        problem: Exception | None = None
        for turn in range(MAX_TRIES):
            table = self.open(name)
            arrived = _arrived(table, sent)
            if arrived is not None:
                return sent[arrived]
            rows, answer = _with_retries(partial(decide, table))
            if not rows:
                return answer
            token = uuid.uuid4().hex
            sent[token] = answer
            problem = _commit_once(table, rows, token)
            if problem is None:
                _tidy_up(name, table)
                return answer
            if _is_full(problem) or _is_closed(problem):
                break
            time.sleep(pause(turn, _longest_wait(problem)))
        return self._give_up(name, sent, problem)

    def compact(self, name: str, *, dry_run: bool) -> Compacted:
        """Rewrite a table as one file without rows that a later row repeats.

        Every renewal of a lease is a row. For each state that a batch, file or publication had, its
        last row is kept, so the history of states stays. After a concurrent write nothing is
        rewritten; the next maintenance tries again.
        """
        table = self.find(name)
        if table is None:
            return Compacted(0, 0)
        rows = _with_retries(lambda: scan(table, AlwaysTrue()))
        kept = newest(rows, *SAME_STATE[name])
        compact = kept.num_rows == rows.num_rows and _files(table) <= 1
        if dry_run or compact or _rewrite(table, kept):
            return Compacted(rows.num_rows, kept.num_rows)
        return Compacted(rows.num_rows, rows.num_rows)

    def _give_up(self, name: str, sent: dict[str, T], problem: Exception | None) -> T:
        arrived = _arrived(self.open(name), sent)
        if arrived is not None:
            return sent[arrived]
        raise _not_written(f"{LEDGER_NAMESPACE}.{name}", problem) from problem

    def _find(self, name: str) -> Table | None:
        with suppress(NoSuchTableError, NoSuchNamespaceError):
            return load_once(self._catalog, (LEDGER_NAMESPACE, name))
        return None

    def _open(self, name: str) -> Table:
        if (table := self._find(name)) is not None:
            return table
        self._create(name)
        return load_once(self._catalog, (LEDGER_NAMESPACE, name))

    def _read(self, name: str, where: BooleanExpression, columns: tuple[str, ...]) -> pa.Table:
        if (table := self._find(name)) is not None:
            return self._scans.read(table, where, columns)
        none = schema_of(name).as_arrow().empty_table()
        return none if columns == ALL_COLUMNS else none.select(columns)

    def _create(self, name: str) -> None:
        self._create_namespace()
        with suppress(TableAlreadyExistsError):
            self._catalog.create_table(
                (LEDGER_NAMESPACE, name),
                schema=schema_of(name),
                partition_spec=partition_spec_of(name),
                properties=properties_of(name),
            )

    def _create_namespace(self) -> None:
        try:
            self._catalog.create_namespace(LEDGER_NAMESPACE)
        except NamespaceAlreadyExistsError:
            pass
        # Of two concurrent creations one fails, in the SQL catalog with its database's own error.
        except Exception:  # the class depends on the database's driver
            if not self._catalog.namespace_exists(LEDGER_NAMESPACE):
                raise


def _commit_once(table: Table, rows: list[Row], token: str) -> Exception | None:
    """Send one commit that requires `main` as read; returns the problem, None if it succeeded."""
    refuse_clock_behind(table)
    seq = _next_seq(table)
    data = pa.Table.from_pylist(
        [{**row, "seq": seq} for row in rows], schema=table.schema().as_arrow()
    )
    try:
        with transaction_on(table) as transaction:
            transaction.append(data, snapshot_properties={SUMMARY_TOKEN: token})
    except CommitFailedException as lost:
        return lost
    except OUTCOME_UNKNOWN as problem:
        return problem
    return None


def _longest_wait(problem: Exception) -> float:
    """Return the longest pause after a problem. A standby answers reads, so MAX_TRIES have to take
    as long as those of a catalog that is away (`retries.SECONDS`)."""
    return _LONGEST_WAIT_STANDBY if is_switchover(problem) else LONGEST_WAIT


def _is_full(problem: Exception) -> bool:
    return isinstance(problem, OSError) and problem.errno in FULL


def _is_closed(problem: Exception) -> bool:
    read_only = isinstance(problem, OSError) and problem.errno == errno.EROFS
    return read_only or is_permanent(problem)


def _not_written(table: str, problem: Exception | None) -> SluiceError:
    """Return the error to raise for a table that could not be written; `problem`: the last one."""
    if problem is None or isinstance(problem, CommitFailedException):
        return TransientError(
            f"{table} was written by others in each of {MAX_TRIES} tries; try again when fewer "
            "runs are at work"
        )
    why = error_text(problem)
    if _is_closed(problem):
        return TerminalError(f"{table} cannot be written: {why}; let this process write there")
    if _is_full(problem):
        return TransientError(f"{table} cannot be written: {why}; make room and try again")
    return TransientError(
        f"{table} could not be written in each of {MAX_TRIES} tries: {why}; try again"
    )


def _next_seq(table: Table) -> int:
    """Return the sequence number of the table's next commit."""
    number: int = table.metadata.next_sequence_number()
    return number


def _tidy_up(name: str, table: Table) -> None:
    """Rewrite a table of many small files as one, `batches` without renewals of leases: a run that
    loads many batches renews those that wait; if another process writes meanwhile, nothing is
    changed. The rows are committed already, so no error of this is raised: the next commit, or
    maintenance, tries again."""
    if _files(table) >= COMPACT_AT:
        with suppress(Exception):
            rows = scan(table, AlwaysTrue())
            _rewrite(table, newest(rows, *SAME_STATE[name]) if name == BATCHES else rows)


def _files(table: Table) -> int:
    snapshot = table.current_snapshot()
    summary = snapshot.summary if snapshot else None
    return 0 if summary is None else int(summary.get("total-data-files") or 0)


def _rewrite(table: Table, rows: pa.Table) -> bool:
    """Replace the table's content by one file of these rows, unless another process wrote it;
    expire snapshots. Return whether the content was certainly replaced."""
    refuse_clock_behind(table)
    replaced = False
    with suppress(CommitStateUnknownException, *EXPECTED):
        with transaction_on(table) as transaction:
            transaction.overwrite(rows)
        replaced = True
        reach(Point.LEDGER_REWRITTEN)
        old = datetime.now(UTC) - KEEP_SNAPSHOTS
        table.maintenance.expire_snapshots().older_than(old).commit()
    return replaced


def _arrived(table: Table, sent: dict[str, T]) -> str | None:
    """Return the token of one of the `sent` commits, whose answers were lost, that is in the
    history; None if none is."""
    if not sent:
        return None
    for snapshot in reversed(table.metadata.snapshots):
        token = snapshot.summary.get(SUMMARY_TOKEN) if snapshot.summary else None
        if token in sent:
            return token
    return None


def _with_retries(action: Callable[[], T]) -> T:
    """Read again if the catalog is away, or a metadata file was replaced during the read.

    Raises CommitStateUnknownError after the last try, since an earlier commit may have arrived;
    LakeMovedError if a file was missing all the time.
    """
    try:
        return retry_while_away(action, also=(FileNotFoundError,))
    except CatalogAwayError as error:
        raise CommitStateUnknownError(f"the ledger could not be read: {error}") from error
