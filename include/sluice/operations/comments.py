"""Comments of targets as the statements of published batches say them, by position.

They are part of a table's schema and its properties, not of its rows: after each publication and
each rollback they are made what the batches that count say together, so that no order of these
shows, and what a crash left out the next one does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Final

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table import Table, Transaction

from sluice.catalog.client import find_table
from sluice.catalog.clocks import refuse_clock_behind
from sluice.catalog.patience import in_words, retry
from sluice.column_renames import Rename, Renames, name_at
from sluice.config.policies import EVOLVE
from sluice.errors import TransientError
from sluice.ledger.comment_log import ToldComment, recorded
from sluice.names import PROP_DEFAULTS, RENAMES_IN_DEFAULTS, full_name
from sluice.operations.context import Context

_OF_TABLE: Final = "comment"
_TRIES: Final = 5


@dataclass
class _Said:
    """What is said of one target: of its columns by their names of now in lower case, None where
    one has no comment; of the target under _OF_TABLE, where anything is."""

    columns: dict[str, str | None] = field(default_factory=dict)
    table: dict[str, str | None] = field(default_factory=dict)


def settle(ctx: Context, publishing: str = "") -> None:
    """Give every target the comments that count; `publishing`: a batch that will in a moment."""
    if ctx.pipeline.on_schema_change != EVOLVE:
        return
    told = recorded(ctx.catalog, ctx.pipeline.name)
    if not told:
        return
    counted = ctx.ledger.published_batches(ctx.pipeline.name) | {publishing}
    for (namespace, name), mine in groupby(sorted(told, key=_target), _target):
        retry(partial(_settle_one, ctx, namespace, name, list(mine), counted))


def _target(one: ToldComment) -> tuple[str, str]:
    return one.namespace, one.table_name


def _settle_one(
    ctx: Context, namespace: str, name: str, told: list[ToldComment], counted: set[str]
) -> None:
    """Raises TransientError where others wrote in each of several tries."""
    for _ in range(_TRIES):
        table = find_table(ctx.catalog, namespace, name)
        if table is None:
            return
        try:
            _write(table, _said(told, counted, _renames(table)))
            return
        except (CommitFailedException, CommitStateUnknownException) as error:
            problem = error  # somebody's commit of anything, or an answer that was lost: look again
    raise TransientError(
        f"{full_name(namespace, name)}: its comments could not be written in {_TRIES} tries: "
        f"{in_words(problem)}; run again"
    )


def _renames(table: Table) -> Renames:
    """Those by which the published rows are written."""
    raw = json.loads(table.properties.get(PROP_DEFAULTS) or "{}").get(RENAMES_IN_DEFAULTS, [])
    return tuple(Rename(below, tuple((old, new) for old, new in pairs)) for below, pairs in raw)


def _said(told: Iterable[ToldComment], counted: set[str], renames: Renames) -> _Said:
    """All that any batch speaks of, with what those say that count."""
    said = _Said()
    for one in sorted(told, key=lambda one: one.place):
        comment = one.comment if one.batch_id in counted else None
        if one.column_name is None:
            _take(said.table, _OF_TABLE, comment, one.batch_id in counted)
            continue
        now = name_at(renames, one.column_name, one.position).lower()
        said.columns.setdefault(one.column_name.lower(), None)
        _take(said.columns, now, comment, one.batch_id in counted)
    return said


def _take(said: dict[str, str | None], name: str, comment: str | None, counts: bool) -> None:
    if counts:
        said[name] = comment
    else:
        said.setdefault(name, None)


def _write(table: Table, said: _Said) -> None:
    """One commit, where anything is another."""
    docs = {
        column.name: said.columns[column.name.lower()]
        for column in table.schema().fields
        if column.name.lower() in said.columns
        and (column.doc or None) != said.columns[column.name.lower()]
    }
    props = {n: c for n, c in said.table.items() if table.properties.get(n) != c}
    if not (docs or props):
        return
    refuse_clock_behind(table)
    with table.transaction() as transaction:
        if docs:
            with transaction.update_schema() as schema:
                for name, doc in docs.items():
                    schema.update_column((name,), doc=doc or "")
        _set(transaction, props)


def _set(transaction: Transaction, props: Mapping[str, str | None]) -> None:
    for name, comment in props.items():
        if comment is None:
            transaction.remove_properties(name)
        else:
            transaction.set_properties({name: comment})
