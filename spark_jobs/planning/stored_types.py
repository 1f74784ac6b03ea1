"""The type that a column is stored as, and how its values are read.

It follows from the hint, the existing table and *all* descriptions in the events, by `widest` or,
with `on_type_change: string`, by `widest_or_text`; never from the order of arrival. If none of them
gives a type, a script of DDL does. With `on_type_change: quarantine` or `new_column` (`type_split`)
a stored column keeps its type if another does not fit it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pyiceberg.schema import index_by_id
from pyiceberg.table import Table
from pyiceberg.types import (
    NestedField,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
    TimeType,
)

from sluice.config import policies
from sluice.errors import ELSEWHERE, Evidence, PlanError
from sluice.types.columns import (
    LISTED,
    STRING,
    UNSIGNED,
    VARIABLE,
    ColumnType,
    as_described,
    is_code,
    is_type,
    parse_type,
    widest,
    widest_or_text,
)
from spark_jobs.formats.base import SourceColumn
from spark_jobs.planning.other_names import NO_OTHERS, OtherNames, Others
from spark_jobs.planning.planned_column import PlannedColumn
from spark_jobs.planning.type_changes import is_promoted

NOT_DESCRIBED: Final[Mapping[int, SourceColumn]] = {}
_UNKNOWN_TO_SPARK: Final = (TimeType, TimestampNanoType, TimestamptzNanoType)


@dataclass(frozen=True)
class KnownTypes:
    """What is known of a table's types apart from its events: hints, stored columns, scripts.

    `stored`: the stored columns' types in Spark. `reused_names`: names that two columns had, whose
    types need not fit together. `ddl`: the types in a script as which texts of the format can be
    read. `other_names`: those of renamed columns. `undescribed`: the batch's events describe no
    column at all. `earlier`: the descriptions of earlier batches and of this one. `bytes_as`: see
    `Format`.
    """

    table: str
    hints: Mapping[str, str]
    stored: Mapping[str, str]
    on_type_change: str = policies.FAIL
    reused_names: Collection[str] = ()
    ddl: Mapping[str, ColumnType] = field(default_factory=dict)
    other_names: OtherNames = field(default_factory=dict)
    undescribed: bool = False
    earlier: Mapping[int, Mapping[str, SourceColumn]] = field(default_factory=dict)
    bytes_as: str = ""

    def hinted_other_name(self, column: str) -> str | None:
        """Return another name of the column that has a hint, if the column itself has
        none; else None."""
        other = None if column in self.hints else self._first(column, self.hints)
        stored = self.stored.get(column)
        if other is None or stored is None or self._others_of(column).alone:
            return other
        # Two columns had this name: a stored value of another type may be the other column's.
        return other if stored_form(parse_type(self.hints[other])).spark == stored else None

    def type_in_script(self, column: str) -> ColumnType | None:
        """Return the column's type in a script, by its own name or else by its other names."""
        name = self._first(column, self.ddl)
        return None if name is None else self.ddl[name]

    def stored_type(self, column: str) -> ColumnType | None:
        """Return the type as which a column is stored, under any of its names."""
        name = self._first(column, self.stored)
        return None if name is None else parse_type(self.stored[name])

    def described_encodings(self, column: str) -> dict[int | None, ColumnType]:
        """Return how events of any batch describe a stored column whose text alone does not show
        its value.

        {} for any other column, and for typed files, whose text the reader made.
        """
        if column not in self.stored:
            return {}
        name = self._described_as(column)
        listed = {i: c[name] for i, c in self.earlier.items() if name in c}
        kinds: dict[int | None, ColumnType] = {
            i: c.type
            for i, c in listed.items()
            if not c.typed and not self._is_set_aside(column, c.type)
        }
        return kinds if any(map(needs_description, kinds.values())) else {}

    def _described_as(self, column: str) -> str:
        """Return the column, or, if no event describes it, another of its names that one does."""
        others = self._others_of(column)
        if not (others.names and others.alone):
            return column
        return self._first(column, {n for c in self.earlier.values() for n in c}) or column

    def _is_set_aside(self, column: str, kind: ColumnType) -> bool:
        """Whether values of a type went to an extra column (`type_split`)."""
        if self.on_type_change != policies.NEW_COLUMN or column.lower() in self.reused_names:
            return False
        return widest(parse_type(self.stored[column]), stored_form(kind)) is None

    def bytes_read_as(self) -> ColumnType:
        """Return how a record without a description writes bytes; text, which does not fit them, if
        the format has several ways."""
        return ColumnType("binary", self.bytes_as) if self.bytes_as else STRING

    def _others_of(self, column: str) -> Others:
        return self.other_names.get(column.lower(), NO_OTHERS)

    def _first(self, column: str, available: Collection[str]) -> str | None:
        """Return the first of a column's names that is in `available`, spelled as there;
        None for none."""
        if column in available or column.lower() not in self.other_names:
            return column if column in available else None
        spelled = {name.lower(): name for name in available}
        names = (column.lower(), *self._others_of(column).names)
        return next((spelled[name] for name in names if name in spelled), None)

    def keeps_stored_type(self, column: str) -> bool:
        """Whether the column keeps its stored type if another one does not fit it."""
        if self.on_type_change != policies.QUARANTINE:
            return False
        return column in self.stored and column.lower() not in self.reused_names

    def widening_rule(self, column: str) -> Callable[[ColumnType, ColumnType], ColumnType | None]:
        """Return the function that gives a type for the values of two others, or None if
        there is none."""
        text = self.on_type_change == policies.STRING or column.lower() in self.reused_names
        return widest_or_text if text else widest


