"""The manifest: the files of one batch, written once; its content determines the batch's id."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from pydantic import TypeAdapter

from sluice.errors import ConfigError, TerminalError

MANIFEST_VERSION: Final = 1
# Ids of batches that repeat others depend on it: docs/architecture.md, Older manifests.
_UNUSED: Final = {"window": None}
# What `_name` makes.
BATCH_ID_PATTERN: Final = "^([0-9]{8}T[0-9]{2}-)?[0-9a-f]{12}$"
_HARMLESS: Final = "[0-9A-Za-z-]{1,64}"
# The kinds of files that hold records.
JSON_LINES: Final = "jsonl"
AVRO: Final = "avro"
PARQUET: Final = "parquet"
# Key of the distinct schemas in a stored manifest, by hash; its files refer to them.
_SCHEMAS: Final = "avro_schemas"


@dataclass(frozen=True)
class SourceFile:
    """One object of the batch.

    `url`: what Spark reads (`file:///…`, `s3a://…`), the object itself or the staged file that
    landing staged of an object that Spark cannot read (one document, an array, CSV, zstd, a cut
    gzip). `container`: JSON_LINES, AVRO or PARQUET; `avro_schema` has the columns of the latter
    two. `arrival`: the place in the order of arrival (`sluice.positions`). `replaces`: published
    batches that loaded an earlier object under this key; this object's events come after theirs.
    """

    key: str
    url: str
    size: int
    etag: str = ""
    version_id: str = ""
    sha256: str = ""
    hour: str = ""
    container: str = JSON_LINES
    staged: bool = False
    arrival: str = ""
    avro_schema: str = ""
    replaces: tuple[str, ...] = ()


WHOLE: Final = 0
"""In the place of a record's number: the file as a whole."""


@dataclass(frozen=True)
class LandingReject:
    """A record that landing rejected: the cut end of a damaged file, or a whole file.

    `record`: its number among the file's records, from 1 (in a damaged Avro file: its number among
    the bad blocks), or WHOLE. `records`: the number of bad records of a file that is rejected for
    having too many, else 1. The reject still counts as one record read; only the limits on bad
    records use this number.
    """

    key: str
    record: int
    reason: str
    raw_base64: str
    records: int = 1


@dataclass(frozen=True)
class Reprocess:
    """The published batches whose quarantined records a batch decodes again, and why.

    `records`: their number. `generation`: one more than that of the latest reprocess among those
    batches, which is 0 for landed batches. `accept_late`: events below a table's floor apply at
    their positions. `accept_open`: events of transactions without an end apply too. Without batches
    it is a request, for whichever batches match.
    """

    batches: tuple[str, ...] = ()
    records: int = 0
    generation: int = 1
    reason: str = ""
    accept_late: bool = False
    accept_open: bool = False


