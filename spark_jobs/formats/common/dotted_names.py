"""Names of tables in one text with dots, as Oracle's replications write them."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from sluice.config.format_options import NAME


def name_parts(dotted: Column) -> Column:
    """Split `DATABASE.OWNER.TABLE` at dots outside of quotes; the last part comes first."""
    quoted_parts = F.regexp_extract_all(dotted, F.lit(NAME), F.lit(0))
    plain_parts = F.split(dotted, r"\.")
    return F.reverse(F.when(dotted.contains('"'), quoted_parts).otherwise(plain_parts))


def table_names(parts: Column) -> dict[str, Column]:
    """The envelope's names from `name_parts`, without quotes.

    `parts` should be a column of an earlier step, so that it is computed once.
    """
    return {
        name: F.btrim(F.get(parts, F.lit(from_last)), F.lit('"'))
        for from_last, name in enumerate(("table", "schema", "database"))
    }