def refuse_foreign_types(table: str, stored: Mapping[str, str]) -> None:
    """Raise PlanError that names the stored columns of types that Sluice stores nothing as, such as
    lists: another writer added them."""
    _refuse_foreign(table, {name: kind for name, kind in stored.items() if not is_type(kind)})


def refuse_unreadable_types(table: Table) -> None:
    """Raise PlanError that names the columns of types that Spark cannot read."""
    _refuse_foreign(".".join(table.name()), unreadable_types(table))


def unreadable_types(table: Table) -> dict[str, str]:
    """Return the columns of types that Spark does not know, with these: it reads no row of a table
    that has one, and sets no property of it."""
    fields = table.schema().fields
    return {field.name: str(field.field_type) for field in fields if not _is_readable(field)}


def _is_readable(field: NestedField) -> bool:
    parts = index_by_id(StructType(field)).values()
    return not any(isinstance(part.field_type, _UNKNOWN_TO_SPARK) for part in parts)


def _refuse_foreign(table: str, foreign: Mapping[str, str]) -> None:
    lines = [
        f"table {table}, column {name!r}: Sluice did not make it, since it stores nothing as {kind}"
        ": drop the column, or keep it in a table of your own, and join that in a view"
        for name, kind in foreign.items()
    ]
    if lines:
        raise PlanError(*lines)


def planned(
    name: str, described: Mapping[int, Mapping[str, SourceColumn]], types: KnownTypes
) -> PlannedColumn:
    """Plan one column; raises PlanError if no type holds all of its types."""
    columns = {ident: listed[name] for ident, listed in described.items() if name in listed}
    if name in types.hints:
        return _by_hint(name, columns, types)
    other = types.hinted_other_name(name)
    if not columns:
        return _undescribed(name, types) if other is None else _by_hint_of(other, name, types)
    if other is not None and changes_values(parse_type(types.hints[other])):
        raise partial_hint(types.table, other, name)
    return _by_descriptions(name, columns, types)


def _by_hint(name: str, columns: Mapping[int, SourceColumn], types: KnownTypes) -> PlannedColumn:
    hint = parse_type(types.hints[name])
    described: dict[int | None, ColumnType] = {i: column.type for i, column in columns.items()}
    readings = _hinted(hint, described, {i for i, column in columns.items() if column.typed})
    if any(kind.zone and kind.encoding == "days" for kind in readings.values()):
        raise _zone_of_days(name, types)
    return PlannedColumn(name, _stored(name, [hint], types), readings)


def _by_descriptions(
    name: str, columns: Mapping[int, SourceColumn], types: KnownTypes
) -> PlannedColumn:
    readings: dict[int | None, ColumnType] = {i: column.type for i, column in columns.items()}
    kinds = list(readings.values())
    if any(column.typed and column.type.name == "binary" for column in columns.values()):
        readings[None] = types.bytes_read_as()
    else:
        readings = {**types.described_encodings(name), **readings}
    if types.keeps_stored_type(name):
        return PlannedColumn(name, _wider(parse_type(types.stored[name]), kinds), readings)
    return PlannedColumn(name, _stored(name, kinds, types, columns), readings)


def needs_description(kind: ColumnType) -> bool:
    """Whether text alone does not show a value of the type, or not as it is stored."""
    respelled = kind.encoding == VARIABLE or kind.encoding.startswith(LISTED)
    return kind.name == "binary" or respelled or is_code(kind)


def _undescribed(name: str, types: KnownTypes) -> PlannedColumn:
    """Plan a column that no event describes.

    A stored type changes to that in a script only if Iceberg promotes it in place, so that no later
    script can stop a batch.
    """
    script = types.type_in_script(name)
    stated = script or STRING
    kind = stored_form(stated)
    stored = types.stored_type(name) if script or name in types.stored else None
    if stored is not None:
        grows = widest(stored, kind) == kind and is_promoted(stored.spark, kind.spark)
        kind = kind if grows else stored
    reading = types.bytes_read_as() if kind.name == "binary" else as_described(kind, stated)
    readings = types.described_encodings(name) or {None: reading}
    return PlannedColumn(name, kind, readings, has_type=script is not None)


