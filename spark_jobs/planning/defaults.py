"""The value of rows in a column that was added after them: its default.

`ALTER TABLE … ADD COLUMN … DEFAULT` sends no event for existing rows, but later events describe the
column with its default. An event has the column if its schema or one of its images names it. The
rule, which follows from the set of events alone:

- A change lacks the column below the lowest position, in the source's order, of an event that
  has it.
- A full-load row or an arrival ranks below every change, whenever it was made. So it lacks the
  column only if it is also below the lowest position of its own kind whose event has it.
- A row that lacks the column has the default described at the lowest position in the source's
  order, or NULL if there is none. Every other row keeps its value: an event that has the column
  is never below the lowest one that has it, so no NULL of an event is overwritten.

More events only lower these positions: a stored row that lacked the column had NULL or a default,
and one that no longer lacks it has NULL again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice import names
from sluice.positions import KIND_ARRIVAL, KIND_AT, KIND_FULL_LOAD, KIND_SOURCE, epoch_prefix
from sluice.types.columns import COUNTED, STRING, ColumnType, parse_type
from spark_jobs.formats.base import SourceColumn
from spark_jobs.planning.span import Span
from spark_jobs.planning.table_summary import TableSummary
from spark_jobs.quoting import quoted
from spark_jobs.values import as_type, fitted

_KINDS: Final = (KIND_FULL_LOAD, KIND_ARRIVAL, KIND_SOURCE)
_ABOVE_ALL: Final = "~"
# The bytes in a statement depend on the charset of its session, the times on its time zone.
_SPELLED_APART: Final = frozenset({"binary", "timestamp"})


@dataclass(frozen=True)
class StatedDefault:
    """A default that DDL states at a position (`at`); `text` as in the SQL, None for NULL.

    `verbatim`: whether a text column holds it unchanged. `stored`: the type of the column when rows
    were filled, "" if that was not recorded. `of_session`: whether it is an instant in the time
    zone of the statement's session. `dropped_at`: rows below this DROP TABLE are another table's.
    """

    at: str
    text: str | None
    verbatim: bool
    stored: str
    of_session: bool
    dropped_at: str = ""

    def value(self, into: ColumnType) -> Column:
        """Return the default as a value of a stored type; NULL if it has none."""
        differs = self.of_session or into.name in _SPELLED_APART
        lost = differs or (into == STRING and not self.verbatim)
        return fitted(F.lit(None if lost else self.text).cast("string"), into, into)

    def limits(self, firsts: Mapping[str, str]) -> dict[str, str]:
        """See `Default.limits`."""
        if self.text is None:
            return {}
        loaded = min(self.at, firsts.get(KIND_FULL_LOAD, _ABOVE_ALL))
        return {KIND_FULL_LOAD: loaded, _kind(self.at): self.at}


@dataclass(frozen=True)
class Default:
    """The default of a column.

    `firsts`: the lowest position whose event has the column, by kind of position. `text`: the
    default described at the lowest position in the source's order, as images would carry it, of
    type `kind`; None if there was none, or no event of that order has the column. `stated`: the
    default in DDL, which gives the position of the addition; the events' default is used if this
    one cannot be read as the column's type. `earlier`: in order, the defaults that the column had
    in tables of the name that were dropped.
    """

    firsts: Mapping[str, str]
    text: str | None = None
    kind: ColumnType = STRING
    stated: StatedDefault | None = None
    earlier: tuple[Default, ...] = ()

    @property
    def parts(self) -> tuple[Default, ...]:
        """The defaults with limits; a row is within those of one of them at most."""
        last = replace(self, earlier=()) if self.earlier else self
        return tuple(one for one in (*self.earlier, last) if one.limits)

    @property
    def dropped_at(self) -> str:
        """The position of the DROP TABLE below which rows are another table's, or ''."""
        return "" if self.stated is None else self.stated.dropped_at

    @property
    def since(self) -> str:
        """The lowest position, in the source's order, whose event has the column."""
        return self.firsts.get(KIND_SOURCE, _ABOVE_ALL)

    @property
    def limits(self) -> dict[str, str]:
        """By kind of position: the position below which a change has the default."""
        if self.stated is not None:
            return self.stated.limits(self.firsts)
        if self.text is None:
            return {}
        return {kind: min(self.since, self.firsts.get(kind, _ABOVE_ALL)) for kind in _KINDS}

    @property
    def added_at(self) -> str:
        """The position at which the column was added, as far as it is known."""
        return self.since if self.stated is None else self.stated.at

    @property
    def ambiguous(self) -> bool:
        """Whether a full load or an arrival has the column, so that a NULL may be its value."""
        return any(kind != KIND_SOURCE for kind in self.firsts)

    def reaches(self, lowest: str) -> bool:
        """Whether a change at or above the position may have the default."""
        return any(limit > lowest for part in self.parts for limit in part.limits.values())

    def limits_map(self) -> Column:
        """Return `limits` as a map."""
        return F.create_map(*(F.lit(part) for pair in self.limits.items() for part in pair))

    def value(self, stored: str) -> Column:
        """Return the default as a value of the stored column's type; NULL if it has none."""
        into = parse_type(stored)
        text = F.lit(self.text).cast("string")
        kinds = [self.kind]
        if self.kind.encoding in COUNTED:  # TiCDC spells a time that it describes as a count
            kinds.append(replace(self.kind, encoding=""))
        of_events = F.coalesce(*(fitted(text, kind, into) for kind in kinds))
        return of_events if self.stated is None else F.coalesce(self.stated.value(into), of_events)

    def value_since(self, stored: str) -> Column:
        """Return the value that rows got if they were filled before the column got a wider type."""
        then = (self.stated.stored if self.stated else "") or stored
        return as_type(self.value(then), parse_type(then), stored)


