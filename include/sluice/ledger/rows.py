"""What the ledger's rows are: files, batches and publications, and the states they go through."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from sluice.ledger.details import HALF_PUBLISHED
from sluice.names import full_name

FILE_CLAIMED: Final = "claimed"
FILE_LOADED: Final = "loaded"
FILE_HELD: Final = "held"
FILE_RELEASED: Final = "released"
# The bytes of another object: no batch has it. Read by `Ledger.copies` alone.
FILE_COPY: Final = "copy"
# The states that a file may have before it gets the one named.
FOLLOWS: Final = {
    FILE_LOADED: frozenset({FILE_CLAIMED}),
    FILE_HELD: frozenset({FILE_CLAIMED, FILE_LOADED}),
    FILE_RELEASED: frozenset({FILE_HELD}),
}

LANDED: Final = "landed"
LOADING: Final = "loading"
LOADED: Final = "loaded"
PUBLISHING: Final = "publishing"
PUBLISHED: Final = "published"
FAILED: Final = "failed"
ROLLING_BACK: Final = "rolling_back"
ROLLED_BACK: Final = "rolled_back"
# The lease of maintenance, in a row of its own among the batches.
MAINTENANCE: Final = "maintenance"
MAINTAINING: Final = "maintaining"

# Nothing is left to do for a batch in one of these.
FINISHED: Final = frozenset({PUBLISHED, ROLLED_BACK})
# Nobody loads or publishes a batch in one of these.
CLOSED: Final = FINISHED | {ROLLING_BACK}
# These give the lease back.
AT_REST: Final = CLOSED | {FAILED}
# Some tables may hold the batch and others not: nobody loads beside one of these.
HALFWAY: Final = frozenset({PUBLISHING, ROLLING_BACK})

INTENT: Final = "intent"


@dataclass(frozen=True)
class FileRow:
    """One object as the ledger knows it now."""

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
class BatchRow:
    """One batch as the ledger knows it now; `holder` and `lease_until` are its lease."""

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
        """What was recorded beside the state; `ledger.details` has the keys."""
        found: dict[str, Any] = json.loads(self.detail) if self.detail else {}
        return found

    @property
    def halfway(self) -> bool:
        """Whether some tables may hold the batch and others not: nobody loads beside it."""
        if self.state in FINISHED:
            return False
        return self.state in HALFWAY or HALF_PUBLISHED in self.details

    def telling(self, detail: Mapping[str, Any]) -> BatchRow:
        """The same row with other details."""
        return replace(self, detail=json.dumps(detail, sort_keys=True) if detail else "")

    def without_lease(self) -> BatchRow:
        """The same row, held by nobody."""
        return replace(self, holder="", lease_until=None)


def seq_of(row: BatchRow | None) -> int:
    """The row's `seq`, by which a later look tells whether it changed since; 0 where there is no
    row."""
    return 0 if row is None else row.seq


def landed_anew(row: BatchRow | None) -> bool:
    """Whether a batch with claimed files waits to be recorded as landed: never, or not again."""
    return row is None or row.state == ROLLED_BACK


@dataclass(frozen=True)
class Publication:
    """One table of a batch: what `main` was, and what it becomes. A null base: no snapshot."""

    pipeline: str
    batch_id: str
    attempt: str
    namespace: str
    table_name: str
    base_snapshot: int | None
    base_schema: int | None
    head_snapshot: int
    branch: str
    created: bool = False
    state: str = INTENT
    seq: int = 0
    at: datetime | None = None

    @property
    def full_name(self) -> str:
        """Namespace and name, for people."""
        return full_name(self.namespace, self.table_name)