def _by_hint_of(other: str, name: str, types: KnownTypes) -> PlannedColumn:
    """Plan a column that no event describes, by the hint for `other`, another of its names.

    Raises PlanError if it was stored with another type, before the rename was known.
    """
    hint = parse_type(types.hints[other])
    stored = types.stored.get(name)
    if stored is not None and _is_otherwise(parse_type(stored), hint, types):
        raise PlanError(
            f"table {types.table}: columns {name!r} and {other!r} are one that the source "
            f"renamed, which was not known when rows of {name!r} were stored as {stored} and not "
            f"by the hint of {other!r}, {types.hints[other]}; hint {name!r} too in `columns:`, "
            f"with a type that its rows were stored by, or {ELSEWHERE}"
        )
    # A stored column that events of other batches described keeps its type.
    kind = parse_type(stored) if stored and not types.undescribed else _stored(name, [hint], types)
    return PlannedColumn(name, kind, {None: hint})


def _is_otherwise(stored: ColumnType, hint: ColumnType, types: KnownTypes) -> bool:
    """Whether a stored column has values that were not read by the hint."""
    both = widest(stored, stored_form(hint))
    return types.undescribed if both is None else changes_values(hint) and both != stored


def changes_values(hint: ColumnType) -> bool:
    """Whether a hint changes values and not only their type: their sign, their trailing zeros, or
    their time zone."""
    return hint.encoding == UNSIGNED or hint.width > 0 or bool(hint.zone)


def partial_hint(table: str, hinted: str, unhinted: str) -> PlanError:
    """Return the error for a renamed column that events describe under one name and that has a hint
    under another one."""
    return PlanError(
        f"table {table}: columns {hinted!r} and {unhinted!r} are one that the source renamed, and "
        f"the hint of {hinted!r} changes its values; hint {unhinted!r} too in `columns:`, or, "
        "where its values are right as they come, with the type that its events tell"
    )


def _hinted(
    hint: ColumnType, described: Mapping[int | None, ColumnType], typed: Collection[int | None]
) -> dict[int | None, ColumnType]:
    """Return the hint in the encoding of each description.

    Records without a description are read as VARIABLE numbers if a description has these; that
    reads plain numbers too.
    """
    written = {i: as_described(hint, kind, i in typed) for i, kind in described.items()}
    kinds = set(written.values())
    variable = replace(hint, encoding=VARIABLE)
    rest = variable if variable in kinds else hint
    return {None: rest} if kinds <= {rest} else {**written, None: rest}


def _zone_of_days(name: str, types: KnownTypes) -> PlanError:
    hint = types.hints[name]
    return PlanError(
        f"table {types.table}, column {name!r}: its events have days, and these have no time zone: "
        f"take @{parse_type(hint).zone} out of its hint {hint}"
    )


def _stored(
    name: str,
    kinds: list[ColumnType],
    types: KnownTypes,
    columns: Mapping[int, SourceColumn] = NOT_DESCRIBED,
) -> ColumnType:
    """Return the type that holds all `kinds` and what is stored; `columns`: as events describe
    the column."""
    existing = types.stored
    everything = kinds + ([parse_type(existing[name])] if name in existing else [])
    result = stored_form(everything[0])
    widening_rule = types.widening_rule(name)
    for kind in everything[1:]:
        wider = widening_rule(result, stored_form(kind))
        if wider is None and name in types.hints and name in existing:
            raise _unfit_hint(name, types)
        if wider is None:
            raise PlanError(
                f"table {types.table}, column {name!r}: {result.spark} and {kind.spark} do not "
                f"fit together; say which in `columns: {{{name}: …}}`, or have the text of both "
                "stored (on_type_change: string), which bytes have none of, what does not fit "
                "the stored one in a column beside it (new_column), or quarantined (quarantine)",
                evidence=Evidence([name], types=_unfit(name, columns, types)),
            )
        result = wider
    return result


def _unfit(name: str, columns: Mapping[int, SourceColumn], types: KnownTypes) -> list[int]:
    """Return the descriptions of a stored column whose type does not fit it."""
    if name not in types.stored:
        return []
    stored, rule = stored_form(parse_type(types.stored[name])), types.widening_rule(name)
    return [i for i, column in columns.items() if rule(stored, stored_form(column.type)) is None]


def _unfit_hint(name: str, types: KnownTypes) -> PlanError:
    return PlanError(
        f"table {types.table}, column {name!r}: the stored column is {types.stored[name]}, which "
        f"the hint {types.hints[name]} does not fit; take the hint back, or have the text of both "
        "stored (on_type_change: string), which bytes have none of; to read the stored values "
        "again by the hint, undo the batches that brought them, the newest first (sluice rollback "
        "PIPELINE --batch BATCH), release their files (sluice release PIPELINE --batch BATCH) and "
        f"run again; or {ELSEWHERE}"
    )


def _wider(stored: ColumnType, kinds: Iterable[ColumnType]) -> ColumnType:
    """Return a type for the values of the stored one and of those kinds that fit it."""
    for kind in sorted(kinds, key=str):
        stored = widest(stored, stored_form(kind)) or stored
    return stored


def stored_form(kind: ColumnType) -> ColumnType:
    """Return the type as which values of a type are stored: text for times of day."""
    return (
        STRING if kind.spark == "string" else ColumnType(kind.name, "", kind.precision, kind.scale)
    )
