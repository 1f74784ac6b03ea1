"""Records of AWS DMS: messages of its Kafka and Kinesis targets, and files of its S3 target."""

from __future__ import annotations

from typing import Any

from tests.spark.sandbox import Sandbox, total


def message(operation: str, data: Any = None, /, **parts: Any) -> dict[str, Any]:
    """A message on table `s.t`; `parts` are metadata, or `top` for its neighbours."""
    top = parts.pop("top", {})
    metadata = {
        "timestamp": "2024-10-27T12:39:03.210671Z", "record-type": "data", "operation": operation,
        "partition-key-type": "schema-table", "schema-name": "s", "table-name": "t",
        "transaction-id": 670014899490,
    }  # fmt: skip
    row = {"id": 1, "n": None} if data is None else data
    return {"data": row, "metadata": metadata | parts} | top


def load(sandbox: Sandbox, key: str, content: str) -> None:
    """Write one object, land it, load and publish it."""
    path = sandbox.landing / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    assert total(sandbox.load_landed()).quarantined == 0
