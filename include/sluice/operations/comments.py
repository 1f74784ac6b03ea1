"""Comments of targets, as the statements of published batches set them, in order of position.

They are part of a table's schema and properties, not of its rows. After each publication and each
rollback they are computed from all published batches, so their order does not matter, and whatever
a crash left undone is done at the next time.
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
from sluice.catalog.failures import Errors, error_text
from sluice.catalog.retries import limited_retries, retry_while_away
from sluice.catalog.table_transaction import transaction_on
from sluice.column_renames import Renames, from_pairs, name_at
from sluice.config.policies import EVOLVE
from sluice.errors import TransientError
from sluice.faults import Point, reach
from sluice.ledger.comment_log import CommentStatement, recorded
from sluice.names import PROP_DEFAULTS, RENAMES_IN_DEFAULTS, full_name
from sluice.operations.context import Context

_PROPERTY: Final = "comment"
_TRIES: Final = 5


@dataclass
class _Comments:
    """The comments of one target: of columns by their current names in lower case (None: no
    comment), and of the target itself as its property, if a statement mentions it."""

    columns: dict[str, str | None] = field(default_factory=dict)
    properties: dict[str, str | None] = field(default_factory=dict)


def apply_comments(ctx: Context, publishing: str = "") -> None:
    """Set the comments of every target; `publishing`: a batch that already counts as published."""
    if ctx.pipeline.on_schema_change != EVOLVE:
        return
    statements = recorded(ctx.catalog, ctx.pipeline.name)
    if not statements:
        return
    counted = ctx.ledger.batches.published() | {publishing}
    for (namespace, name), own in groupby(sorted(statements, key=_target), _target):
        retry_while_away(partial(_apply_to_table, ctx, namespace, name, list(own), counted))


def _target(one: CommentStatement) -> tuple[str, str]:
    return one.namespace, one.table_name


def _apply_to_table(
    ctx: Context, namespace: str, name: str, statements: list[CommentStatement], counted: set[str]
) -> None:
    """Set the comments of one target; raises TransientError if other writers commit first
    at all _TRIES."""

    def apply_once() -> None:
        if (table := find_table(ctx.catalog, namespace, name)) is not None:
            _write(table, _comments(statements, counted, _renames(table)))

    others: Errors = (CommitFailedException, CommitStateUnknownException)  # or a lost answer
    try:
        limited_retries(_TRIES, on=others)(apply_once)
    except others as error:
        raise TransientError(
            f"{full_name(namespace, name)}: its comments could not be written in {_TRIES} tries: "
            f"{error_text(error)}; run again"
        ) from error


def _renames(table: Table) -> Renames:
    """Return the renames under which the published rows are written."""
    raw = json.loads(table.properties.get(PROP_DEFAULTS) or "{}")
    return from_pairs(raw.get(RENAMES_IN_DEFAULTS, []))


def _comments(
    statements: Iterable[CommentStatement], counted: set[str], renames: Renames
) -> _Comments:
    """Return the comments that the batches in `counted` set, and None for whatever only other
    batches mention."""
    comments = _Comments()
    for one in sorted(statements, key=lambda one: one.place):
        comment = one.comment if one.batch_id in counted else None
        if one.column_name is None:
            _put(comments.properties, _PROPERTY, comment, one.batch_id in counted)
            continue
        now = name_at(renames, one.column_name, one.position).lower()
        comments.columns.setdefault(one.column_name.lower(), None)
        _put(comments.columns, now, comment, one.batch_id in counted)
    return comments


def _put(comments: dict[str, str | None], name: str, comment: str | None, counts: bool) -> None:
    if counts:
        comments[name] = comment
    else:
        comments.setdefault(name, None)


def _write(table: Table, comments: _Comments) -> None:
    """Write the comments that differ from the stored ones, in one commit."""
    docs = {
        column.name: comments.columns[column.name.lower()]
        for column in table.schema().fields
        if column.name.lower() in comments.columns
        and (column.doc or None) != comments.columns[column.name.lower()]
    }
    props = {n: c for n, c in comments.properties.items() if table.properties.get(n) != c}
    if not (docs or props):
        return
    refuse_clock_behind(table)
    with transaction_on(table) as transaction:
        if docs:
            with transaction.update_schema() as schema:
                for name, doc in docs.items():
                    schema.update_column((name,), doc=doc or "")
        _set_properties(transaction, props)
    reach(Point.TABLE_COMMENTS)


def _set_properties(transaction: Transaction, props: Mapping[str, str | None]) -> None:
    for name, comment in props.items():
        if comment is None:
            transaction.remove_properties(name)
        else:
            transaction.set_properties({name: comment})
