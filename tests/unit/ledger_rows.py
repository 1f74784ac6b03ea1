"""Files, their claims and publications for tests of the ledger."""

from __future__ import annotations

from collections.abc import Callable

from sluice.ledger.claims import ClaimRequest
from sluice.ledger.ledger import PipelineLedger
from sluice.ledger.rows import Publication
from sluice.manifest import SourceFile, name_batch


def some_files(*keys: str, etag: str = "e1", sha256: str = "") -> tuple[SourceFile, ...]:
    return tuple(
        SourceFile(key=key, url=f"file:///{key}", size=1, etag=etag, sha256=sha256, hour="h")
        for key in keys
    )


def named(pipeline: str) -> Callable[[tuple[SourceFile, ...]], str]:
    return lambda files: name_batch(pipeline, files)


def claim(ledger: PipelineLedger, *keys: str, **options: object) -> tuple[str, list[str]]:
    batch, won = ledger.files.claim(ClaimRequest(some_files(*keys), named("p"), **options))  # type: ignore[arg-type]
    return batch, [file.key for file in won]


def publication(table: str, **changes: object) -> Publication:
    base = {
        "pipeline": "p", "batch_id": "b", "attempt": "a", "namespace": "n", "table_name": table,
        "base_snapshot": 1, "base_schema": 0, "head_snapshot": 2, "branch": "x",
    }  # fmt: skip
    return Publication(**{**base, **changes})  # type: ignore[arg-type]