Defaults = Mapping[str, Default]
NO_DEFAULTS: Final[Defaults] = {}
NOTHING: Final = Default({})
"""The default of an unknown column."""


def of_batch(
    summary: TableSummary,
    described: Mapping[int, Mapping[str, SourceColumn]],
    epoch: int,
    has_defaults: bool,
) -> dict[str, Default]:
    """Return the defaults of every column in a batch's events; cached shapes give names only.

    `has_defaults`: whether the format's events carry defaults. Without them only the columns of
    full loads matter, since DDL may state a default.
    """
    columns: dict[int, Mapping[str, SourceColumn | None]] = {
        ident: dict.fromkeys(image) for ident, image in summary.images.items()
    }
    columns.update(described)
    by_name = {name: NOTHING for shape in columns.values() for name in shape}
    for (ident, kind), position in summary.lowest.items():
        if not has_defaults and kind != KIND_FULL_LOAD:
            continue
        first = {kind: f"{epoch_prefix(epoch)}.{position}"}
        for name, column in columns.get(ident, {}).items():
            by_name[name] = _both(by_name[name], _first(first, column))
    return by_name


def _first(firsts: Mapping[str, str], column: SourceColumn | None) -> Default:
    if column is None or column.default is None or KIND_SOURCE not in firsts:
        return Default(firsts)
    return Default(firsts, column.default, column.type)


def merged(one: Defaults, two: Defaults) -> dict[str, Default]:
    """Merge two sets of defaults; of a column in both, the values at the lower
    positions are kept."""
    return {n: _both(one.get(n, NOTHING), two.get(n, NOTHING)) for n in (*one, *two)}


def _both(one: Default, two: Default) -> Default:
    """Merge two defaults; at equal positions that with a text is kept, since images carry none."""
    kinds = [k for k in _KINDS if k in one.firsts or k in two.firsts]
    firsts = {k: min(d.firsts.get(k, _ABOVE_ALL) for d in (one, two)) for k in kinds}
    lower = min(one, two, key=lambda d: (d.since, d.text is None, d.text or "", repr(d.kind)))
    return Default(firsts, lower.text, lower.kind)


