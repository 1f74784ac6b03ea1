"""A table that a batch was published without, undone after it has caught up: while the batch stays,
nothing else brings its rows back, so it is held, or waits again.

The driver is played; landing, ledger, shares and undo are the real ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from sluice.errors import TerminalError
from sluice.faults import Point
from sluice.ledger.details import RELEASED_BY, ROLLED_BACK_BY
from sluice.ledger.states import FAILED, PUBLISHED, ROLLED_BACK
from sluice.manifest import Manifest, Rebuild
from sluice.operations import stages
from sluice.operations.context import Context
from sluice.operations.rollback import RollbackRequest, roll_back
from sluice.operations.undo import undo_batch
from sluice.operations.undone_shares import release_batch
from sluice.result import Counts, LeftOut
from tests.unit.fake_driver import ONE, play
from tests.unit.projects import SHOP, open_shop
from tests.unit.undo_lake import Killed, at_point, killed_at, pass_points

pytestmark = pytest.mark.catalog

LEFT = LeftOut("d.s.notes", 1, "fails its check")
RELEASE = "sluice release shop --batch {0}"


@dataclass
class Shop:
    """A pipeline of two tables, of which `notes` cannot be loaded while `broken`."""

    ctx: Context
    broken: bool = True
    loaded: list[str] = field(default_factory=list)

    def answer(self, manifest: Manifest) -> tuple[Counts, tuple[LeftOut, ...]]:
        self.loaded.append(manifest.batch_id)
        return ONE, (LEFT,) if self.broken and not manifest.share_of else ()

    def land(self, name: str) -> str:
        """Land a file and run; returns the batch that loads it."""
        (self.ctx.project.root / "landing" / name).write_text(f'{{"x": "{name}"}}\n')
        self.run()
        return self.ctx.ledger.files.known()[name].batch_id

    def run(self) -> list[str]:
        """Return the batches whose driver starts."""
        self.loaded.clear()
        stages.run(self.ctx)
        return list(self.loaded)

    def roll_back(self, **asked: object) -> list[str]:
        return roll_back(self.ctx, RollbackRequest(**asked))  # type: ignore[arg-type]

    def state(self, batch_id: str) -> str:
        return next(r.state for r in self.ctx.ledger.batches.all() if r.batch_id == batch_id)

    def share(self) -> str:
        (share,) = (r.batch_id for r in self.ctx.ledger.batches.all() if "share_of" in r.details)
        return share


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    shop = Shop(open_shop(tmp_path, SHOP + "consistency: table\n"))
    monkeypatch.setattr("sluice.operations.load.submit", play(shop.ctx, shop.answer))
    return shop


@dataclass(frozen=True)
class Caught:
    """Batches in the order of their publication: `share` is the table that `origin` lacks."""

    first: str
    origin: str
    between: str
    share: str


@pytest.fixture
def caught(shop: Shop) -> Caught:
    shop.broken = False
    first = shop.land("a.jsonl")
    shop.broken = True
    origin = shop.land("b.jsonl")
    shop.broken = False
    between = shop.land("c.jsonl")
    caught = Caught(first, origin, between, shop.share())
    assert shop.state(caught.share) == PUBLISHED
    return caught


def test_a_table_that_caught_up_waits_again_when_it_is_undone_and_released(
    shop: Shop, caught: Caught
) -> None:
    """At the batch gone back to it waited too."""
    newest = shop.land("d.jsonl")
    lines = shop.roll_back(to=caught.between, release=True)
    assert (shop.state(caught.share), shop.state(newest)) == (FAILED, ROLLED_BACK)
    assert [line for line in lines if caught.share in line] == [
        f"d.s.notes of batch {caught.origin} waits again for the next run, as batch {caught.share}"
    ]
    assert set(shop.run()) == {newest, caught.share}
    assert shop.state(caught.share) == PUBLISHED


@pytest.mark.parametrize("one", [False, True], ids=["to", "batch"])
def test_a_table_that_caught_up_is_held_until_its_release(
    shop: Shop, caught: Caught, one: bool
) -> None:
    asked = {"batch": caught.share} if one else {"to": caught.between}
    assert shop.roll_back(**asked)[-1] == (
        f"batch {caught.share} is undone; d.s.notes of batch {caught.origin} is held until: "
        f"{RELEASE.format(caught.share)}"
    )
    assert shop.run() == []
    with pytest.raises(TerminalError, match=f"it is held: {RELEASE.format(caught.share)}, then"):
        stages.current_result(shop.ctx, caught.share)
    assert release_batch(shop.ctx, caught.share) == (
        f"d.s.notes of batch {caught.origin} waits again for the next run, as batch {caught.share}"
    )
    assert shop.run() == [caught.share]


def test_a_publisher_whose_batch_was_undone_meanwhile_makes_no_share_and_removes_nothing(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files beside the tables are those of the next attempt by then."""
    files = shop.ctx.files

    def land_anew() -> None:
        (batch,) = {file.batch_id for file in shop.ctx.ledger.files.known().values()}
        undo_batch(shop.ctx, batch)
        release_batch(shop.ctx, batch)
        files.store.put(files.scratch_key("shop", batch, "next"), b"rows")

    at_files = at_point(Point.PUBLISH_FILES, land_anew)
    monkeypatch.setattr("sluice.operations.publish.reach", at_files)
    batch = shop.land("a.jsonl")
    assert [row.batch_id for row in shop.ctx.ledger.batches.all()] == [batch]
    assert shop.state(batch) == ROLLED_BACK
    assert files.store.get(files.scratch_key("shop", batch, "next")) == b"rows"


