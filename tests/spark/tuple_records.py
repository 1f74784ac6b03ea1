"""DataHub Tuple records for tests."""

from __future__ import annotations

from typing import Any

FLAGS = {"I": "NY", "D": "YN", "old": "YN", "new": "NY"}


def record(op: str, sequence: Any = "5", /, **row: Any) -> dict[str, Any]:
    """A record on table `t`; an update is its `old` or its `new` half."""
    before, after = FLAGS.get(op, "NY")
    return {
        "_sequence_id_": sequence,
        "_operation_type_": "U" if op in ("old", "new") else op,
        "_execute_time_": 1649991726000,
        "_source_table_": "t",
        "_before_image_": before,
        "_after_image_": after,
        "id": 1,
    } | row


def without(name: str, op: str = "I") -> dict[str, Any]:
    """A record that lacks one of the columns about the change."""
    return {k: v for k, v in record(op).items() if k != name}
