"""The manifest: the files that one batch took, fixed once; its content names the batch."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from sluice.errors import ConfigError

MANIFEST_VERSION: Final = 1
# Earlier releases ask for it, and the ids of batches that repeat others are of it too.
_UNUSED: Final = {"window": None}
BATCH_ID_PATTERN: Final = "^[0-9A-Za-z-]{1,64}$"
# What holds a file's records.
JSON_LINES: Final = "jsonl"
AVRO: Final = "avro"
PARQUET: Final = "parquet"
# The distinct schemas of a stored manifest by their hashes, which its files name.
_SCHEMAS: Final = "avro_schemas"


@dataclass(frozen=True)
class SourceFile:
    """One object of the batch.

    `url` is what Spark reads (`file:///…`, `s3a://…`): the object itself, or the JSON-lines copy
    that landing staged where Spark cannot read the object (one pretty-printed document, an array,
    CSV, zstd, a cut gzip). `container` is JSON_LINES, AVRO or PARQUET, the columns of the latter
    two in `avro_schema`; `arrival` its place in the order of arrival (`sluice.positions`).
    `replaces`: the published batches that loaded other objects under this key, of which its events
    come after.
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


@dataclass(frozen=True)
class LandingReject:
    """A record that landing could not hand on: the cut end of a damaged file, or all of a file.

    `records`: how many bad ones a file had that is refused for their number, else 1. It is one
    reject all the same, and counts as one record read; only the ceilings of bad records see them.
    """

    key: str
    record: int
    reason: str
    raw_base64: str
    records: int = 1


@dataclass(frozen=True)
class Reprocess:
    """The published batches whose quarantined records a batch decodes again, and why.

    `records`: how many of them there are. `generation`: one more than that of the latest reprocess
    among those batches, 0 for a batch that landed. `accept_late`: what is beyond a table's floor
    applies at its own place. `accept_open`: so does what is of transactions whose end is not there.
    Without batches it is what somebody asks for, whichever they will be.
    """

    batches: tuple[str, ...] = ()
    records: int = 0
    generation: int = 1
    reason: str = ""
    accept_late: bool = False
    accept_open: bool = False


@dataclass(frozen=True)
class Rebuild:
    """Targets that are made again from their changelogs, where the batches `without` do not count.

    Those are undone so: only the keys that they changed are looked at. Where there are none, all
    keys are. `bases`: `main` of each target and its history before the first of them was
    published. `at`: when it was asked for, which tells two alike apart.
    """

    targets: tuple[str, ...]
    at: str
    without: tuple[str, ...] = ()
    bases: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """What one batch loads: files, or with `rebuild` no file, but what is loaded already.

    `batch_id` follows from the other fields (see `name_batch` and `name_by_content`). `tables`:
    the source tables that it is for, all of them where it is empty. `epoch`: the one at which its
    files were loaded before, where their positions are; None: the pipeline's. `share_of`: the batch
    that was published without these tables.
    """

    pipeline: str
    batch_id: str
    files: tuple[SourceFile, ...]
    rejects: tuple[LandingReject, ...] = ()
    version: int = field(default=MANIFEST_VERSION)
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
        """The batches that it takes out of the tables."""
        return () if self.rebuild is None else self.rebuild.without

    @property
    def claims(self) -> bool:
        """Whether its files are its own, and not another batch's."""
        return not (self.repeats or self.share_of)

    @property
    def tells_rejects(self) -> bool:
        """Whether what landing rejects of its files is its own to tell, and not another batch's."""
        return self.claims or self.reprocess is not None

    @property
    def changed(self) -> tuple[SourceFile, ...]:
        """Its files that were loaded before, with another content."""
        return tuple(file for file in self.files if file.replaces)

    @property
    def accepts_late(self) -> bool:
        """Whether an operator has decided on events beyond the floor of their table."""
        return self.reprocess is not None and self.reprocess.accept_late

    @property
    def accepts_open(self) -> bool:
        """Whether an operator has decided on transactions whose end has not landed."""
        return self.reprocess is not None and self.reprocess.accept_open

    def to_json(self) -> str:
        """The manifest as stored: stable key order, one document, in it each schema once."""
        raw, schemas = _told(self), dict[str, str]()
        for file in raw["files"]:
            if schema := file["avro_schema"]:
                file["avro_schema"] = named = hashlib.sha256(schema.encode()).hexdigest()
                schemas[named] = schema
        return "".join(_as_json(raw | ({_SCHEMAS: schemas} if schemas else {})))

    @staticmethod
    def from_json(text: str) -> Manifest:
        """Read what `to_json` wrote; raises ValueError for another version."""
        raw: dict[str, Any] = json.loads(text)
        if raw["version"] != MANIFEST_VERSION:
            raise ValueError(f"manifest version {raw['version']} is not {MANIFEST_VERSION}")
        # Without them each file tells its own.
        schemas: dict[str, str] = raw.pop(_SCHEMAS, {})
        raw["files"] = tuple(_file(f, schemas) for f in raw["files"])
        raw["rejects"] = tuple(LandingReject(**r) for r in raw["rejects"])
        for name in _UNUSED:
            raw.pop(name, None)
        again = raw.pop("reprocess", None)
        if again is not None:
            if (epoch := again.pop("epoch", None)) is not None:  # where older ones have it
                raw["epoch"] = epoch
            again = Reprocess(**{**again, "batches": tuple(again["batches"])})
        tables = tuple(raw.pop("tables", ()))
        rebuild = raw.pop("rebuild", None)
        if rebuild is not None:
            listed = {name: tuple(rebuild[name]) for name in ("targets", "without")}
            rebuild = Rebuild(**{**rebuild, **listed})
        return Manifest(**raw, reprocess=again, tables=tables, rebuild=rebuild)


