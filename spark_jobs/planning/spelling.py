"""One column in several spellings: `K1` in one event, `k1` in another.

Spark and Iceberg know a column by its name in any case, and sources do not keep to one: Canal has
the case of the statement in its rows and that of the table beside them. So a column has the
spelling of the stored table, else one that follows from the set of events alone: the only one that
their descriptions and keys have, or the greatest, for lower case sorts above upper case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from sluice.config.ddl_files import DdlTable
from sluice.config.project import TableConfig
from sluice.errors import PlanError
from sluice.source_names import is_column_name
from sluice.types.columns import STRING
from spark_jobs.formats.base import SourceColumn
from spark_jobs.planning.discover import Found
from spark_jobs.planning.key_names import KeyNames

NO_SCRIPT: Final = DdlTable("", "", {})
Described = Mapping[int, Mapping[str, SourceColumn]]


@dataclass(frozen=True)
class Spelling:
    """How each column is spelled in the tables, by its name in lower case.

    `heard`: how events spell it; `key_names`: all other names of the key's columns.
    """

    chosen: Mapping[str, str]
    heard: Mapping[str, tuple[str, ...]]
    key_names: KeyNames

    def of(self, name: str) -> str:
        """The spelling of the tables; a name that no event has keeps its own."""
        column = self.key_names.get(name.lower(), name)
        return self.chosen.get(column.lower(), column)

    def others(self, name: str) -> tuple[str, ...]:
        """How events spell the column besides."""
        return tuple(n for n in self.heard.get(name.lower(), ()) if n != name)

    def of_found(self, found: Found) -> Found:
        """What was found, in the spelling of the tables."""
        images, keys = (
            {ident: tuple(map(self.of, names)) for ident, names in listed.items()}
            for listed in (found.images, found.keys)
        )
        return replace(found, images=images, keys=keys)

    def of_described(self, described: Described) -> dict[int, dict[str, SourceColumn]]:
        """Descriptions in the spelling of the tables."""
        return {
            ident: {self.of(name): column for name, column in columns.items()}
            for ident, columns in described.items()
        }

    def of_config(self, config: TableConfig) -> TableConfig:
        """Return hints, key, its collations and partition fields in the tables' spelling."""
        key = None if config.key is None else [*map(self.of, config.key)]
        hints = sorted(config.columns.items(), key=lambda hint: self.of(hint[0]) == hint[0])
        columns = {self.of(name): kind for name, kind in hints}
        collations = {self.of(name): rule for name, rule in config.collations.items()}
        nulls = [*map(self.of, config.null_keys)]
        fields = [replace(p, column=self.of(p.column)).sql for p in config.partitions]
        respelled = {
            "key": key, "columns": columns, "collations": collations, "null_keys": nulls,
            "partition_by": fields,
        }  # fmt: skip
        return config.model_copy(update=respelled)

    def of_ddl(self, table: DdlTable | None, plain: Container[str]) -> DdlTable:
        """What a script tells, in the spelling of the tables; a type that is not one of the `plain`
        ones is text."""
        if table is None:
            return NO_SCRIPT
        kinds = table.columns.items()
        columns = {
            self.of(name): kind if kind.name in plain else STRING
            for name, kind in kinds
            if is_column_name(name)
        }
        return replace(table, columns=columns, key=tuple(map(self.of, table.key)))


def spelling(
    found: Found, described: Described, existing: Iterable[str], key_names: KeyNames
) -> Spelling:
    """Choose each column's spelling; raises PlanError where the source tells two of them apart."""
    _refuse_two_columns(found, described, {name.lower() for name in existing})
    listed = {name for columns in described.values() for name in columns}
    known = listed.union(*found.keys.values())
    heard = _alike(found.columns | listed)
    chosen = {folded: _one_of(names, known) for folded, names in heard.items()}
    stored = {name.lower(): name for name in existing}
    return Spelling({**chosen, **stored}, _with_key_names(heard, key_names), key_names)


def _with_key_names(
    heard: Mapping[str, tuple[str, ...]], key_names: KeyNames
) -> dict[str, tuple[str, ...]]:
    found = dict(heard)
    for other in sorted(key_names.keys() & heard.keys()):
        column = key_names[other].lower()
        found[column] = (*found.get(column, ()), *heard[other])
    return found


def _alike(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    groups = defaultdict(list)
    for name in sorted(names):
        groups[name.lower()].append(name)
    return {folded: tuple(group) for folded, group in groups.items()}


def _one_of(names: tuple[str, ...], known: set[str]) -> str:
    told = known.intersection(names)
    return told.pop() if len(told) == 1 else max(names)


def _refuse_two_columns(found: Found, described: Described, stored: set[str]) -> None:
    """A description with both tells two columns, and so do images that all have both.

    Else an image with both is one bad record.
    """
    images = [set(image) for image in found.images.values()]
    for folded, names in _alike(found.columns.union(*described.values())).items():
        holding = [image for image in images if image.intersection(names)]
        every = (
            folded not in stored and bool(holding) and all(_holds_two(i, names) for i in holding)
        )
        if every or any(_holds_two(columns, names) for columns in described.values()):
            pair = " and ".join(map(repr, names[:2]))
            raise PlanError(f"table {found.source.name}: columns {pair} differ by case")


def _holds_two(image: Iterable[str], names: tuple[str, ...]) -> bool:
    return len(set(names).intersection(image)) > 1
