"""What rows hold in a column that came after them: the default that it was added with.

`ALTER TABLE … ADD COLUMN … DEFAULT` sends no event for the rows that are there, but the events'
own description of the column says what they hold since. An event has the column where its schema
or an image of it names the column. The rule, which follows from the set of events alone:

- A change lacks the column below the lowest position of the source's order whose event has it.
- A full-load row or an arrival ranks below every change, whenever it was made. So it lacks the
  column only where it is also below the lowest position of its own kind whose event has it.
- What lacks the column holds the default that was told at the lowest position of the source's
  order, or NULL where none was told there. Everything else holds what it says: an event that has
  the column is never below the lowest that has it, so that no NULL of its own is overwritten.

More events only lower these positions: a stored row that lacks the column held NULL or a default
before, and what lacks it no longer holds NULL again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from sluice import names
from sluice.positions import KIND_ARRIVAL, KIND_AT, KIND_FULL_LOAD, KIND_SOURCE, epoch_prefix
from sluice.types.columns import STRING, ColumnType, parse_type
from spark_jobs.canonical import quoted
from spark_jobs.formats.base import SourceColumn
from spark_jobs.planning.discover import Found
from spark_jobs.values import as_type, fitted

_KINDS: Final = (KIND_FULL_LOAD, KIND_ARRIVAL, KIND_SOURCE)
_ABOVE_ALL: Final = "~"
_LIMITS_TYPE: Final = "map<string,string>"
# A statement tells bytes in the charset, and a moment in the time zone, of its session.
_SPELLED_APART: Final = frozenset({"binary", "timestamp"})


@dataclass(frozen=True)
class StatedDefault:
    """What a statement of DDL at a position tells; `text` is as SQL has it, None for NULL.

    `verbatim`: whether a column of text holds it so. `stored`: the type of the column that rows
    were filled in, '' where that is not kept.
    """

    at: str
    text: str | None
    verbatim: bool = True
    stored: str = ""

    def value(self, into: ColumnType) -> Column:
        """As a value of a stored type; NULL where that cannot be told."""
        lost = into.name in _SPELLED_APART or (into == STRING and not self.verbatim)
        return fitted(F.lit(None if lost else self.text).cast("string"), into, into)

    def limits(self, firsts: Mapping[str, str]) -> dict[str, str]:
        """As `Default.limits`."""
        if self.text is None:
            return {}
        loaded = min(self.at, firsts.get(KIND_FULL_LOAD, _ABOVE_ALL))
        return {KIND_FULL_LOAD: loaded, _kind(self.at): self.at}


@dataclass(frozen=True)
class Default:
    """`firsts`: the lowest position of an event that has the column, by kind of position.

    `text` is the default told at that of the source's order, as the images would carry it, of
    type `kind`; None: the column came without one, or no event of that order has it. `stated`: what
    DDL tells, which says where the column came; the events' default counts where its own cannot be
    read as the column.
    """

    firsts: Mapping[str, str]
    text: str | None = None
    kind: ColumnType = STRING
    stated: StatedDefault | None = None

    @property
    def since(self) -> str:
        """The lowest position of the source's order."""
        return self.firsts.get(KIND_SOURCE, _ABOVE_ALL)

    @property
    def limits(self) -> dict[str, str]:
        """Below which position the default is what a change holds, by kind of position."""
        if self.stated is not None:
            return self.stated.limits(self.firsts)
        if self.text is None:
            return {}
        return {kind: min(self.since, self.firsts.get(kind, _ABOVE_ALL)) for kind in _KINDS}

    @property
    def ambiguous(self) -> bool:
        """Whether a full load, or an arrival, has the column, and may mean a NULL there."""
        return any(kind != KIND_SOURCE for kind in self.firsts)

    def reaches(self, lowest: str) -> bool:
        """Whether it is what a change at a position, or above it, may hold."""
        return any(limit > lowest for limit in self.limits.values())

    def limit(self) -> Column:
        """`limits` as a map; NULL where there are none."""
        pairs = [F.lit(part) for pair in self.limits.items() for part in pair]
        return F.create_map(*pairs) if pairs else F.lit(None).cast(_LIMITS_TYPE)

    def value(self, stored: str) -> Column:
        """The default as a value of the stored column's type; NULL where that cannot be told."""
        into = parse_type(stored)
        of_events = fitted(F.lit(self.text).cast("string"), self.kind, into)
        return of_events if self.stated is None else F.coalesce(self.stated.value(into), of_events)

    def value_since(self, stored: str) -> Column:
        """What rows that were filled hold, where the column was given a wider type since."""
        then = (self.stated.stored if self.stated else "") or stored
        return as_type(self.value(then), parse_type(then), stored)


