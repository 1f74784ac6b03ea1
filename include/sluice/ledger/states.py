"""The states of files, batches and publications, and which may follow which."""

from __future__ import annotations

from typing import Final

FILE_CLAIMED: Final = "claimed"
FILE_LOADED: Final = "loaded"
FILE_HELD: Final = "held"
FILE_RELEASED: Final = "released"
# An object with the bytes of another one; it belongs to no batch. Read only by `Files.copies`.
FILE_COPY: Final = "copy"
# For each state the states that a file may have before it.
FOLLOWS: Final = {
    FILE_LOADED: frozenset({FILE_CLAIMED}),
    FILE_HELD: frozenset({FILE_CLAIMED, FILE_LOADED, FILE_RELEASED}),
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
# Maintenance holds its lease in a row among the batches.
MAINTENANCE: Final = "maintenance"
MAINTAINING: Final = "maintaining"

# Nothing is left to do for such a batch.
FINISHED: Final = frozenset({PUBLISHED, ROLLED_BACK})
# Such a batch is not loaded or published any more.
CLOSED: Final = FINISHED | {ROLLING_BACK}
# A batch that enters one of these gives its lease back.
AT_REST: Final = CLOSED | {FAILED}
# Some tables may have such a batch and others not: no other batch is loaded meanwhile.
HALFWAY: Final = frozenset({PUBLISHING, ROLLING_BACK})

INTENT: Final = "intent"
