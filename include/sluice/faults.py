"""Points at which a test may end a process, as if its machine had died there.

`SLUICE_FAULT=publish.table:2` kills the process the second time it reaches that point;
`SLUICE_FAULT=publish.table:2:stop` suspends it there until SIGCONT. Without the variable `reach`
does nothing.
"""

from __future__ import annotations

import os
import signal
import threading
from enum import StrEnum

from sluice.environment import ENV_FAULT


class Point(StrEnum):
    """The points, named after the step that is just completed; `table` and `ledger` are of any
    stage.
    """

    LAKE_LEDGER = "lake.ledger"
    LAKE_MARKED = "lake.marked"
    LAND_STAGED = "land.staged"
    LAND_MANIFEST = "land.manifest"
    LAND_CLAIMED = "land.claimed"
    LAND_RECORDED = "land.recorded"
    LOAD_BEGUN = "load.begun"
    LOAD_READ = "load.read"
    LOAD_STATEMENTS = "load.statements"
    LOAD_NAMESPACES = "load.namespaces"
    LOAD_CREATED = "load.created"
    LOAD_IDENTIFIED = "load.identified"
    LOAD_ADDED = "load.added"
    LOAD_PROMOTED = "load.promoted"
    LOAD_ASIDE = "load.aside"
    LOAD_WIDER = "load.wider"
    LOAD_REPLACED = "load.replaced"
    LOAD_EVOLVED = "load.evolved"
    LOAD_PLANNED = "load.planned"
    LOAD_CHANGES = "load.changes"
    LOAD_DECODED = "load.decoded"
    LOAD_QUARANTINED = "load.quarantined"
    LOAD_LEASED = "load.leased"
    LOAD_BRANCHED = "load.branched"
    LOAD_WRITTEN = "load.written"
    LOAD_MERGED = "load.merged"
    LOAD_RESULT = "load.result"
    LOAD_RECORDED = "load.recorded"
    LOAD_RESTORED = "load.restored"
    LOAD_FAILED = "load.failed"
    PUBLISH_HELD = "publish.held"
    PUBLISH_INTENT = "publish.intent"
    PUBLISH_MARKED = "publish.marked"
    PUBLISH_TABLE = "publish.table"
    PUBLISH_RECORDED = "publish.recorded"
    PUBLISH_UNDOING = "publish.undoing"
    PUBLISH_UNTAGGED = "publish.untagged"
    PUBLISH_FILES = "publish.files"
    PUBLISH_SHARE = "publish.share"
    PUBLISH_CLEANED = "publish.cleaned"
    PUBLISH_DONE = "publish.done"
    ROLLBACK_MARKED = "rollback.marked"
    ROLLBACK_TABLE = "rollback.table"
    ROLLBACK_CHANGES = "rollback.changes"
    ROLLBACK_RECORDED = "rollback.recorded"
    ROLLBACK_HELD = "rollback.held"
    ROLLBACK_FILES = "rollback.files"
    ROLLBACK_DONE = "rollback.done"
    RECONCILE_TAKEN = "reconcile.taken"
    RECONCILE_TABLE = "reconcile.table"
    MAINTAIN_FLOOR = "maintain.floor"
    MAINTAIN_FORGOTTEN = "maintain.forgotten"
    MAINTAIN_STEP = "maintain.step"
    TABLE_BRANCH = "table.branch"
    TABLE_PROPERTY = "table.property"
    TABLE_CHANGES = "table.changes"
    TABLE_COMMENTS = "table.comments"
    LEDGER_REWRITTEN = "ledger.rewritten"


_passed: dict[str, int] = {}
_lock = threading.Lock()


def reach(point: Point) -> None:
    """Kill or suspend this process if the environment says so."""
    name, _, rest = os.environ.get(ENV_FAULT, "").partition(":")
    if name != point:
        return
    time, _, how = rest.partition(":")
    with _lock:
        _passed[name] = _passed.get(name, 0) + 1
        if _passed[name] == int(time or 1):
            os.kill(os.getpid(), signal.SIGSTOP if how == "stop" else signal.SIGKILL)