Defaults = Mapping[str, Default]
NO_DEFAULTS: Final[Defaults] = {}
NOTHING: Final = Default({})
"""Of a column of which nothing is known."""


def told(
    found: Found, described: Mapping[int, Mapping[str, SourceColumn]], epoch: int, tells: bool
) -> dict[str, Default]:
    """What a batch's events say of every column that they have; of recalled shapes the names.

    `tells`: whether the format's events name defaults. Of others it matters where full loads have
    a column, for DDL may tell one.
    """
    columns: dict[int, Mapping[str, SourceColumn | None]] = {
        ident: dict.fromkeys(image) for ident, image in found.images.items()
    }
    columns.update(described)
    known = {name: NOTHING for shape in columns.values() for name in shape}
    for (ident, kind), position in found.lowest.items():
        if not tells and kind != KIND_FULL_LOAD:
            continue
        first = {kind: f"{epoch_prefix(epoch)}.{position}"}
        for name, column in columns.get(ident, {}).items():
            known[name] = _both(known[name], _first(first, column))
    return known


def _first(firsts: Mapping[str, str], column: SourceColumn | None) -> Default:
    if column is None or column.default is None or KIND_SOURCE not in firsts:
        return Default(firsts)
    return Default(firsts, column.default, column.type)


def lowest(one: Defaults, two: Defaults) -> dict[str, Default]:
    """Both of them; of a column that both know, what was told at the lower positions."""
    return {n: _both(one.get(n, NOTHING), two.get(n, NOTHING)) for n in (*one, *two)}


def _both(one: Default, two: Default) -> Default:
    """At one position an image tells no default, but the schema beside it may."""
    kinds = [k for k in _KINDS if k in one.firsts or k in two.firsts]
    firsts = {k: min(d.firsts.get(k, _ABOVE_ALL) for d in (one, two)) for k in kinds}
    told = min(one, two, key=lambda d: (d.since, d.text is None, d.text or "", repr(d.kind)))
    return Default(firsts, told.text, told.kind)


def covers(
    known: Defaults,
    columns: Iterable[str],
    lowest: str | None,
    highest: str | None,
    described: bool,
) -> bool:
    """Whether events with these columns, between two positions, can tell nothing that is new.

    Of events of two kinds the lowest of one kind is not told: they could. Events that describe no
    types tell no default; they matter where one is known that they could take back, and in a full
    load, which a default that DDL tells may be of.
    """
    of_columns = [known.get(name, NOTHING).firsts for name in columns]
    plain = not described and all(default.text is None for default in known.values())
    if lowest is None or not of_columns or (plain and not of_full_load(lowest)):
        return True
    kind = _kind(lowest)
    one_kind = plain or highest is None or _kind(highest) == kind
    return one_kind and all(firsts.get(kind, _ABOVE_ALL) <= lowest for firsts in of_columns)


def of_full_load(position: str) -> bool:
    """Whether it ranks below every change."""
    return _kind(position) == KIND_FULL_LOAD


def _kind(position: str) -> str:
    return position[KIND_AT - 1 : KIND_AT]


def entries(defaults: Defaults) -> dict[str, dict[str, Any]]:
    """As a table property has them, by column; of what tells nothing there is none."""
    return {n: _entry(d) for n, d in sorted(defaults.items()) if d.firsts}


def _entry(default: Default) -> dict[str, Any]:
    if default.text is None:
        return {"firsts": default.firsts}
    return {"firsts": default.firsts, "text": default.text, "kind": asdict(default.kind)}


def of_entries(raw: Mapping[str, dict[str, Any]]) -> dict[str, Default]:
    """What `entries` gave, now or before it told the kinds of positions apart."""
    return {n: _default(entry) for n, entry in raw.items()}


def _default(entry: dict[str, Any]) -> Default:
    firsts = entry["firsts"] if "firsts" in entry else {KIND_SOURCE: entry["since"]}
    if entry.get("text") is None:
        return Default(firsts)
    return Default(firsts, entry["text"], ColumnType(**entry["kind"]))


