"""The reference: the meaning of a set of changes, in plain Python, without code shared with Spark's
side.

A table with a key is a dictionary, one without is a multiset of rows. Nothing here knows of
batches, files, order of arrival or repeats: a history is a set of changes, and this gives its
result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

Row = tuple[tuple[str, object], ...]


def row(values: dict[str, object]) -> Row:
    """A row in a form that sets and multisets can hold."""
    return tuple(sorted(values.items()))


@dataclass(frozen=True)
class Change:
    """One change as the source logged it.

    `place`: its place in the source's order, with snapshot rows before everything; the delete and
    the create of one key change share it. `absent`: columns that the change did not carry; they
    keep the value that the row had, under its old key if the change gave it another.
    """

    table: str
    op: str
    place: tuple[int, int]
    before: Row | None = None
    after: Row | None = None
    absent: frozenset[str] = frozenset()


def in_order(changes: Iterable[Change]) -> list[Change]:
    """Each change once, in the source's order; at one place the delete comes first."""
    return sorted(set(changes), key=lambda c: (c.place, c.op != "d"))


def over_epochs(epochs: Sequence[Iterable[Change]], full_loads: Collection[int]) -> list[Change]:
    """The changes of several epochs as one history: each epoch is above all epochs before it.

    A TRUNCATE precedes the changes of every table of which an epoch with a full load has any.
    """
    history: list[Change] = []
    for epoch, changes in enumerate(epochs):
        raised = [replace(c, place=(10 * epoch + c.place[0], c.place[1])) for c in changes]
        opened = {c.table for c in raised} if epoch in full_loads else set()
        history += [Change(table, "t", (10 * epoch - 1, 0)) for table in sorted(opened)]
        history += raised
    return history


def keyed(changes: Iterable[Change], key: str) -> list[Row]:
    """The rows that changes leave in a table with a key."""
    table: dict[object, dict[str, object]] = {}
    taken: dict[tuple[int, int], dict[str, object]] = {}
    for change in in_order(changes):
        if change.op == "t":
            table.clear()
            continue
        after = dict(change.after or ())
        if change.before is not None:
            old = dict(change.before)[key]
            if (change.op == "d" or old != after[key]) and old in table:
                taken[change.place] = table.pop(old)
        if change.op != "d":
            known = taken.get(change.place) or table.get(after[key], {})
            table[after[key]] = _filled(change, known)
    return sorted(map(row, table.values()), key=repr)


def _filled(change: Change, known: dict[str, object]) -> dict[str, object]:
    """The row after a change; columns that the change did not carry keep their value."""
    after = dict(change.after or ())
    return {n: known.get(n) if n in change.absent else value for n, value in after.items()}


@dataclass(frozen=True)
class Event:
    """An event in a log: `row` without what was not carried. A delete has the key or the old row, a
    TRUNCATE nothing."""

    place: tuple[int, int]
    gone: bool
    row: Row
    absent: tuple[str, ...] = ()


def events(changes: Iterable[Change], key: str | None) -> list[Event]:
    """All events of rows: an update that changes the key removes one row and brings one."""
    found: list[Event] = []
    for change in in_order(changes):
        before, after = (dict(image or ()) for image in (change.before, change.after))
        if change.op == "t":
            found.append(Event(change.place, True, ()))
        moved = key is None or not after or before.get(key) != after[key]
        if before and moved:
            gone = before if key is None else {key: before[key]}
            found.append(Event(change.place, True, row(gone)))
        if after:
            sent = {n: None if n in change.absent else v for n, v in after.items()}
            found.append(Event(change.place, False, row(sent), tuple(sorted(change.absent))))
    return found


@dataclass
class Version:
    """A state that a row was in, and the places of the changes that began and ended it."""

    values: dict[str, object]
    since: int
    until: int | None = None


def versions(changes: Iterable[Change], key: str) -> list[Version]:
    """Every state of every row of a table with a key, in the order in which they began."""
    alive: dict[object, Version] = {}
    found: list[Version] = []
    left: dict[tuple[int, int], Version] = {}
    for change in in_order(changes):
        for gone in _ended(change, alive, key):
            alive[gone].until = change.place[1]
            left[change.place] = alive.pop(gone)
        if change.op in "td":
            continue
        ident = dict(change.after or ())[key]
        known = alive.get(ident)
        if known is not None:
            known.until = change.place[1]
        before = left.get(change.place) or known
        values = _filled(change, before.values if before else {})
        alive[ident] = Version(values, change.place[1])
        found.append(alive[ident])
    return found


def _ended(change: Change, alive: dict[object, Version], key: str) -> list[object]:
    """The keys of the rows that a change takes away."""
    if change.op == "t":
        return list(alive)
    old = None if change.before is None else dict(change.before)[key]
    moved = change.op == "d" or (change.after is not None and old != dict(change.after)[key])
    return [old] if moved and old in alive else []


def keyless(changes: Iterable[Change]) -> list[Row]:
    """The rows that changes leave in a table without a key, where equal rows are counted."""
    table: Counter[Row] = Counter()
    for change in in_order(changes):
        if change.op == "t":
            table.clear()
            continue
        if change.before is not None:
            table[change.before] -= 1
        if change.after is not None:
            table[change.after] += 1
    return sorted(table.elements(), key=repr)
