"""A guard on table times: a table whose time goes back by more than a minute cannot be read by
Spark or Trino.

Iceberg's Java library refuses such metadata (`TableMetadata`, ONE_MINUTE); pyiceberg writes it.
"""

from __future__ import annotations

import time
from typing import Final

from pyiceberg.table import Table

from sluice.errors import TransientError

_TOLERATED_MS: Final = 50_000
"""Less than Iceberg's minute: a commit takes a while after the check."""


def refuse_clock_behind(table: Table) -> None:
    """Raise TransientError if this host's clock is too far behind the table's last commit."""
    logged = [entry.timestamp_ms for entry in table.metadata.snapshot_log[-1:]]
    behind = max(table.metadata.last_updated_ms, *logged, 0) - time.time_ns() // 1_000_000
    if behind > _TOLERATED_MS:
        raise TransientError(
            f"{'.'.join(table.name())}: its last commit is {behind // 1000} s ahead of this host's "
            "clock, and Spark and Trino could not read the table after a commit by this clock; "
            "synchronise the clocks of all hosts and run again"
        )