def filled(rows: DataFrame, defaults: Defaults, at: Column | None = None) -> DataFrame:
    """Changes with the defaults of the columns that they lack, by the position that they are `at`,
    which is their own."""
    types = {f.name: f.dataType.simpleString() for f in rows.schema}
    at = F.col(names.POSITION) if at is None else at
    kind = F.substring(at, KIND_AT, 1)
    values = {}
    for name, default in defaults.items():
        if name in types and default.limits:
            column = F.col(quoted(name))
            lacks = column.isNull() & (at < default.limit()[kind])
            values[name] = F.when(lacks, default.value(types[name])).otherwise(column)
    return rows.withColumns(values) if values else rows


def as_standing(rows: DataFrame, defaults: Defaults, floor: str) -> DataFrame:
    """Stored rows that are put together as they stand, at the floor, for what is forgotten: with
    the defaults that statements above the floor tell, for all forgotten changes lacked the column.

    A NULL from above the floor comes again with its event. Not where a default is `ambiguous`.
    """
    told = {n: d for n, d in defaults.items() if d.stated and not d.ambiguous}
    return filled(rows, told, F.least(names.POSITION, F.lit(floor)))


@dataclass(frozen=True)
class Refill:
    """A column whose stored values change because other defaults are told now.

    In SQL the stored row is `t`, the one row of `as_row` is `s`.
    """

    name: str
    stored: str
    before: Default
    now: Default

    @property
    def _first(self) -> StatedDefault | None:
        """What DDL tells of it, where nothing told it before."""
        return None if self.before.limits else self.now.stated

    def above(self, highest: str | None) -> bool:
        """Whether DDL tells it first, above all that is stored."""
        stated = self._first
        return stated is not None and highest is not None and stated.at > highest

    def between(self, floor: str, highest: str | None) -> bool:
        """Whether DDL tells it first, above the floor and not above all that is stored."""
        stated = self._first if self.now.limits else None
        return stated is not None and stated.at > floor and not self.above(highest)

    def told(self) -> Column:
        """What it is by, in one column."""
        return F.struct(
            self.before.limit().alias("was_below"),
            self.before.value_since(self.stored).alias("was"),
            self.now.limit().alias("below"),
            self.now.value(self.stored).alias("value"),
        ).alias(self.name)

    @property
    def value(self) -> str:
        """What a stored row has to hold: a row that lacked the column had nothing but a default."""
        stored, told = f"t.{quoted(self.name)}", f"s.{quoted(self.name)}"
        position = f"t.{names.POSITION}"
        kind = f"substring({position}, {KIND_AT}, 1)"
        lacked = f"{position} < {told}.was_below[{kind}] AND {stored} <=> {told}.was"
        lacks = f"{position} < {told}.below[{kind}]"
        return (
            f"CASE WHEN {lacks} AND ({stored} IS NULL OR {lacked}) THEN {told}.value "
            f"WHEN {lacked} THEN NULL ELSE {stored} END"
        )


def refills(before: Defaults, now: Defaults, types: Mapping[str, str]) -> list[Refill]:
    """The columns, by name and stored type, in which stored rows hold something else now.

    A default that is not told any more is taken back.
    """
    pairs = {n: (before.get(n, NOTHING), now.get(n, NOTHING)) for n in types}
    return [Refill(n, types[n], *pair) for n, pair in pairs.items() if _differ(*pair)]


def _differ(before: Default, now: Default) -> bool:
    stated = before.stated
    if stated and now.stated and not stated.stored:
        stated = replace(stated, stored=now.stated.stored)
    return (before.limits, before.text, before.kind, stated) != (
        now.limits, now.text, now.kind, now.stated,
    )  # fmt: skip


def as_row(spark: SparkSession, refills: Iterable[Refill]) -> DataFrame:
    """One row with a column for each."""
    return spark.range(1).select(*(refill.told() for refill in refills))


def refilled(rows: DataFrame, before: Defaults, now: Defaults) -> DataFrame:
    """Stored rows, which hold the defaults of `before`, with those of `now`."""
    types = {f.name: f.dataType.simpleString() for f in rows.schema}
    values = {refill.name: refill for refill in refills(before, now, types)}
    if not values:
        return rows
    told = F.broadcast(as_row(rows.sparkSession, values.values())).alias("s")
    columns = {n: values[n].value if n in values else f"t.{quoted(n)}" for n in types}
    return rows.alias("t").crossJoin(told).select(*(F.expr(v).alias(n) for n, v in columns.items()))
