"""Error text for a value that does not fit its column: the column, the value, the wanted type."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from sluice.types.columns import ENCODINGS
from spark_jobs.expressions import cut
from spark_jobs.planning.planned_column import PlannedColumn

_SHOWN: Final = 100


def misfit(column: PlannedColumn, texts: Iterable[Column], unfit: Iterable[Column]) -> Column:
    """Return text such as `amount: 'twelve' does not fit decimal(10,2)`.

    It shows the first of the `texts` that is `unfit`, cut where it is long.
    """
    text = F.coalesce(*map(F.when, unfit, texts))
    return F.concat(
        F.lit(f"{column.name}: '"), cut(text, _SHOWN), F.lit(f"' does not fit {_wanted(column)}")
    )


def _wanted(column: PlannedColumn) -> str:
    """Return the column's type as a hint spells it, with length and encoding if all records share
    them."""
    stored, kinds = column.stored, set(column.readings.values())
    name = stored.spark if stored.name == "decimal" else stored.name
    lengths = {kind.width or kind.most for kind in kinds} - {0}
    name = f"{name}({lengths.pop()})" if len(lengths) == len(kinds) == 1 else name
    known = ENCODINGS.get(stored.name, ())
    hows = {k.how for k in kinds if k.name == stored.name and k.encoding in known} - {""}
    return f"{name}[{hows.pop()}]" if hows and len(kinds) == 1 else name
