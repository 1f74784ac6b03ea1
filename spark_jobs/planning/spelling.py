"""One column in several spellings: `K1` in one event, `k1` in another.

Column names in Spark and Iceberg are case-insensitive, and sources mix cases: Canal's rows have the
case of the statement, its descriptions that of the table. So a column gets the spelling of the
stored table, or else one that follows from the set of events alone: the only one in descriptions
and keys, or the greatest, as lower case sorts above upper case. A column whose name is Sluice's or
Iceberg's has another in the table (`sluice.source_names.stored_name`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from sluice.config.ddl_files import DdlTable
from sluice.config.pipeline import TableConfig
from sluice.errors import PlanError
from sluice.source_names import is_column_name, stored_name
from sluice.types.columns import STRING
from spark_jobs.formats.base import SourceColumn
from spark_jobs.planning.key_names import KeyNames
from spark_jobs.planning.table_summary import TableSummary

NO_SCRIPT: Final = DdlTable("", "", {})
Described = Mapping[int, Mapping[str, SourceColumn]]


@dataclass(frozen=True)
class Spelling:
    """The spelling of each column in the tables, by its stored name in lower case.

    `in_events`: the spellings in events; `key_names`: other names of the key's columns.
    """

    chosen: Mapping[str, str]
    in_events: Mapping[str, tuple[str, ...]]
    key_names: KeyNames

    def of(self, name: str) -> str:
        """Return a name in the tables' spelling; an unknown name stays as it is."""
        stored = stored_name(name)
        column = self.key_names.get(stored.lower(), stored)
        return self.chosen.get(column.lower(), column)

    @property
    def respelled(self) -> dict[str, str]:
        """The names in events of which the tables have another spelling → that."""
        names = {name: self.of(name) for alike in self.in_events.values() for name in alike}
        return {name: stored for name, stored in names.items() if stored != name}

    def others(self, name: str) -> tuple[str, ...]:
        """Return the other spellings of a column in events."""
        return tuple(n for n in self.in_events.get(name.lower(), ()) if n != name)

    def of_summary(self, summary: TableSummary) -> TableSummary:
        """Return the summary of events in the tables' spelling."""
        images, keys = (
            {ident: tuple(map(self.of, names)) for ident, names in listed.items()}
            for listed in (summary.images, summary.keys)
        )
        return replace(summary, images=images, keys=keys)

    def of_described(self, described: Described) -> dict[int, dict[str, SourceColumn]]:
        """Return descriptions in the tables' spelling."""
        return {
            ident: {self.of(name): column for name, column in columns.items()}
            for ident, columns in described.items()
        }

    def of_config(self, config: TableConfig, own: Container[str]) -> TableConfig:
        """Return hints, key, its collations and partition fields in the tables' spelling; `own`:
        Sluice's columns of the target, which a partition field may name."""
        key = None if config.key is None else [*map(self.of, config.key)]
        hints = sorted(config.columns.items(), key=lambda hint: self.of(hint[0]) == hint[0])
        columns = {self.of(name): kind for name, kind in hints}
        collations = {self.of(name): rule for name, rule in config.collations.items()}
        nulls = [*map(self.of, config.null_keys)]
        fields = [
            (p if p.column.lower() in own else replace(p, column=self.of(p.column))).sql
            for p in config.partitions
        ]
        respelled = {
            "key": key, "columns": columns, "collations": collations, "null_keys": nulls,
            "partition_by": fields,
        }  # fmt: skip
        return config.model_copy(update=respelled)

    def of_ddl(self, table: DdlTable | None, plain: Container[str]) -> DdlTable:
        """Return a script's table in the tables' spelling; types not in `plain` become text."""
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
    summary: TableSummary, described: Described, existing: Iterable[str], key_names: KeyNames
) -> Spelling:
    """Choose each column's spelling; raises PlanError if the source has two such columns."""
    _refuse_two_columns(summary, described, {name.lower() for name in existing})
    listed = {name for columns in described.values() for name in columns}
    preferred = listed.union(*summary.keys.values())
    in_events = _alike(summary.columns | listed)
    chosen = {f: stored_name(_one_of(names, preferred)) for f, names in in_events.items()}
    stored = {name.lower(): name for name in existing}
    return Spelling({**chosen, **stored}, _with_key_names(in_events, key_names), key_names)


def _with_key_names(
    in_events: Mapping[str, tuple[str, ...]], key_names: KeyNames
) -> dict[str, tuple[str, ...]]:
    spellings = dict(in_events)
    for other in sorted(key_names.keys() & in_events.keys()):
        column = key_names[other].lower()
        spellings[column] = (*spellings.get(column, ()), *in_events[other])
    return spellings


def _alike(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    groups = defaultdict(list)
    for name in sorted(names):
        groups[stored_name(name).lower()].append(name)
    return {folded: tuple(group) for folded, group in groups.items()}


def _one_of(names: tuple[str, ...], preferred: set[str]) -> str:
    described = preferred.intersection(names)
    return described.pop() if len(described) == 1 else max(names)


def _refuse_two_columns(summary: TableSummary, described: Described, stored: set[str]) -> None:
    """Refuse two columns that differ only in case, or of which one has the name that the other gets
    in the table: a description has both, or all images with one have both.

    Any other image with both is a bad record.
    """
    images = [set(image) for image in summary.images.values()]
    for folded, names in _alike(summary.columns.union(*described.values())).items():
        holding = [image for image in images if image.intersection(names)]
        every = (
            folded not in stored and bool(holding) and all(_holds_two(i, names) for i in holding)
        )
        if every or any(_holds_two(columns, names) for columns in described.values()):
            pair = " and ".join(map(repr, names[:2]))
            how = "differ by case" if names[0].lower() == names[1].lower() else "would be one"
            raise PlanError(f"table {summary.source.name}: columns {pair} {how}")


def _holds_two(image: Iterable[str], names: tuple[str, ...]) -> bool:
    return len(set(names).intersection(image)) > 1
