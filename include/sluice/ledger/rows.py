"""The ledger's rows (files, batches and publications)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sluice.ledger.details import HALF_PUBLISHED
from sluice.ledger.states import FINISHED, HALFWAY, INTENT, ROLLED_BACK
from sluice.names import full_name
from sluice.result import StagedTable


@dataclass(frozen=True)
class FileRow:
    """The ledger's current row of one object."""

    pipeline: str
    object_key: str
    size: int
    etag: str
    version_id: str
    sha256: str
    modified: datetime | None
    hour: str
    batch_id: str
    state: str
    seq: int = 0
    at: datetime | None = None


@dataclass(frozen=True)
class FileState:
    """What the ledger's current row says of the batch of an object, without the object itself."""

    object_key: str
    batch_id: str
    state: str
    seq: int
    at: datetime | None


@dataclass(frozen=True)
class BatchRow:
    """The ledger's current row of one batch; `holder` and `lease_until` are its lease."""

    pipeline: str
    batch_id: str
    attempt: str
    state: str
    holder: str = ""
    lease_until: datetime | None = None
    seq: int = 0
    at: datetime | None = None
    manifest: str = ""
    detail: str = ""

    @property
    def details(self) -> dict[str, Any]:
        """The values recorded besides the state; for the keys see `ledger.details`."""
        values: dict[str, Any] = json.loads(self.detail) if self.detail else {}
        return values

    @property
    def halfway(self) -> bool:
        """Whether some tables may have the batch and others not: no other batch is loaded then."""
        if self.state in FINISHED:
            return False
        return self.state in HALFWAY or HALF_PUBLISHED in self.details

    def with_details(self, details: Mapping[str, Any]) -> BatchRow:
        """Return the row with other details."""
        return replace(self, detail=json.dumps(details, sort_keys=True) if details else "")

    def without_lease(self) -> BatchRow:
        """Return the row without a lease."""
        return replace(self, holder="", lease_until=None)


def seq_of(row: BatchRow | None) -> int:
    """Return the row's `seq`, which changes with every write; 0 if there is no row."""
    return 0 if row is None else row.seq


def may_land(row: BatchRow | None) -> bool:
    """Whether a batch with claimed files may be recorded as landed: it is new, or
    was rolled back."""
    return row is None or row.state == ROLLED_BACK


@dataclass(frozen=True)
class Publication:
    """The publication of one table of a batch: `main` before and after; `base_snapshot`
    None: no snapshot."""

    pipeline: str
    batch_id: str
    attempt: str
    namespace: str
    table_name: str
    base_snapshot: int | None
    base_schema: int
    head_snapshot: int
    branch: str
    created: bool = False
    state: str = INTENT
    seq: int = 0
    at: datetime | None = None

    @property
    def full_name(self) -> str:
        """Namespace and name, as people write it."""
        return full_name(self.namespace, self.table_name)

    @property
    def staged(self) -> StagedTable:
        """The table as `publish_table` and `rollback_table` take it.

        Its base is from before the batch, even if an earlier attempt at the batch had published it.
        """
        return StagedTable(
            self.namespace,
            self.table_name,
            self.branch,
            base_snapshot=self.base_snapshot,
            head_snapshot=self.head_snapshot,
            base_schema=self.base_schema,
            created=self.created,
        )
