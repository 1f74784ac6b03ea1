"""Types of single configuration values, each with its validation."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

from croniter import CroniterBadDateError, croniter
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from sluice.config.partitions import parse_partition
from sluice.globs import Glob, matches_nothing
from sluice.names import LEDGER_NAMESPACE, NAMESPACES_OF_SQL, OWN_COLUMNS, is_changelog_namespace
from sluice.source_names import is_column_name, is_reserved, stored_name
from sluice.types.columns import parse_type

_NAME: Final = r"^[a-z0-9_-]+$"
_PRESETS: Final = ("@hourly", "@daily", "@weekly", "@monthly", "@yearly")
# Not R, which croniter allows: it stands for another time at each evaluation.
_CRON_WORDS: Final = (
    "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat|l|w"
)
_CRON_FIELD: Final = re.compile(rf"^(?:[0-9*,/?#-]|{_CRON_WORDS})+$", re.IGNORECASE)
_SOME_DAY: Final = datetime(2000, 1, 1, tzinfo=UTC)
_BRACES: Final = re.compile(r"\{[^{}]*,[^{}]*\}")
PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_ADDRESS: Final = re.compile(r"^(s3a?://[A-Za-z0-9._-]+(/|$)|file:///)")
# With one slash too: nobody means a folder by `s3:/bucket`.
_SCHEME: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:/|://")
# Nor by these, of which the last are variables that nobody replaces.
_NO_FOLDER: Final = re.compile(r"^(s3[an]?(//|:(?!//))|arn:)|\$[{(]|(^|/)\$\w+(/|$)")
_S3: Final = re.compile(r"^s3a?://")
TABLE_PLACEHOLDERS: Final = ("database", "schema", "table")


def _distinct(value: list[str] | None) -> list[str] | None:
    return None if value is None else _stored(value, "key column", "; [] for none")


def _distinct_hints(value: dict[str, str]) -> dict[str, str]:
    return dict(zip(_distinct_names(list(value)), value.values(), strict=True))


def _distinct_names(value: list[str]) -> list[str]:
    return _stored(value, "column")


def _stored(value: list[str], each: str, otherwise: str = "") -> list[str]:
    """Return distinct columns by the names that they have in the table."""
    stored = [*map(stored_name, value)]
    if _repeats(stored):
        raise ValueError(f"each {each} once (names are case-insensitive)")
    _refuse_names(stored, otherwise)
    return stored


def _refuse_names(names: Collection[str], otherwise: str) -> None:
    """Raise ValueError for names that no column of a target can have."""
    if not all(map(is_column_name, names)):
        raise ValueError(f"names of columns, visible and not empty{otherwise}")
    if own := [name for name in names if is_reserved(name)]:
        raise ValueError(
            f"other names than {', '.join(own)}: those that begin with {OWN_COLUMNS} are Sluice's, "
            "and a source with such a column is refused"
        )


def _repeats(names: Collection[str]) -> bool:
    return len({name.lower() for name in names}) < len(names)


Key = Annotated[
    list[str] | None,
    AfterValidator(_distinct),
    Field(
        description="key columns; [] says that the table has none; absent: those of the events",
    ),
]


NullMisfits = Annotated[
    list[str],
    AfterValidator(_distinct_names),
    Field(description="columns in which NULL stands for a value that does not fit, counted"),
]


class Strict(BaseModel):
    """Base of all parts of the configuration: unknown keys are refused, nothing is coerced."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _namespace(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", value):
        raise ValueError("letters, digits and underscores, beginning with a letter")
    if value.lower() == LEDGER_NAMESPACE or is_changelog_namespace(value.lower()):
        raise ValueError(f"a name other than {LEDGER_NAMESPACE!r} that does not end with __cdc")
    if value.lower() in NAMESPACES_OF_SQL:
        raise ValueError(
            f"a name other than {' and '.join(NAMESPACES_OF_SQL)}, under which `sluice sql` and "
            "other engines have tables of their own"
        )
    return value


def _table_name(value: str) -> str:
    allowed = "a template over {database}, {schema} and {table} that holds {table}"
    used = PLACEHOLDER.findall(value)
    rest = PLACEHOLDER.sub("", value)
    if not set(used) <= set(TABLE_PLACEHOLDERS) or "table" not in used:
        raise ValueError(allowed)
    if not re.fullmatch(r"[A-Za-z0-9_]*", rest):
        raise ValueError(f"{allowed}, else only letters, digits and underscores")
    return value