@dataclass(frozen=True)
class Rebuild:
    """Targets that are rebuilt from their changelogs, without the batches in `without`.

    Those batches are being undone, and only keys that they changed are rebuilt; if there are none,
    all keys are. `bases`: `main` of each target and its history before the first of them was
    published. `at`: the time of the request, which distinguishes equal requests. `user`: who made
    the request, if known. `release`: those of `without` whose files are released at the end.
    """

    targets: tuple[str, ...]
    at: str
    without: tuple[str, ...] = ()
    bases: Mapping[str, int | None] = field(default_factory=dict)
    user: str = ""
    release: tuple[str, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """The content of one batch: files or, with `rebuild`, data that are loaded already.

    `batch_id` follows from the other fields (see `name_batch` and `name_by_content`). `tables`: the
    source tables to load, empty for all. `epoch`: the epoch at which the files were loaded before;
    None: the pipeline's. `share_of`: the batch that was published without these tables.
    """

    pipeline: str
    batch_id: str
    files: tuple[SourceFile, ...]
    rejects: tuple[LandingReject, ...] = ()
    version: int = MANIFEST_VERSION
    reprocess: Reprocess | None = None
    tables: tuple[str, ...] = ()
    epoch: int | None = None
    rebuild: Rebuild | None = None
    share_of: str = ""

    @property
    def repeats(self) -> bool:
        """Whether other batches may have loaded the same records, or will."""
        return self.reprocess is not None or (bool(self.tables) and not self.share_of)

    @property
    def undone(self) -> tuple[str, ...]:
        """The batches that this one undoes."""
        return () if self.rebuild is None else self.rebuild.without

    @property
    def claims(self) -> bool:
        """Whether the batch claims its files, so that no other batch gets them."""
        return not (self.repeats or self.share_of)

    @property
    def reports_rejects(self) -> bool:
        """Whether this batch, and no other one, reports the records of its files that
        landing rejected."""
        return self.claims or self.reprocess is not None

    @property
    def changed(self) -> tuple[SourceFile, ...]:
        """The files that were loaded before with other content."""
        return tuple(file for file in self.files if file.replaces)

    @property
    def accepts_late(self) -> bool:
        """Whether an operator accepted events beyond their table's floor."""
        return self.reprocess is not None and self.reprocess.accept_late

    @property
    def accepts_open(self) -> bool:
        """Whether an operator accepted transactions whose end has not landed."""
        return self.reprocess is not None and self.reprocess.accept_open

    def to_json(self) -> str:
        """Return the manifest as stored: stable key order, each distinct schema once."""
        raw, schemas = _stated_fields(self), dict[str, str]()
        for file in raw["files"]:
            if schema := file["avro_schema"]:
                file["avro_schema"] = named = hashlib.sha256(schema.encode()).hexdigest()
                schemas[named] = schema
        return "".join(_as_json(raw | ({_SCHEMAS: schemas} if schemas else {})))

    @staticmethod
    def from_json(text: str) -> Manifest:
        """Read what `to_json` wrote, without keys that this release does not know; raises
        TerminalError for another version."""
        raw: dict[str, Any] = json.loads(text)
        if raw["version"] != MANIFEST_VERSION:
            raise TerminalError(
                f"manifest of version {raw['version']}, not {MANIFEST_VERSION}: another release of "
                "Sluice wrote it; let that one end the batch"
            )
        # Older manifests lack it: each file has its own schema.
        schemas: dict[str, str] = raw.get(_SCHEMAS, {})
        for file in raw["files"]:  # those with one schema share its text
            schema = file.get("avro_schema", "")
            file["avro_schema"] = schemas.setdefault(schema, schema)
        again = raw.get("reprocess") or {}
        if (epoch := again.get("epoch")) is not None:  # older manifests have it here
            raw["epoch"] = epoch
        return _READ.validate_python(raw)


_READ: Final = TypeAdapter(Manifest)


def _stated_fields(manifest: Manifest) -> dict[str, Any]:
    """Return the manifest's fields, without `replaces` of files that replace nothing: older
    manifests lack it, and batches keep their ids."""
    raw = {**asdict(manifest), **_UNUSED}
    files = raw["files"]
    raw["files"] = [{k: v for k, v in file.items() if k != "replaces" or v} for file in files]
    return raw


def _as_json(raw: dict[str, Any]) -> Iterator[str]:
    return json.JSONEncoder(sort_keys=True, indent=1).iterencode(raw)


def as_batch_id(text: str) -> str:
    """Return a batch id that a person gave, or ''; raises ConfigError if it cannot be one."""
    if text and not re.fullmatch(_HARMLESS, text):
        raise ConfigError(f"expected a batch as `sluice status` lists it, got {text[:80]!r}")
    return text


def name_batch(pipeline: str, files: tuple[SourceFile, ...]) -> str:
    """Name a batch by the newest hour of its files and a digest of the list."""
    identity = [(f.key, f.size, f.etag, f.version_id) for f in sorted(files, key=lambda f: f.key)]
    return _name(files, [json.dumps([pipeline, identity])])


def name_by_content(manifest: Manifest, *more: str) -> str:
    """Return the id of a batch that repeats others, from its whole content except a reprocess's
    reason, and from `more`.

    It differs from the id of the batch that it repeats, and changes if landing reads the files in
    another way.
    """
    again = None if manifest.reprocess is None else replace(manifest.reprocess, reason="")
    # Each file includes its schema, as in older manifests; too large for one piece.
    content = _as_json(_stated_fields(replace(manifest, batch_id="", reprocess=again)))
    return _name(manifest.files, content if not more else _listed(content, more))


def _listed(pieces: Iterable[str], more: tuple[str, ...]) -> Iterator[str]:
    """Yield, as JSON, the list of a text, which is given in pieces, and of the texts `more`."""
    yield '["'
    yield from (json.dumps(piece)[1:-1] for piece in pieces)
    yield f'", {json.dumps(more)[1:]}'


def _name(files: tuple[SourceFile, ...], content: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for piece in content:
        digest.update(piece.encode())
    newest = max((f.hour for f in files), default="")
    named = digest.hexdigest()[:12]
    return f"{newest}-{named}" if newest else named
