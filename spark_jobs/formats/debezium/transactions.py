"""The transaction of a Debezium record, and whether the record ends it.

Source: Debezium's documentation, "Transaction metadata" (`provide.transaction.metadata`): changes
have their transaction's id in `transaction`, the markers of its begin and end have it in `id`.
PostgreSQL's id is the transaction's number and the record's LSN (seen in 3.6.3), so only the number
identifies a transaction.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.formats.debezium.order import MONGODB

FIELDS: Final = ("transaction", "id")
_POSTGRESQL: Final = r"^(\d+):\d+$"


def columns() -> list[Column]:
    """The envelope's `transaction` and `ends`, from the flat columns with FIELDS.

    MongoDB has changes outside of transactions: their `transaction` is an empty text.
    """
    of_change = F.get_json_object("transaction", "$.id")
    alone = F.when(F.col("source.connector") == MONGODB, F.lit(""))
    marker = F.col("status").isNotNull() & F.col("op").isNull()
    ident = F.when(marker, F.col("id")).otherwise(F.coalesce(of_change, alone))
    number = F.regexp_replace(ident, _POSTGRESQL, "$1")
    ends = F.coalesce(marker & (F.col("status") == "END"), F.lit(False))
    return [number.alias("transaction"), ends.alias("ends")]