def _schedule(value: str) -> str:
    fields = value.split()
    is_cron = len(fields) == 5 and all(map(_CRON_FIELD.match, fields)) and croniter.is_valid(value)
    if value not in _PRESETS and not is_cron:
        raise ValueError(f"five cron fields such as '0 * * * *', {', '.join(_PRESETS)}, or null")
    try:
        croniter(value, _SOME_DAY).get_next()
    except CroniterBadDateError as error:
        raise ValueError("a schedule that can occur") from error
    return value


def refuse_odd_path(value: str) -> None:
    """Raise ValueError for a text that is no valid path."""
    if "\0" in value:
        raise ValueError("a path without NUL")
    try:
        Path(value).expanduser()
    except RuntimeError as error:
        raise ValueError("a path whose ~user exists") from error


def _location(value: str) -> str:
    strange = _SCHEME.search(value) and not _ADDRESS.match(value)
    if not value or strange or _NO_FOLDER.search(value):
        raise ValueError(
            "a folder or s3://bucket/prefix, without keys (variables are not replaced)"
        )
    refuse_odd_path(value)
    if _S3.match(value) and {"", ".", ".."}.intersection(value.rstrip("/").split("/")[3:]):
        raise ValueError(
            "a bucket's folder without //, . or .. as parts of its path, for Spark takes them away "
            "and finds nothing there"
        )
    return _S3.sub("s3://", value).removeprefix("file://")


def _pattern(value: str) -> str:
    if not value or value.startswith("/") or ".." in value.split("/"):
        raise ValueError("a glob below landing.url such as '**/*.jsonl*'")
    if matches_nothing(value):
        raise ValueError("a glob without names that are never taken: those with . or _ in front")
    if _BRACES.search(value):
        raise ValueError("a glob of * ? [ ] alone: braces are taken literally")
    try:
        Glob(value)
    except re.error as error:
        raise ValueError(f"a glob with ranges such as [0-9]: {error}") from error
    return value


def _hint(value: str) -> str:
    try:
        parse_type(value)
    except ValueError as error:
        raise ValueError(f"a column type such as decimal(18,2): {error}") from error
    return value


def _whole_types(value: Any) -> Any:
    """Raise ValueError for a type that YAML cut at its comma, which leaves a key
    without a value."""
    rests = [key for key, rest in value.items() if rest is None] if isinstance(value, dict) else []
    cut = [key for key, kind in value.items() if _is_cut(kind)] if rests else []
    if cut and str(rests[0]).endswith(")"):
        raise ValueError(
            f'quotes around a type with a comma, as in {{{cut[0]}: "{value[cut[0]]},{rests[0]}"}}, '
            "for in braces a comma ends the value"
        )
    return value


def _is_cut(kind: Any) -> bool:
    return isinstance(kind, str) and "(" in kind and ")" not in kind


def _instant(value: str) -> str:
    expected = "a time with its zone such as 2026-01-31T20:30:00Z"
    try:
        instant = datetime.fromisoformat(value)
    except ValueError as error:
        raise ValueError(expected) from error
    if instant.tzinfo is None:
        raise ValueError(expected)
    return instant.isoformat()


def _partition(value: str) -> str:
    parse_partition(value)
    return value


def _pipeline_name(value: str) -> str:
    if value in OPERATIONS:
        raise ValueError(f"another name than {', '.join(OPERATIONS)}, whose DAGs are Sluice's own")
    return value


def is_pipeline_name(value: str) -> bool:
    """Whether a pipeline may have this name."""
    fits = len(value) <= LONGEST_PIPELINE_NAME and re.fullmatch(_NAME, value)
    return bool(fits) and value not in OPERATIONS


OPERATIONS: Final = ("maintain", "reconcile", "reprocess", "rollback")
"""The operators' DAGs, called `sluice_<name>`; no pipeline may have one of these names."""
LONGEST_PIPELINE_NAME: Final = 200
"""Airflow allows 250 characters for a DAG id, which has more in it than the name."""
Name = Annotated[str, Field(pattern=_NAME)]
PipelineName = Annotated[
    Name, Field(max_length=LONGEST_PIPELINE_NAME), AfterValidator(_pipeline_name)
]
Location = Annotated[str, AfterValidator(_location)]
Instant = Annotated[str, AfterValidator(_instant)]
Hint = Annotated[str, AfterValidator(_hint)]
Hints = Annotated[
    dict[str, Hint],
    BeforeValidator(_whole_types),
    AfterValidator(_distinct_hints),
    Field(description="column → type, such as decimal(18,2) or timestamp[ms]"),
]
Region = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")]
PartitionText = Annotated[str, AfterValidator(_partition)]
Namespace = Annotated[str, AfterValidator(_namespace)]
TableName = Annotated[str, AfterValidator(_table_name)]
Schedule = Annotated[str, AfterValidator(_schedule)]
Pattern = Annotated[str, AfterValidator(_pattern)]