def _told(manifest: Manifest) -> dict[str, Any]:
    """Without what most files have nothing of, so that batches keep the ids of earlier releases."""
    raw = {**asdict(manifest), **_UNUSED}
    files = raw["files"]
    raw["files"] = [{k: v for k, v in file.items() if k != "replaces" or v} for file in files]
    return raw


def _as_json(raw: dict[str, Any]) -> Iterator[str]:
    return json.JSONEncoder(sort_keys=True, indent=1).iterencode(raw)


def _file(raw: dict[str, Any], schemas: dict[str, str]) -> SourceFile:
    """Files of one schema share its text; `schemas` has it by name, and gets it otherwise."""
    told = raw.get("avro_schema", "")
    schema = schemas.setdefault(told, told)
    return SourceFile(**{**raw, "avro_schema": schema, "replaces": tuple(raw.get("replaces", ()))})


def as_batch_id(text: str) -> str:
    """A batch's id as a person gave it, or nothing; raises ConfigError for what none can be."""
    if text and not re.fullmatch(BATCH_ID_PATTERN, text):
        raise ConfigError(f"expected a batch as `sluice status` lists it, got {text[:80]!r}")
    return text


def name_batch(pipeline: str, files: tuple[SourceFile, ...]) -> str:
    """Name a batch by what it takes: the newest hour of its files and a digest of the list."""
    identity = [(f.key, f.size, f.etag, f.version_id) for f in sorted(files, key=lambda f: f.key)]
    return _name(files, [json.dumps([pipeline, identity])])


def name_by_content(manifest: Manifest, *more: str) -> str:
    """Name a batch that repeats others by its whole content, except a reprocess's reason; `more`:
    what else makes it another batch.

    So it is never one that it repeats, and where landing reads the files in another way since, it
    is another batch too.
    """
    again = None if manifest.reprocess is None else replace(manifest.reprocess, reason="")
    # With its schema in each file, as earlier releases stored it; so never in one piece.
    content = _as_json(_told(replace(manifest, batch_id="", reprocess=again)))
    return _name(manifest.files, content if not more else _listed(content, more))


def _listed(pieces: Iterable[str], more: tuple[str, ...]) -> Iterator[str]:
    """A list of texts as JSON has it, of which the first comes in pieces."""
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
