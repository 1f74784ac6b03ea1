"""Why a run found nothing to load."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from itertools import islice
from typing import Final

from sluice.counting import are, counted
from sluice.escaping import shown
from sluice.ledger.claims import may_be_replaced
from sluice.ledger.details import SHARE_OF
from sluice.ledger.rows import FileRow, FileState
from sluice.ledger.states import FILE_CLAIMED
from sluice.objects.store import StoredObject
from sluice.operations.context import Context
from sluice.operations.quiet_period import young, young_in_words
from sluice.operations.selection import EVERYTHING, Selection, landed, open_landing
from sluice.operations.shares import waiting_files
from sluice.operations.single_tables import KnownFiles, Unread, known_files

MOST_COUNTED: Final = 1000
_BATCHES_NAMED: Final = 3


@dataclass(frozen=True)
class _Reason:
    """Why some files are not loaded, in words; `keys`: of these files."""

    text: str
    keys: Collection[str] = ()


def why_nothing(ctx: Context, selection: Selection = EVERYTHING) -> str:
    """Return why a run, for all landed files or for the selected ones, found nothing to load."""
    landing = ctx.pipeline.landing
    listed = landed(ctx, replace(selection, until=None))
    found = [one for one in listed if selection.holds(one.hour)]
    if selection.window and not found:
        return (
            f"no file in {landing.url} has an hour in the window that was asked for (UTC): that of "
            "dt=…/hr=… in its name, else of its last change"
        )
    if not listed:
        return f"no file in {landing.url} matches {landing.pattern}; {_others(ctx)}"
    if selection.tables and found:
        return _of_tables(ctx, selection, found)
    if left := _left_out(ctx, selection, listed, found):
        whose = "that was asked for" if selection.explicit else f"of {landing.url}"
        others = {one.key for one in found}.difference(*(reason.keys for reason in left))
        rest = f", and every other one {whose} is in the ledger already" if others else ""
        return _in_words(left) + rest
    if selection.explicit:
        files = counted(len(found), "file")
        return f"what was asked for, {files}, is in the ledger already"
    return f"every landed file of {landing.url} is in the ledger already"


def _left_out(
    ctx: Context, selection: Selection, listed: list[StoredObject], found: list[StoredObject]
) -> list[_Reason]:
    """Return why a run takes none of the files `listed`, of which those `found` are selected."""
    unclaimed, _ = ctx.ledger.files.unclaimed_or_changed(found)
    return [
        *_young(ctx, young(ctx, selection, unclaimed)),
        *_held(ctx, _held_among(ctx, found if selection.explicit or selection.tables else None)),
        *_replaced(ctx, found),
        *_later(selection, [one for one in listed if not selection.holds(one.hour)]),
        *_unfinished(ctx, found),
    ]


def _of_tables(ctx: Context, selection: Selection, found: list[StoredObject]) -> str:
    """Return why a run for some tables found nothing to read, by the rule of `land_tables`."""
    known = known_files(ctx)
    recent = young(ctx, selection, found, known.rows)
    later = {one.key for one in recent}
    old = [one for one in found if one.key not in later]
    if left := [*_young(ctx, recent), *_unread(ctx, old, known)]:
        return _in_words(left)
    files = counted(len(found), "file")
    done = f"what was asked for, {files}, is published for these tables or under way"
    named = ", except for what was named as not read"
    return done + (named if any(map(known.is_decided_by_bytes, found)) else "")


def _unread(ctx: Context, found: list[StoredObject], known: KnownFiles) -> Iterator[_Reason]:
    """Describe the objects that a run for some tables may not read."""
    why = {one.key: known.why_unread(one) for one in found}
    yield from _held(ctx, [known.rows[key] for key in why if why[key] is Unread.HELD])
    changed = [known.rows[key] for key in why if why[key] is Unread.CHANGED]
    if claimed := [row.object_key for row in changed if row.state == FILE_CLAIMED]:
        yield _Reason(
            f"left alone: {counted(len(claimed), 'file')}, such as {shown(claimed[0])}, that "
            f"changed, of a batch that is not published (sluice status {ctx.pipeline.name})",
            claimed,
        )
    yield from _changed(ctx, [row.object_key for row in changed if row.state != FILE_CLAIMED])


def _in_words(reasons: list[_Reason]) -> str:
    return ", ".join(reason.text for reason in reasons)


def _young(ctx: Context, objects: list[StoredObject]) -> Iterator[_Reason]:
    """Describe files that changed a moment ago."""
    if objects:
        yield _Reason(young_in_words(ctx, objects), [one.key for one in objects])


def _later(selection: Selection, files: list[StoredObject]) -> Iterator[_Reason]:
    """Describe the files of hours that the run leaves to later ones."""
    if files and selection.until:
        begins = f"{selection.until.astimezone(UTC):%Y-%m-%dT%H:%MZ}"
        yield _Reason(
            f"left to later runs: {counted(len(files), 'file')}, such as {shown(files[0].key)}, of "
            f"an hour from {begins} on"
        )


def _unfinished(ctx: Context, found: list[StoredObject]) -> Iterator[_Reason]:
    """Describe the batches that have some of the files and are not published."""
    keys = {one.key for one in found}
    claimed = defaultdict[str, set[str]](set)
    for claim in ctx.ledger.files.claimed():
        claimed[claim.batch_id].add(claim.object_key)
    waiting = []
    for row in ctx.ledger.unfinished():
        of_share = waiting_files(ctx, row) if SHARE_OF in row.details else []
        if own := keys & (claimed[row.batch_id] or {file.key for file in of_share}):
            waiting.append((row, own))
    for row, own in waiting[:_BATCHES_NAMED]:
        since = f"{row.state} {row.at:%Y-%m-%dT%H:%MZ}" if row.at else row.state
        yield _Reason(
            f"batch {row.batch_id} has {len(own)} of the files and is not published "
            f"({since}: sluice status {ctx.pipeline.name})",
            own,
        )
    if more := waiting[_BATCHES_NAMED:]:
        theirs = set[str]().union(*(own for _, own in more))
        yield _Reason(f"not published either: {counted(len(more), 'more batch')}", theirs)


def _others(ctx: Context) -> str:
    """Describe the files of a landing folder of which none matches the pattern."""
    count, first = 0, ""
    for found in islice(open_landing(ctx).list(), MOST_COUNTED):
        count, first = count + 1, min(first or found.key, found.key)
    if not count:
        return "the folder is empty (names that begin with . or _ are skipped)"
    least = "at least " if count == MOST_COUNTED else ""
    return f"{least}{counted(count, 'other file')} {are(count)} there, such as {shown(first)}"


def _held_among(ctx: Context, requested: list[StoredObject] | None) -> list[FileState]:
    """Return the files whose batch was rolled back, among the requested ones or all."""
    keys = None if requested is None else {one.key for one in requested}
    return [r for r in ctx.ledger.files.held() if keys is None or r.object_key in keys]


def _held(ctx: Context, rows: Sequence[FileRow | FileState]) -> Iterator[_Reason]:
    """Describe files whose batch was rolled back."""
    if held := sorted({row.batch_id for row in rows}):
        command = (
            f"sluice release {ctx.pipeline.name} --batch {held[0] if len(held) == 1 else 'ID'}"
        )
        text = f"files of {', '.join(held)} are held ({command})"
        yield _Reason(text, [row.object_key for row in rows])


def _replaced(ctx: Context, found: list[StoredObject]) -> Iterator[_Reason]:
    """Describe the objects that replaced loaded ones, or those of a batch under way."""
    found, known = ctx.ledger.files.unclaimed_or_changed(found)
    states = [(o.key, known[o.key].state) for o in found if o.key in known]
    if claimed := [key for key, state in states if state == FILE_CLAIMED]:
        yield _Reason(
            f"{counted(len(claimed), 'file')}, such as {shown(claimed[0])}, changed since landing "
            f"for a batch that is not published (sluice status {ctx.pipeline.name})",
            claimed,
        )
    loaded = (o for o in found if o.key in known and may_be_replaced(o, known[o.key]))
    yield from _changed(ctx, [one.key for one in loaded])


def _changed(ctx: Context, keys: list[str]) -> Iterator[_Reason]:
    """Describe objects that replaced loaded ones."""
    if keys:
        yield _Reason(
            f"left alone: {counted(len(keys), 'file')}, such as {shown(keys[0])}, that changed "
            f"since a file of that name was loaded (sluice run {ctx.pipeline.name} --changed; "
            "where landing.url is another place now: docs/operations.md, Landing in another place)",
            keys,
        )