def covers(known: Defaults, columns: Iterable[str], span: Span, described: bool) -> bool:
    """Whether a batch needs no update of the known defaults: events with these columns, of this
    span, cannot change any.

    Its positions must be of one kind, because the lowest one of a second kind is not given. Events
    without descriptions (`described`) carry no default; they are only checked if they could take
    back a known one, and in a full load, whose rows may have a column that DDL added.
    """
    of_columns = [known.get(name, NOTHING).firsts for name in columns]
    plain = not described and all(default.text is None for default in known.values())
    lowest = span.lowest
    if lowest is None or not of_columns or (plain and not of_full_load(lowest)):
        return True
    kind = _kind(lowest)
    one_kind = plain or span.highest is None or _kind(span.highest) == kind
    return one_kind and all(firsts.get(kind, _ABOVE_ALL) <= lowest for firsts in of_columns)


def of_full_load(position: str) -> bool:
    """Whether the position is a full-load row's, below every change."""
    return _kind(position) == KIND_FULL_LOAD


def _kind(position: str) -> str:
    return position[KIND_AT - 1 : KIND_AT]


def entries(defaults: Defaults) -> dict[str, dict[str, Any]]:
    """Return defaults by column, in the form of the table property; empty ones are left out."""
    return {n: _entry(d) for n, d in sorted(defaults.items()) if d.firsts}


def _entry(default: Default) -> dict[str, Any]:
    if default.text is None:
        return {"firsts": default.firsts}
    return {"firsts": default.firsts, "text": default.text, "kind": asdict(default.kind)}


def of_entries(raw: Mapping[str, dict[str, Any]]) -> dict[str, Default]:
    """Parse the result of `entries`; earlier releases stored one kind of position."""
    return {n: _default(entry) for n, entry in raw.items()}


def _default(entry: dict[str, Any]) -> Default:
    firsts = entry["firsts"] if "firsts" in entry else {KIND_SOURCE: entry["since"]}
    if entry.get("text") is None:
        return Default(firsts)
    return Default(firsts, entry["text"], ColumnType(**entry["kind"]))


def filled(rows: DataFrame, defaults: Defaults, at: Column | None = None) -> DataFrame:
    """Fill in the defaults of columns that changes lack, by their position or, if
    given, by `at`."""
    types = dict(rows.dtypes)
    at = F.col(names.POSITION) if at is None else at
    kind = F.substring(at, KIND_AT, 1)
    values = {}
    for name, default in defaults.items():
        if name in types and default.parts:
            value = column = F.col(quoted(name))
            for one in default.parts:
                within = (at >= F.lit(one.dropped_at)) & (at < one.limits_map()[kind])
                value = F.when(column.isNull() & within, one.value(types[name])).otherwise(value)
            values[name] = value
    return rows.withColumns(values) if values else rows


def as_baseline(rows: DataFrame, defaults: Defaults, floor: str) -> DataFrame:
    """Return stored rows with the unambiguous defaults of DDL filled in, by the row's position or
    the floor, whichever is lower.

    Stored rows replace expired changes, all of which lacked a column that was added above the
    floor. A NULL from above the floor comes again with its event.
    """
    sure = {n: d for n, d in defaults.items() if d.stated and not d.ambiguous}
    return filled(rows, sure, F.least(names.POSITION, F.lit(floor)))


