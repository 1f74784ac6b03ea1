"""`on_type_change: new_column`: values that a stored column cannot hold go into one beside it.

The stored type stands. An event that describes the column as another type, which `widest` does not
join with it, says what it says in `amount__string`, or whatever its type is called (`_FAMILIES`),
and NULL in `amount`; where it leaves the column out it leaves out both. So a row has one of them.
Of a table that is not stored yet the type stands that is told at the lowest position.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice.coltypes import ColumnType, parse_type, widest
from sluice.config.schemachange import NEW_COLUMN
from sluice.errors import PlanError
from spark_jobs.formats.base import SourceColumn
from spark_jobs.planning.discover import Found, short_name
from spark_jobs.planning.spelling import Described, Spelling
from spark_jobs.planning.storedtypes import Stated, stored_form

# Types that widen to one another share a column, in whatever order they come.
_FAMILIES: Final = {"int": "number", "bigint": "number", "decimal": "number", "float": "double"}
_ALONE: Final = ("string", "binary", "boolean", "date", "timestamp", "timestamp_ntz")
_SUFFIXES: Final = tuple(f"__{family}" for family in ("number", "double", *_ALONE))


@dataclass(frozen=True)
class Besides:
    """`suffixes`: by a description's short name, and by each of the names that events have for a
    column, what is added to these; `known`: by such a name all suffixes that its table has."""

    suffixes: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    known: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def of_described(self, described: Described) -> dict[int, dict[str, SourceColumn]]:
        """Descriptions under the new names. No default: stored rows have their value already."""
        return {
            ident: {
                name + suffix: replace(column, default=None) if suffix else column
                for name, column in columns.items()
                for suffix in [self.suffixes.get(ident, {}).get(name, "")]
            }
            for ident, columns in described.items()
        }

    def of_spelling(self, spelled: Spelling) -> Spelling:
        """With the new names, of which events have as many spellings as of the column's own."""
        heard = dict(spelled.heard)
        for name, suffixes in self.known.items():
            names = heard.get(name.lower(), (name,))
            heard.update({f"{name}{s}".lower(): tuple(n + s for n in names) for s in suffixes})
        return replace(spelled, heard=heard)

    def of_events(self, events: DataFrame) -> DataFrame:
        """The envelope's events with their values under the new names."""
        if not self.known:
            return events
        images = {image: self._moved(F.col(image)) for image in ("before", "after")}
        return events.withColumns({**images, "absent": self._left_out()})

    def _moved(self, image: Column) -> Column:
        described, moved = short_name(F.col("types")), image
        for ident, suffixes in self.suffixes.items():
            moved = F.when(described == ident, _suffixed(image, suffixes)).otherwise(moved)
        return moved

    def _left_out(self) -> Column:
        named = {name: [name, *(name + s for s in all_of)] for name, all_of in self.known.items()}
        listed = ((F.lit(name), F.array(*map(F.lit, names))) for name, names in named.items())
        known = F.create_map(*chain.from_iterable(listed))
        return F.flatten(
            F.transform("absent", lambda n: F.coalesce(F.try_element_at(known, n), F.array(n)))
        )


def _suffixed(image: Column, suffixes: Mapping[str, str]) -> Column:
    known = F.create_map(*map(F.lit, chain.from_iterable(suffixes.items())))
    return F.transform_keys(
        image, lambda name, _: F.concat(name, F.coalesce(F.try_element_at(known, name), F.lit("")))
    )


NOTHING_BESIDE: Final = Besides()


def besides(
    found: Found, described: Described, stated: Stated, spelled: Spelling, key: Collection[str]
) -> Besides:
    """Which columns of which descriptions go beside; those of the `key` and hinted ones never.

    Raises PlanError where the source has a column that is called so, or the table has no key.
    """
    if stated.policy != NEW_COLUMN:
        return NOTHING_BESIDE
    suffixes = _suffixes(found, described, stated, {*key, *stated.hints, *stated.used_again})
    known = {n: {s for s in _SUFFIXES if n + s in stated.existing} for n in stated.existing}
    for names in suffixes.values():
        for name, suffix in names.items():
            known.setdefault(name, set()).add(suffix)
    known = {name: all_of for name, all_of in known.items() if all_of}
    told = {name for columns in described.values() for name in columns}
    _refuse(found, told, known, key)
    every = {name: (name, *spelled.others(name)) for name in known}
    return Besides(
        {i: {n: s for name, s in of.items() for n in every[name]} for i, of in suffixes.items()},
        {n: tuple(sorted(all_of)) for name, all_of in known.items() for n in every[name]},
    )


def _suffixes(
    found: Found, described: Described, stated: Stated, fixed: Collection[str]
) -> dict[int, dict[str, str]]:
    standing: dict[str, ColumnType] = {}
    beside: dict[int, dict[str, str]] = {}
    for ident in sorted(described, key=lambda ident: (_lowest(found, ident), found.types[ident])):
        for name, column in described[ident].items():
            if name in fixed:
                continue
            kind = stored_form(column.type)
            stored = parse_type(stated.existing[name]) if name in stated.existing else kind
            if widest(standing.setdefault(name, stored), kind) is None:
                beside.setdefault(ident, {})[name] = f"__{_FAMILIES.get(kind.name, kind.name)}"
    return beside


def _lowest(found: Found, ident: int) -> str:
    return min((p for (shape, _), p in found.lowest.items() if shape == ident), default="")


def _refuse(
    found: Found, told: Iterable[str], known: Mapping[str, Collection[str]], key: Collection[str]
) -> None:
    taken = {n + s for n, all_of in known.items() for s in all_of}
    if clash := sorted(taken.intersection({*found.columns, *told})):
        raise PlanError(
            f"table {found.source.name}: its events have columns {clash}, which on_type_change: "
            f"{NEW_COLUMN} would make; hint the types of the columns before `__`"
        )
    if known and not key:
        raise PlanError(
            f"table {found.source.name}: the type of {sorted(known)} changed, and on_type_change: "
            f"{NEW_COLUMN} needs a key: rows without one are known by all that they hold; hint "
            "the type, or set on_type_change to string"
        )
