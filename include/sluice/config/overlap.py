"""Whether two pipelines are in each other's way: one name, or tables of one namespace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from sluice.config.fields import PLACEHOLDER, TABLE_PLACEHOLDERS
from sluice.errors import ConfigError
from sluice.names import beside_target

if TYPE_CHECKING:
    from sluice.config.project import Pipeline
    from sluice.config.yaml_file import Document

_MOST: Final = 5

Written = tuple["Document", "Pipeline"]


def refuse_overlap(pipelines: Iterable[Written]) -> None:
    """Raise ConfigError naming the file and line of a pipeline that another is in the way of.

    Two pipelines may share a namespace only where both list their tables, and no target of one
    can be the other's: else a table that turns up tomorrow would be both's.
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


def _used(document: Document, key: str, other: Document) -> str:
    return f"{document.where((key,))}: {key}: already used by {other.path.name}"


def _both(one: Pipeline, other: Pipeline) -> str:
    found = (_targets(one) or set()) & (_targets(other) or set())
    # A target that both have brings the names beside it along.
    shared = sorted(found.difference(*(beside_target(target) for target in found)))
    more = f" and {len(shared) - _MOST} more" if len(shared) > _MOST else ""
    return f"; both write {', '.join(shared[:_MOST])}{more}" if shared else ""


def _may_meet(one: Pipeline, other: Pipeline) -> bool:
    if one.namespace.lower() != other.namespace.lower():
        return False
    left, right = _targets(one), _targets(other)
    return left is None or right is None or bool(left & right)


def _targets(pipeline: Pipeline) -> set[str] | None:
    """The names that a pipeline may write, in lower case; None where only the events tell."""
    targets = [_target(pipeline.table_name, name) for name in pipeline.tables or ()]
    known = {target.lower() for target in targets if target is not None}
    if pipeline.tables is None or None in targets:
        return None
    return known.union(*(beside_target(target) for target in known))


def _target(template: str, source: str) -> str | None:
    """A source table's target; None where its name lacks a part that the template has."""
    parts = source.split(".")
    known = TABLE_PLACEHOLDERS[-len(parts) :]
    found = dict(zip(known, parts, strict=True)) if len(parts) <= len(TABLE_PLACEHOLDERS) else {}
    if not set(PLACEHOLDER.findall(template)) <= set(found):
        return None
    return template.format(**found)
