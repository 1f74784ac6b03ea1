"""Checks that the landed objects which Spark reads in place are unchanged since landing."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from sluice.config.pipeline import Pipeline
from sluice.errors import TerminalError
from sluice.manifest import Manifest, SourceFile
from sluice.objects.store import ObjectStore, is_same_object, open_store

LOOKED_AT_ONCE: Final = 16
OTHER_BYTES: Final = "has other bytes than those that landed"
_CHUNK_BYTES: Final = 1 << 20


def refuse_replaced(pipeline: Pipeline, manifest: Manifest) -> None:
    """Raise TerminalError if an object of the batch is gone, or has other bytes than when it
    landed.

    Of files that landing staged only the staged ones are read: their objects may be gone.
    """
    if wrong := differing(pipeline, [file for file in manifest.files if not file.staged]):
        raise replaced(pipeline, manifest, wrong)


def differing(pipeline: Pipeline, files: Sequence[SourceFile]) -> list[str]:
    """Return which objects are gone, or have other bytes than when they landed, and how they
    differ.

    It takes one request per object; an object that was written again is read, to compare its
    checksum.
    """
    store = open_store(pipeline.landing.url, pipeline.landing.region, versions=True)
    with ThreadPoolExecutor(LOOKED_AT_ONCE) as pool:
        verdicts = pool.map(lambda file: _verdict(store, file), files)
        return [f"{f.key} {why}" for f, why in zip(files, verdicts, strict=True) if why]


def replaced(pipeline: Pipeline, manifest: Manifest, wrong: list[str]) -> TerminalError:
    """Return the error for objects that are no longer as they landed; `wrong`: which ones, and
    how they differ."""
    name, batch = pipeline.name, manifest.batch_id
    return TerminalError(
        f"batch {batch} of {name}: {'; '.join(wrong[:5])} in {pipeline.landing.url}; nothing "
        "is published. Put the bytes that landed back and load the batch again; or give it up "
        f"(sluice rollback {name} --batch {batch}, sluice release {name} --batch {batch}): the "
        "next run takes what is there then"
    )


def _verdict(store: ObjectStore, file: SourceFile) -> str:
    """Return how an object differs from the landed one; "" if it does not."""
    try:
        now = store.describe(file.key)
        if is_same_object(now, file):
            return ""
        same = now.size == file.size and _checksum(store, file.key) == file.sha256
    except FileNotFoundError:
        return "is gone"
    return "" if same else OTHER_BYTES


def _checksum(store: ObjectStore, key: str) -> str:
    digest = hashlib.sha256()
    with store.open(key) as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