@pytest.mark.parametrize(
    ("to", "release"),
    [("", False), ("", True), ("between", False), ("between", True), ("first", False)],
)
def test_a_dry_run_tells_of_a_share_what_the_rollback_does(
    shop: Shop, caught: Caught, to: str, release: bool
) -> None:
    asked = {"to": getattr(caught, to)} if to else {"batch": caught.share}
    would = afterwards(shop.roll_back(**asked, release=release, dry_run=True))
    assert would == of_shares(shop.roll_back(**asked, release=release))
    assert len(would) == (to != "first")
    if not to:  # now it is undone already
        would = afterwards(shop.roll_back(**asked, release=True, dry_run=True))
        assert would == of_shares(shop.roll_back(**asked, release=True))


def test_a_dry_run_tells_what_becomes_of_a_share_that_has_failed(shop: Shop) -> None:
    shop.land("a.jsonl")
    would = afterwards(shop.roll_back(batch=shop.share(), dry_run=True))
    assert would == of_shares(shop.roll_back(batch=shop.share()))
    assert len(would) == 1


def test_a_dry_run_tells_how_a_rollback_that_has_begun_was_ordered_to_end(
    shop: Shop, caught: Caught, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        pass_points(patch, killed_at(Point.ROLLBACK_MARKED))
        with pytest.raises(Killed):
            shop.roll_back(to=caught.between, release=True)
    would = afterwards(shop.roll_back(to=caught.between, dry_run=True))
    assert would == of_shares(shop.roll_back(to=caught.between))
    assert would == [
        f"d.s.notes of batch {caught.origin} waits again for the next run, as batch {caught.share}"
    ]


def afterwards(lines: list[str]) -> list[str]:
    """What a dry run says of the time after the rollback."""
    words = "afterwards: "
    return [line.removeprefix(words) for line in lines if line.startswith(words)]


def of_shares(lines: list[str]) -> list[str]:
    ends = ("is held until", "waits again")
    return [line for line in lines if "d.s.notes" in line and any(end in line for end in ends)]


def test_a_share_that_is_undone_already_is_released_and_signed(shop: Shop, caught: Caught) -> None:
    shop.roll_back(batch=caught.share)
    shop.roll_back(batch=caught.share, release=True, user="ann")
    row = shop.ctx.ledger.batches.get(caught.share)
    assert row is not None
    assert row.state == FAILED
    assert row.details.items() >= {ROLLED_BACK_BY: "ann", RELEASED_BY: "ann"}.items()


def test_a_share_whose_batch_is_undone_too_comes_back_with_that(shop: Shop, caught: Caught) -> None:
    lines = shop.roll_back(to=caught.first)
    assert [line for line in lines if caught.share in line] == []
    release_batch(shop.ctx, caught.origin)
    assert shop.run() == [caught.origin]  # with all its tables
    assert (shop.state(caught.origin), shop.state(caught.share)) == (PUBLISHED, ROLLED_BACK)
    assert release_batch(shop.ctx, caught.share) == (
        f"no file of batch {caught.share} is held any more"
    )
    assert shop.run() == []


@pytest.mark.parametrize(
    ("point", "release"),
    [
        (Point.ROLLBACK_MARKED, False),
        (Point.ROLLBACK_MARKED, True),
        (Point.ROLLBACK_FILES, True),
        (Point.ROLLBACK_DONE, True),
    ],
)
def test_whoever_completes_the_rollback_ends_the_share_as_it_was_ordered(
    shop: Shop, caught: Caught, monkeypatch: pytest.MonkeyPatch, point: Point, release: bool
) -> None:
    shop.land("d.jsonl")
    with monkeypatch.context() as patch:
        pass_points(patch, killed_at(point))
        with pytest.raises(Killed):
            shop.roll_back(to=caught.between, release=release)
    stages.reconcile(shop.ctx)
    assert shop.state(caught.share) == (FAILED if release else ROLLED_BACK)
    if not release:
        release_batch(shop.ctx, caught.share)
    assert caught.share in shop.run()


def fold_without(shop: Shop, *undone: str) -> None:
    """Publish a batch as of a rollback that folds keys again, and releases what it undoes."""
    rebuild = Rebuild((), at="", without=undone, release=undone)
    key = shop.ctx.files.write_manifest(Manifest("shop", "20260302T10-f01d", (), rebuild=rebuild))
    result = stages.load(shop.ctx, key)
    folded = shop.ctx.ledger.batches.published().difference(undone)
    shop.ctx.files.write_result(replace(result, folded=tuple(folded)))
    stages.publish(shop.ctx, key)


@pytest.mark.parametrize("share_first", [True, False])
def test_a_fold_that_undoes_a_share_with_its_batch_lets_neither_wait(
    shop: Shop, caught: Caught, share_first: bool
) -> None:
    both = (caught.share, caught.origin) if share_first else (caught.origin, caught.share)
    fold_without(shop, *both)
    assert [shop.state(batch) for batch in both] == [ROLLED_BACK, ROLLED_BACK]


def test_a_fold_that_undoes_a_share_alone_lets_it_wait(shop: Shop, caught: Caught) -> None:
    fold_without(shop, caught.share)
    assert shop.state(caught.share) == FAILED
