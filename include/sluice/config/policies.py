"""Policy names shared by several configuration keys."""

from __future__ import annotations

from typing import Final

FAIL: Final = "fail"
IGNORE: Final = "ignore"
# A TRUNCATE.
APPLY: Final = "apply"
# A table that was dropped or renamed.
KEEP: Final = "keep"
EMPTY: Final = "empty"
# Columns that changed.
EVOLVE: Final = "evolve"
DROP: Final = "drop"
# Types that do not fit together.
STRING: Final = "string"
NEW_COLUMN: Final = "new_column"
QUARANTINE: Final = "quarantine"
