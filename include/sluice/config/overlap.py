"""Refuse pipelines that share a name, and tables or pipelines that may write to one target."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from sluice.config.fields import PLACEHOLDER, TABLE_PLACEHOLDERS
from sluice.errors import ConfigError
from sluice.names import mode_tables

if TYPE_CHECKING:
    from sluice.config.pipeline import Pipeline
    from sluice.config.yaml_file import Document

_MOST: Final = 5

Written = tuple["Document", "Pipeline"]


def refuse_overlap(pipelines: Iterable[Written]) -> None:
    """Raise ConfigError, with file and line, for pipelines that share a name or may share a target.

    Two pipelines may share a namespace only if both list their tables and no target is in both.
    Without the lists, a table that appears later would belong to both.
    """
    before: list[Written] = []
    for document, pipeline in pipelines:
        for other, earlier in before:
            if earlier.name == pipeline.name:
                raise ConfigError(_used(document, "name", other))
            if _may_meet(earlier, pipeline):
                raise ConfigError(
                    f"{_used(document, 'namespace', other)}; to share it, list `tables:` in both "
                    f"and let no target, by its table_name, be in both{_both(earlier, pipeline)}"
                )
        before.append((document, pipeline))


def refuse_shared_targets(template: str, names: Iterable[str]) -> None:
    """Raise ValueError for two listed source tables that make one target, by `table_name`.

    Names that lack a part of the template are left to the load, where events have it.
    """
    owners: dict[str, str] = {}
    for name in names:
        target = _target(template, name)
        if target is not None and (other := owners.setdefault(target.lower(), name)) != name:
            raise ValueError(
                f"a target for each: {other} and {name} both go to {target}; tell them apart in "
                f"`table_name`, or, if they make one table, name one in the `sources` of the other"
            )


def _used(document: Document, key: str, other: Document) -> str:
    return f"{document.where((key,))}: {key}: already used by {other.path.name}"


def _both(one: Pipeline, other: Pipeline) -> str:
    common = (_targets(one) or set()) & (_targets(other) or set())
    # A shared target implies shared history and events tables; name only the target.
    shared = sorted(common.difference(*(mode_tables(target) for target in common)))
    more = f" and {len(shared) - _MOST} more" if len(shared) > _MOST else ""
    return f"; both write {', '.join(shared[:_MOST])}{more}" if shared else ""


def _may_meet(one: Pipeline, other: Pipeline) -> bool:
    if one.namespace.lower() != other.namespace.lower():
        return False
    left, right = _targets(one), _targets(other)
    return left is None or right is None or bool(left & right)


def _targets(pipeline: Pipeline) -> set[str] | None:
    """Return the targets that a pipeline may write, in lower case; None if only
    events name them."""
    targets = [_target(pipeline.table_name, name) for name in pipeline.tables or ()]
    names = {target.lower() for target in targets if target is not None}
    if pipeline.tables is None or None in targets:
        return None
    return names.union(*(mode_tables(target) for target in names))


def _target(template: str, source: str) -> str | None:
    """Return a source table's target; None if its name lacks a part of the template."""
    parts = source.split(".")
    if len(parts) > len(TABLE_PLACEHOLDERS):
        return None
    values = dict(zip(TABLE_PLACEHOLDERS[-len(parts) :], parts, strict=True))
    if not set(PLACEHOLDER.findall(template)) <= set(values):
        return None
    return template.format(**values)
