"""The names of a plan's tables in the lake."""

from __future__ import annotations

from dataclasses import dataclass

from sluice import names
from spark_jobs.planning.plan import TablePlan
from spark_jobs.quoting import quoted


@dataclass(frozen=True)
class TableId:
    """A table's namespace and name."""

    namespace: str
    name: str

    @property
    def full_name(self) -> str:
        """Namespace and name, for messages."""
        return names.full_name(self.namespace, self.name)

    @property
    def identifier(self) -> tuple[str, str]:
        """Namespace and name, for PyIceberg's catalog."""
        return self.namespace, self.name

    def sql(self, branch: str | None = None) -> str:
        """Return the quoted identifier of the table, or of one of its branches."""
        parts = [names.CATALOG, self.namespace, self.name]
        if branch is not None:
            parts.append(f"branch_{branch}")
        return ".".join(quoted(p) for p in parts)


def target_id(plan: TablePlan) -> TableId:
    """Return the target of a plan."""
    return TableId(plan.namespace, plan.target)


def changelog_id(plan: TablePlan) -> TableId:
    """Return the changelog of a plan's target."""
    return changelog_of(target_id(plan))


def changelog_of(target: TableId) -> TableId:
    """Return the changelog of a target."""
    namespace = names.changelog_namespace(target.namespace)
    return TableId(namespace, names.changelog_table(target.name))


def tombstone_id(plan: TablePlan) -> TableId:
    """Return the tombstones of a plan's target."""
    return tombstones_of_target(target_id(plan))


def tombstones_of_target(target: TableId) -> TableId:
    """Return the tombstones of a target."""
    namespace = names.changelog_namespace(target.namespace)
    return TableId(namespace, names.tombstone_table(target.name))


def history_id(plan: TablePlan) -> TableId:
    """Return the history of a plan's target, which exists with mode history."""
    return TableId(plan.namespace, names.history_table(plan.target))


def events_id(plan: TablePlan) -> TableId:
    """Return the table of events of a plan's target, which exists with mode append."""
    return TableId(plan.namespace, names.events_table(plan.target))
