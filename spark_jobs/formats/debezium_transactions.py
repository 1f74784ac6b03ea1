"""Which transaction a Debezium record is part of, and whether it ends one.

Source: Debezium's documentation, "Transaction metadata" (`provide.transaction.metadata`): changes
have their transaction's id in `transaction`, the records of its begin and end have it in `id`.
PostgreSQL's is the transaction's number and the LSN of the record, as recorded of 3.6.3: of one
transaction the numbers alone are alike.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_jobs.formats.debezium_order import MONGODB

FIELDS: Final = ("transaction", "id")
_POSTGRESQL: Final = r"^(\d+):\d+$"


def told() -> list[Column]:
    """`transaction` and `ends` of the envelope, from the flat columns with FIELDS.

    MongoDB has changes of no transaction: of these it is an empty text.
    """
    of_change = F.get_json_object("transaction", "$.id")
    alone = F.when(F.col("source.connector") == MONGODB, F.lit(""))
    marker = F.col("status").isNotNull() & F.col("op").isNull()
    found = F.when(marker, F.col("id")).otherwise(F.coalesce(of_change, alone))
    number = F.regexp_replace(found, _POSTGRESQL, "$1")
    ends = F.coalesce(marker & (F.col("status") == "END"), F.lit(False))
    return [number.alias("transaction"), ends.alias("ends")]
