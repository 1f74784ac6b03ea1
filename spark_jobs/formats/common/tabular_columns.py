"""The columns of a flat row: those that describe the change, `meta`, and the other ones, `row`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.canonical import IMAGE_TYPE

META: Final = "meta"
ROW: Final = "row"
REPEATS: Final = "repeats"


@dataclass(frozen=True)
class Meta:
    """Names of the columns that describe the change: `fixed` ones match exactly, `any_case`
    ones in any case."""

    fixed: tuple[str, ...] = ()
    any_case: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All names."""
        return (*self.fixed, *self.any_case)

    def spelled(self, columns: Collection[str]) -> dict[str, str]:
        """Return each name as a file with these columns spells it.

        If several columns differ from it only by case, none of them is used.
        """
        return {n: _spelled(n, columns) if n in self.any_case else n for n in self.names}


def _spelled(name: str, columns: Collection[str]) -> str:
    alike = [column for column in columns if column.lower() == name.lower()]
    return alike[0] if len(alike) == 1 and name not in columns else name


def parts(values: Mapping[str, Column], carried: set[str], meta: Mapping[str, str]) -> list[Column]:
    """Return `meta` and `row` from the texts of all columns."""
    none = F.lit(None).cast("string")
    about = [values.get(spelled, none).alias(name) for name, spelled in meta.items()]
    data = [name for name in values if name in carried and name not in meta.values()]
    names = F.array(*map(F.lit, data)).cast("array<string>")
    texts = F.array(*(values[name] for name in data)).cast("array<string>")
    return [
        F.struct(*about).alias(META),
        F.map_from_arrays(names, texts).cast(IMAGE_TYPE).alias(ROW),
    ]
