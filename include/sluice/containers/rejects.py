"""Collect the records that landing rejects, in bounded memory: by file, and by batch."""

from __future__ import annotations

import base64
from collections import Counter
from dataclasses import replace
from typing import Final

from sluice.containers.json_documents import Rejected
from sluice.manifest import WHOLE, LandingReject

TOO_MANY: Final = "too_many_rejects"
RAW_BYTES: Final = 64 << 10
RAW_BYTES_OF_A_FILE: Final = 16 << 20
RAW_BYTES_OF_A_BATCH: Final = 64 << 20
SHORT_RAW_BYTES: Final = 1 << 10


class Rejects:
    """The rejects of the file `key`, which begins with `head`: at most `most`.

    With more of them the whole file is one reject that lists reasons and counts. Each reject keeps
    its first `RAW_BYTES`, or `SHORT_RAW_BYTES` once the file has `RAW_BYTES_OF_A_FILE`.
    """

    def __init__(self, key: str, most: int, head: bytes) -> None:
        self._key = key
        self._most = most
        self._head = head
        self._kept: list[LandingReject] = []
        self._raw_bytes = 0
        self._reasons: Counter[str] = Counter()
        self._whole_reason = ""

    def add(self, record: int, part: Rejected) -> None:
        """Add the rejected part with this number in the file, from 1."""
        self._reasons[part.reason] += 1
        if self._too_many:
            self._kept.clear()
            return
        spent = self._raw_bytes >= RAW_BYTES_OF_A_FILE
        raw = part.raw[: SHORT_RAW_BYTES if spent else RAW_BYTES]
        self._raw_bytes += len(raw)
        self._kept.append(_reject(self._key, record, part.reason, raw))

    def reject_whole(self, reason: str, head: bytes = b"") -> None:
        """Reject the whole file; `head`: its beginning if that differs from the stored one."""
        self._whole_reason = reason
        self._head = head or self._head

    @property
    def whole(self) -> bool:
        """Whether nothing of the file may be handed on."""
        return bool(self._whole_reason) or self._too_many

    def all(self) -> tuple[LandingReject, ...]:
        """Return the rejects for the manifest."""
        if not self.whole:
            return tuple(self._kept)
        if self._whole_reason:
            return (_reject(self._key, WHOLE, self._whole_reason, self._head),)
        records = self._reasons.total()
        return (_reject(self._key, WHOLE, _too_many(self._reasons), self._head, records),)

    @property
    def _too_many(self) -> bool:
        return self._reasons.total() > self._most


class BatchRejects:
    """The rejects of a batch's files, one file after another: about `most`.

    `most` is above the pipeline's `max_bad_records`, so a batch with more fails. From there on each
    file has one reject that lists reasons and counts. Each reject keeps `SHORT_RAW_BYTES` once the
    batch has `RAW_BYTES_OF_A_BATCH`.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._records = 0
        self._raw_bytes = 0

    def take(self, rejects: tuple[LandingReject, ...]) -> tuple[LandingReject, ...]:
        """Return those of one file's rejects that the manifest takes."""
        self._records += sum(reject.records for reject in rejects)
        if self._records > self._most and len(rejects) > 1:
            rejects = (_as_one(rejects),)
        if self._raw_bytes >= RAW_BYTES_OF_A_BATCH:
            rejects = tuple(map(_short, rejects))
        self._raw_bytes += sum(len(reject.raw_base64) * 3 // 4 for reject in rejects)
        return rejects


def _as_one(rejects: tuple[LandingReject, ...]) -> LandingReject:
    reasons: Counter[str] = Counter()
    for reject in rejects:
        reasons[reject.reason] += reject.records
    total = reasons.total()
    return replace(rejects[0], record=WHOLE, reason=_too_many(reasons), records=total)


def _short(reject: LandingReject) -> LandingReject:
    raw = base64.b64decode(reject.raw_base64)[:SHORT_RAW_BYTES]
    return replace(reject, raw_base64=base64.b64encode(raw).decode())


def _too_many(reasons: Counter[str]) -> str:
    counts = ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
    return f"{TOO_MANY}: {counts}"


def _reject(key: str, record: int, reason: str, raw: bytes, records: int = 1) -> LandingReject:
    kept = base64.b64encode(raw[:RAW_BYTES]).decode()
    return LandingReject(key, record, reason, kept, records)
