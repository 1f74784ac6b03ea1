"""Errors, typed by what to do next; every message names what failed and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

from sluice.escaping import LINES, shown

FROM_BEFORE: Final = "from what was loaded before: sluice run PIPELINE --table TABLE"
"""How a target that has begun anew is filled."""
ELSEWHERE: Final = f"load into another `namespace`, and fill it {FROM_BEFORE}"
"""What to do with a target that cannot become what it should be."""


class SluiceError(Exception):
    """Base of every error that Sluice raises on purpose; its text is one line, see `shown`."""

    exit_code = 1
    layout = ""

    def __str__(self) -> str:
        return shown(super().__str__(), self.layout)

    def in_lines(self) -> Self:
        """The same error with the lines that its message has, where these are the program's own."""
        self.layout = LINES
        return self


def names_of(kind: type[SluiceError]) -> frozenset[str]:
    """The kind's name and those of all kinds below it, as a driver that ends with one tells it.

    Not all of them are in this module: ask when a driver has ended, and not while modules load.
    """
    return frozenset({kind.__name__}).union(*map(names_of, kind.__subclasses__()))


class TransientError(SluiceError):
    """Try the same thing again: a throttled store, a catalog that is down, a lost race."""

    exit_code = 75


class Unsettled(TransientError):
    """A landed file is still being written, or was taken away: the next run looks again."""


class NoRoom(TransientError):
    """A disk has no room for the copy of one file; of the other files that says nothing."""


class LeaseHeld(TransientError):
    """Another batch of the pipeline is between branch and publish; wait or retry later."""


class TerminalError(SluiceError):
    """Stop: a person has to change configuration, code or data first.

    `tables`: what is wrong of each source table, where the others of the batch are sound.
    """

    exit_code = 1
    tables: Mapping[str, str] = {}

    def of_tables(self, wrong: Mapping[str, str]) -> Self:
        """The same error, which these source tables alone are to blame for."""
        self.tables = wrong
        return self


class LakeMoved(TerminalError):
    """The catalog names files that are not in the warehouse, for long; of a table or a batch that
    was looked at meanwhile this says nothing."""


class ConfigError(TerminalError):
    """The project's YAML is wrong; the message names file, key path and what was expected."""

    exit_code = 2
    layout = LINES


class PlanError(TerminalError):
    """A table cannot be loaded as configured (no key told, two sources for one target, …)."""

    layout = LINES


class UntoldKey(PlanError):
    """Nobody tells the key of a table, or the types of its columns."""


class AuditFailed(TerminalError):
    """An audit of the staged batch failed; nothing was published."""


class ResetSuspected(AuditFailed):
    """The source seems to count anew. The epoch is the pipeline's: whatever of the batch is loaded
    before it is raised may rank below what is stored, in tables that tell nothing of it too."""


class TablesLeftOut(TerminalError):
    """A batch is published without some of its tables; the message says which, and why."""

    layout = LINES


class FileDenied(TerminalError):
    """The store lists one file and does not hand out its bytes: no right to it or to its key, or
    it is archived; of the other files that says nothing."""


class FilesLeftOut(TerminalError):
    """What else has landed is taken, without files that are denied; the message says which, and
    why."""

    layout = LINES


class FilesUnread(TransientError):
    """What else has landed is taken, without files that the store failed to hand out, or for whose
    copies there is no room; the message says which, and why. The next run asks for them again."""

    layout = LINES


class VerifyFailed(TerminalError):
    """A target is not what its changelog says; the report shows the keys."""


class PublishRefused(TransientError):
    """`main` moved since the batch was staged: merge the batch again on the new head."""


class CommitStateUnknown(SluiceError):
    """A commit was sent and its outcome is not known: look it up before anything else."""

    exit_code = 75


class RollbackRefused(TerminalError):
    """Somebody else wrote after the batch; the message says who moved what."""


class Followed(RollbackRefused):
    """Another batch is built on it: fold its keys again without it (`operations.refolding`)."""
