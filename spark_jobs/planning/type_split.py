"""`on_type_change: new_column`: values that a stored column cannot hold go to an extra column.

The stored type stays. If an event describes `amount` with a type that `widest` does not join with
it, its value goes to `amount__string`, named by the type (`_FAMILIES`), and `amount` is NULL. An
event without the column has neither. So a row has a value in at most one of them. A column that is
not stored yet gets the type that is described at the lowest position.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.config.policies import NEW_COLUMN
from sluice.errors import Evidence, PlanError
from sluice.types.columns import ColumnType, parse_type, widest
from spark_jobs.canonical import ALL_BUT
from spark_jobs.expressions import replaced
from spark_jobs.formats.base import SourceColumn
from spark_jobs.planning.spelling import Described, Spelling
from spark_jobs.planning.stored_types import KnownTypes, stored_form
from spark_jobs.planning.table_summary import TableSummary, short_name

# Types that widen to one another share a column, in whatever order they come.
_FAMILIES: Final = {"int": "number", "bigint": "number", "decimal": "number", "float": "double"}
_ALONE: Final = ("string", "binary", "boolean", "date", "timestamp", "timestamp_ntz")
_SUFFIXES: Final = tuple(f"__{family}" for family in ("number", "double", *_ALONE))


@dataclass(frozen=True)
class TypeSplit:
    """The columns whose values of another type go to an extra column `<name>__<type>`, by the
    option `on_type_change: new_column`.

    `suffixes`: short name of a description → column name in events → suffix. `own`: source columns
    whose own names end in such a suffix. `stored`: column name in events → name in the table,
    where that is another one. `enabled`: whether the table may have extra columns at all; a table
    without a key has none.
    """

    enabled: bool = False
    suffixes: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    stored: Mapping[str, str] = field(default_factory=dict)

    def of_described(self, described: Described) -> dict[int, dict[str, SourceColumn]]:
        """Return the descriptions under the new names; extra columns have no defaults, since stored
        rows have values."""
        return {
            ident: {
                name + suffix: replace(column, default=None) if suffix else column
                for name, column in columns.items()
                for suffix in [self.suffixes.get(ident, {}).get(name, "")]
            }
            for ident, columns in described.items()
        }

    def of_spelling(self, spelled: Spelling) -> Spelling:
        """Add the new names, in as many spellings as events have of the original name."""
        in_events = dict(spelled.in_events)
        for name, suffix in chain.from_iterable(of.items() for of in self.suffixes.values()):
            names = spelled.in_events.get(name.lower(), (name,))
            in_events[f"{name}{suffix}".lower()] = tuple(n + suffix for n in names)
        return replace(spelled, in_events=in_events)

    def of_events(self, events: DataFrame) -> DataFrame:
        """Return the envelope's events with the values under the new names."""
        if not self.enabled:
            return events
        images = {image: self._set_aside(F.col(image)) for image in ("before", "after")}
        return events.withColumns({**images, "absent": F.flatten(self._listed(F.col("absent")))})

    def _set_aside(self, image: Column) -> Column:
        described, set_aside = short_name(F.col("types")), image
        for ident, suffixes in self.suffixes.items():
            set_aside = F.when(described == ident, _suffixed(image, suffixes)).otherwise(set_aside)
        return set_aside

    def _listed(self, absent: Column) -> Column:
        """Add to each absent name the extra columns that it may have, now or in later batches."""
        own = F.array(*map(F.lit, sorted(self.own))).cast("array<string>")

        def with_others(name: Column) -> Column:
            stored = replaced(name, self.stored, name)
            others = F.array(*(F.concat(stored, F.lit(suffix)) for suffix in _SUFFIXES))
            beside = F.filter(others, lambda other: ~F.array_contains(own, F.lower(other)))
            alone = F.array(name)
            return F.when(name == ALL_BUT, alone).otherwise(F.concat(alone, beside))

        return F.transform(absent, with_others)


def _suffixed(image: Column, suffixes: Mapping[str, str]) -> Column:
    return F.transform_keys(
        image, lambda name, _: F.concat(name, replaced(name, suffixes, F.lit("")))
    )


NO_SPLIT: Final = TypeSplit()


def split_by_type(
    summary: TableSummary,
    described: Described,
    types: KnownTypes,
    spelled: Spelling,
    key: Collection[str],
) -> TypeSplit:
    """Return which columns get an extra column for values of another type; the `key` and hinted
    columns never do.

    Raises PlanError if the source has a column of the new name, the table has no key, or it is
    unknown which type came first.
    """
    if types.on_type_change != NEW_COLUMN:
        return NO_SPLIT
    suffixes = _suffixes(summary, described, types, {*key, *types.hints})
    named = {name.lower() for name in summary.columns.union(*described.values())}
    own = frozenset(name for name in named if name.endswith(_SUFFIXES))
    _refuse(summary, suffixes, own, key)
    every = {
        ident: {n: suffix for name, suffix in of.items() for n in (name, *spelled.others(name))}
        for ident, of in suffixes.items()
    }
    return TypeSplit(bool(key), every, own, spelled.respelled)


def _suffixes(
    summary: TableSummary, described: Described, types: KnownTypes, fixed: Collection[str]
) -> dict[int, dict[str, str]]:
    """Return the suffixes, by comparing descriptions in the order of their positions; a type that
    can be joined to the first one widens that."""
    widest_so_far = {name: parse_type(kind) for name, kind in types.stored.items()}
    beside: dict[int, dict[str, str]] = {}
    for ident in sorted(
        described, key=lambda ident: (_lowest(summary, ident), summary.types[ident])
    ):
        for name, column in described[ident].items():
            if name in fixed or name.lower() in types.reused_names:
                continue
            kind = stored_form(column.type)
            joined = widest(widest_so_far.get(name, kind), kind)
            if joined is None:
                _refuse_unplaced(summary, name, types)
                beside.setdefault(ident, {})[name] = _suffix(kind)
            else:
                widest_so_far[name] = joined
    return beside


def _suffix(kind: ColumnType) -> str:
    return f"__{_FAMILIES.get(kind.name, kind.name)}"


def _lowest(summary: TableSummary, ident: int) -> str:
    return min((p for (shape, _), p in summary.lowest.items() if shape == ident), default="")


def _refuse_unplaced(summary: TableSummary, name: str, types: KnownTypes) -> None:
    """Refuse a column whose first type is unknown, since cached descriptions have no positions."""
    if name not in types.stored and not summary.lowest:
        raise PlanError(
            f"table {summary.source.name}: it is unknown which type of {name!r} came first"
        )


def _refuse(
    summary: TableSummary,
    suffixes: Mapping[int, Mapping[str, str]],
    own: Collection[str],
    key: Collection[str],
) -> None:
    changed = sorted({name for names in suffixes.values() for name in names})
    taken = {name + suffix for names in suffixes.values() for name, suffix in names.items()}
    if clash := sorted(name for name in taken if name.lower() in own):
        raise PlanError(
            f"table {summary.source.name}: its events have columns {clash}, which on_type_change: "
            f"{NEW_COLUMN} would make; hint the types of the columns before `__`",
            evidence=Evidence(clash),
        )
    if changed and not key:
        raise PlanError(
            f"table {summary.source.name}: the type of {changed} changed, and on_type_change: "
            f"{NEW_COLUMN} needs a key: rows without one are known by all that they hold; hint "
            "the type, or set on_type_change to string",
            evidence=Evidence(changed, types=suffixes),
        )