@dataclass(frozen=True)
class DefaultChange:
    """A column whose stored values change because its default has changed.

    In its SQL the stored row is `t`, and the one row of `literals_row` is `s`.
    """

    name: str
    stored: str
    before: Default
    now: Default

    @property
    def _first(self) -> StatedDefault | None:
        """The default of DDL, if the column of the table had none before; else None."""
        stated = self.now.stated
        return None if stated is None or self.before.reaches(stated.dropped_at) else stated

    def above(self, highest: str | None) -> bool:
        """Whether the column's first default is one of DDL that applies above everything stored;
        those of dropped tables stay."""
        changes = _differ(self.before, replace(NOTHING, earlier=self.now.earlier))
        stated = None if changes else self._first
        return stated is not None and highest is not None and stated.at > highest

    def between(self, floor: str, highest: str | None) -> bool:
        """Whether the column's first default is one of DDL that applies above the floor, but not
        above everything stored."""
        stated = self._first if self.now.limits else None
        return stated is not None and floor < stated.at <= (highest or _ABOVE_ALL)

    def struct(self) -> Column:
        """Return limits and values, of before and of now, as one column."""
        before = [_part(one, one.value_since(self.stored)) for one in self.before.parts]
        now = [_part(one, one.value(self.stored)) for one in self.now.parts]
        named = [one.alias(f"was{i}") for i, one in enumerate(before)]
        named += [one.alias(f"is{i}") for i, one in enumerate(now)]
        return F.struct(*named).alias(self.name)

    @property
    def value(self) -> str:
        """SQL for the new value of a row that lacks, or lacked, the column: it had a
        default or NULL."""
        stored, one = f"t.{quoted(self.name)}", f"s.{quoted(self.name)}"
        was = [f"{one}.was{i}" for i in range(len(self.before.parts))]
        filled = [f"{_within(part)} AND {stored} <=> {part}.value" for part in was]
        lacked = f"({' OR '.join(filled) or 'false'})"
        cases = [
            f"WHEN {_within(part)} AND ({stored} IS NULL OR {lacked}) THEN {part}.value"
            for part in (f"{one}.is{i}" for i in range(len(self.now.parts)))
        ]
        return f"CASE {' '.join(cases)} WHEN {lacked} THEN NULL ELSE {stored} END"


def _part(one: Default, value: Column) -> Column:
    limits = one.limits_map().alias("below")
    return F.struct(F.lit(one.dropped_at).alias("since"), limits, value.alias("value"))


def _within(part: str) -> str:
    position = f"t.{names.POSITION}"
    kind = f"substring({position}, {KIND_AT}, 1)"
    return f"{position} >= {part}.since AND {position} < {part}.below[{kind}]"


def default_changes(
    before: Defaults, now: Defaults, types: Mapping[str, str]
) -> list[DefaultChange]:
    """Return the columns, by name and stored type, whose stored values change.

    A default that no longer applies is replaced by NULL.
    """
    pairs = {n: (before.get(n, NOTHING), now.get(n, NOTHING)) for n in types}
    return [DefaultChange(n, types[n], *pair) for n, pair in pairs.items() if _differ(*pair)]


def _differ(before: Default, now: Default) -> bool:
    if len(before.parts) != len(now.parts):
        return True
    return any(map(_part_differs, before.parts, now.parts))


def _part_differs(before: Default, now: Default) -> bool:
    stated = before.stated
    if stated and now.stated and not stated.stored:
        stated = replace(stated, stored=now.stated.stored)
    return (before.limits, before.text, before.kind, stated) != (
        now.limits, now.text, now.kind, now.stated,
    )  # fmt: skip


def literals_row(spark: SparkSession, changed: Iterable[DefaultChange]) -> DataFrame:
    """Return one row with a column for each change of a default."""
    return spark.range(1).select(*(one.struct() for one in changed))


def lose_values(rows: DataFrame, changed: Sequence[DefaultChange]) -> bool:
    """Whether a change of defaults, applied to stored rows, would replace a value of `rows`.

    `rows`: changes without filled-in defaults, so that each value is their own. It is replaced if
    it equals a default that no longer applies.
    """
    row = F.broadcast(literals_row(rows.sparkSession, changed)).alias("s")
    held = {one.value: f"t.{quoted(one.name)}" for one in changed if one.name in rows.columns}
    lost = [f"{own} IS NOT NULL AND NOT ({own} <=> {value})" for value, own in held.items()]
    found = rows.alias("t").crossJoin(row).where(" OR ".join(lost) or "false")
    return not found.isEmpty()


def with_changed_defaults(rows: DataFrame, before: Defaults, now: Defaults) -> DataFrame:
    """Return stored rows, which have the defaults `before`, with the defaults `now`."""
    types = dict(rows.dtypes)
    values = {one.name: one for one in default_changes(before, now, types)}
    if not values:
        return rows
    row = F.broadcast(literals_row(rows.sparkSession, values.values())).alias("s")
    columns = {n: values[n].value if n in values else f"t.{quoted(n)}" for n in types}
    return rows.alias("t").crossJoin(row).select(*(F.expr(v).alias(n) for n, v in columns.items()))
