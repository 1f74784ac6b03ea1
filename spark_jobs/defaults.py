"""What rows hold in a column that came after them: the default that it was added with.

`ALTER TABLE … ADD COLUMN … DEFAULT` sends no event for the rows that are there, but the events'
own description of the column says what they hold since. So the lowest position whose event has
the column is remembered as `since`: below it no event has the column, and every row has the
default that was told there. It follows from the set of events, in whatever order they came.
Full loads are left out: they rank below every change, whenever they were made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from sluice import names
from sluice.coltypes import ColumnType
from sluice.positions import epoch_prefix
from spark_jobs.canonical import quoted
from spark_jobs.discover import Found
from spark_jobs.formats.base import SourceColumn
from spark_jobs.values import decode

SINCE, VALUE, BEFORE = "since", "value", "before"


@dataclass(frozen=True)
class Default:
    """`text` as the images would carry it, of type `kind`; None: the column came without one."""

    since: str
    text: str | None
    kind: ColumnType

    def value(self, stored: str) -> Column:
        """The default as a value of the stored column's type."""
        return decode(F.lit(self.text).cast("string"), self.kind).cast(stored)


Defaults = Mapping[str, Default]


def told(
    found: Found, described: Mapping[int, Mapping[str, SourceColumn]], epoch: int
) -> dict[str, Default]:
    """What a batch's events say of each column, by the lowest position that has it."""
    defaults: dict[str, Default] = {}
    for ident, lowest in sorted(found.lowest.items(), key=lambda item: item[1]):
        for name, column in described.get(ident, {}).items():
            since = f"{epoch_prefix(epoch)}.{lowest}"
            defaults.setdefault(name, Default(since, column.default, column.type))
    return defaults


def lowest(one: Defaults, two: Defaults) -> dict[str, Default]:
    """Both of them; of a column that both know, what was told at the lower position."""
    both = dict(one)
    for name, default in two.items():
        if name not in both or default.since < both[name].since:
            both[name] = default
    return both


def write(defaults: Defaults) -> str:
    """As a table property."""
    return json.dumps({n: asdict(d) for n, d in sorted(defaults.items())}, ensure_ascii=False)


def read(text: str | None) -> dict[str, Default]:
    """What `write` wrote."""
    raw = json.loads(text or "{}")
    return {n: Default(d["since"], d["text"], ColumnType(**d["kind"])) for n, d in raw.items()}


def filled(rows: DataFrame, defaults: Defaults) -> DataFrame:
    """Rows or changes with the defaults of the columns that came after them."""
    types = {f.name: f.dataType.simpleString() for f in rows.schema}
    values = {
        name: F.when(_lacks(name, default.since), default.value(types[name])).otherwise(
            F.col(quoted(name))
        )
        for name, default in defaults.items()
        if name in types and default.text is not None
    }
    return rows.withColumns(values) if values else rows


def _lacks(name: str, since: str) -> Column:
    return F.col(quoted(name)).isNull() & (F.col(names.POSITION) < since)


def news(before: Defaults, now: Defaults, columns: list[str]) -> dict[str, Default]:
    """Those that stored rows, which had these columns, do not hold yet."""
    return {
        name: default
        for name, default in now.items()
        if default.text is not None
        and (name not in columns or name not in before or before[name].text != default.text)
    }
