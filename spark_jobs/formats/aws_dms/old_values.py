"""Old values beside the new ones, under names with a prefix or a suffix: what the mapping rule
`add-before-image-columns` of AWS DMS makes."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.canonical import OP_UPDATE


def is_old(name: str, affixes: tuple[str, str], names: set[str]) -> bool:
    """Whether a column of a file has the old values of another one of its columns, `names`."""
    prefix, suffix = affixes
    surrounded = name.startswith(prefix) and name.endswith(suffix)
    return any(affixes) and surrounded and name[len(prefix) : len(name) - len(suffix)] in names


@dataclass(frozen=True)
class OldBesideNew:
    """A row, a map of text, that may have old values under names with such affixes."""

    row: Column
    prefix: str
    suffix: str

    def may_have_old(self) -> Column:
        """Whether a name may have the affixes. Few rows have such names, and a look at each name
        costs far more than this one."""
        return F.array_join(F.map_keys(self.row), " ").contains(self.prefix or self.suffix)

    def old(self) -> Column:
        """Return the old values by the names of their columns."""
        values = F.map_filter(self.row, lambda name, _: self._is_old(name))
        return F.transform_keys(values, lambda name, _: self._bare(name))

    def new(self) -> Column:
        """Return the row without the old values."""
        return F.map_filter(self.row, lambda name, _: ~self._is_old(name))

    def _is_old(self, name: Column) -> Column:
        # A message leaves out a column that an update set to NULL, but has its old value.
        has_old = (F.col("_kind") == OP_UPDATE) & F.exists(F.map_keys(self.row), self._is_another)
        return self._is_another(name) | (self._has_affixes(name) & has_old)

    def _is_another(self, name: Column) -> Column:
        """Whether a name is that of another column with the affixes."""
        return self._has_affixes(name) & F.map_contains_key(self.row, self._bare(name))

    def _has_affixes(self, name: Column) -> Column:
        return name.startswith(self.prefix) & name.endswith(self.suffix)

    def _bare(self, name: Column) -> Column:
        length = F.length(name) - len(self.prefix + self.suffix)
        return F.substr(name, F.lit(len(self.prefix) + 1), length)
