"""Errors, typed by what to do next. Every message says what failed and what to do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from sluice.escaping import LINES, shown

FROM_BEFORE: Final = "from what was loaded before: sluice run PIPELINE --table TABLE"
"""Advice: how to fill a target that started over."""
ELSEWHERE: Final = f"load into another `namespace`, and fill it {FROM_BEFORE}"
"""Advice for a target that cannot be converted."""


def landed_again(pipeline: str = "PIPELINE", batch: str = "ID") -> str:
    """Return advice: how a batch's files land again, by the limits and the folder as they are then.

    Loaded again as itself, a batch keeps its files.
    """
    return (
        f"then `sluice rollback {pipeline} --batch {batch}`, `sluice release {pipeline} --batch "
        f"{batch}`, and run again"
    )


class SluiceError(Exception):
    """Base of all errors that Sluice raises on purpose; the text is one line, see `shown`."""

    exit_code = 1
    layout = ""

    def __str__(self) -> str:
        return shown(super().__str__(), self.layout)

    def in_lines(self) -> Self:
        """Return the error with its line breaks kept, for messages that Sluice lays out itself."""
        self.layout = LINES
        return self


def names_of(kind: type[SluiceError]) -> frozenset[str]:
    """Return the names of an error class and its subclasses, as a driver reports them.

    Subclasses are in other modules too: call this after a driver has ended, not at import.
    """
    return frozenset({kind.__name__}).union(*map(names_of, kind.__subclasses__()))


class TransientError(SluiceError):
    """Try the same again: a throttled store, an unavailable catalog, a lost race."""

    exit_code = 75


class UnstableFileError(TransientError):
    """A landed file is still being written, or was removed: the next run tries it again."""


class NoRoomError(TransientError):
    """A disk has no room for the copy of one file; other files may be fine."""


class LeaseHeldError(TransientError):
    """Another batch of the pipeline is between branch and publish; wait or retry later."""


class HalfwayError(LeaseHeldError):
    """A batch is half published or half rolled back; waiting does not complete it."""


class TerminalError(SluiceError):
    """Stop: a person has to change configuration, code or data first.

    `tables`: the error of each source table at fault, if the batch's other tables are sound.
    """

    tables: Mapping[str, str] = {}

    def of_tables(self, wrong: Mapping[str, str]) -> Self:
        """Return the error with these source tables as the only ones at fault."""
        self.tables = wrong
        return self


def no_table(pipeline: str, name: str, listed: Iterable[str]) -> TerminalError:
    """Return the error of a table that the pipeline does not have; `listed`: those that it has."""
    has = ", ".join(listed) or "none"
    return TerminalError(f"pipeline {pipeline} has no table {name}; it has: {has}")


class LakeMovedError(TerminalError):
    """The catalog has pointed to files outside the warehouse for a long time; the batch at
    hand may be fine."""


class LedgerDamagedError(TerminalError):
    """A file of the ledger is damaged: no batch and no table is to blame, and none can be loaded
    before it is back."""


class BatchFileDamagedError(TerminalError):
    """A batch's manifest or result is damaged: what the batch needs is unknown."""


class OtherLakeError(TerminalError):
    """The warehouse is that of another ledger than the catalog's; nothing was written to it."""


class ConfigError(TerminalError):
    """The project's YAML is wrong; the message names file, key path and what was expected."""

    exit_code = 2
    layout = LINES


@dataclass(frozen=True)
class Evidence:
    """Which records of a table show why it is refused; without `columns` and `op`, none.

    `columns`: records that have one of these columns; of them, where there are `types` or `keys`
    (hashes by `short_name` in `spark_jobs`), those with one of these descriptions or keys. `op`:
    records of this operation; of statements, where there are `columns` or `statements`, those that
    name one of these columns, or are one of these statements.
    """

    columns: Collection[str] = ()
    types: Collection[int] = ()
    keys: Collection[int] = ()
    op: str = ""
    statements: Collection[str] = ()


class PlanError(TerminalError):
    """A table cannot be loaded as configured (no key known, two sources for one target, …).

    `lines`: of the message; a line break within one is escaped, since it came with a name.
    `evidence`: which records show it.
    """

    layout = LINES

    def __init__(self, *lines: str, evidence: Evidence | None = None) -> None:
        super().__init__("\n".join(map(shown, lines)))
        self.evidence = evidence


class UnknownKeyError(PlanError):
    """The key of a table, or the types of its columns, cannot be found out."""


class AuditFailedError(TerminalError):
    """An audit of the staged batch, or of one of its tables, failed: that was not published."""


class ResetSuspectedError(AuditFailedError):
    """The source's positions seem to have restarted.

    The epoch belongs to the whole pipeline: anything that is loaded before it is raised may rank
    below stored rows, also in tables that show no sign of a restart.
    """


class TablesLeftOutError(TerminalError):
    """A batch was published without some tables; the message says which, and why."""

    layout = LINES


class FileDeniedError(TerminalError):
    """The store lists a file but refuses its bytes: no right to it or its key, or it is archived;
    other files may be fine."""


class FilesLeftOutError(TerminalError):
    """The run loaded everything except files that are denied; the message says which, and why."""

    layout = LINES


class FilesUnreadError(TransientError):
    """The run loaded everything except files that could not be read, or copied for lack of room;
    the message says which, and why. The next run tries them again."""

    layout = LINES


class VerifyFailedError(TerminalError):
    """A target differs from its changelog; the report shows the keys."""


class PublishRefusedError(TransientError):
    """`main` moved since the batch was staged: merge the batch again on the new head."""


class CommitStateUnknownError(SluiceError):
    """A commit was sent and its outcome is unknown: look it up before anything else."""

    exit_code = 75


class RollbackRefusedError(TerminalError):
    """Another writer wrote after the batch; the message says what it changed."""


class FollowedError(RollbackRefusedError):
    """Another batch builds on this one: fold its keys again without it (`operations.refolding`)."""
