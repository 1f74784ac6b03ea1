"""`sluice raise-epoch` changes two lines of one file at most, or nothing."""

from __future__ import annotations

import errno
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sluice.config.new_epoch import raise_epoch
from sluice.config.project import load_project, load_sound
from sluice.errors import ConfigError
from tests.unit.projects import write_project

SHOP = """\
# the shop's own database
name: shop   # as the DAG is called
format: debezium
landing: {url: landing}
namespace: shop
"""


def project(root: Path, shop: str) -> Path:
    write_project(root, a=SHOP.replace("shop", "other"), b=shop)
    return root / "pipelines" / "b.yaml"


def test_an_epoch_that_the_file_names_is_raised_in_its_line(tmp_path: Path) -> None:
    path = project(tmp_path, SHOP + "epoch: 9  # since the failover\nschedule: null\n")
    assert raise_epoch(load_project(tmp_path), "shop") == 10
    assert path.read_text() == SHOP + "epoch: 10  # since the failover\nschedule: null\n"


@pytest.mark.parametrize("more", ["epoch: 9\nschedule: null\n", "schedule: null\n"])
def test_a_file_keeps_its_line_ends(tmp_path: Path, more: str) -> None:
    path = project(tmp_path, SHOP)
    path.write_bytes((SHOP + more).replace("\n", "\r\n").encode())
    raise_epoch(load_project(tmp_path), "shop", full_load=True)
    raise_epoch(load_project(tmp_path), "shop", full_load=True)
    text = path.read_bytes()
    assert text.count(b"\n") == text.count(b"\r\n") > SHOP.count("\n")


def test_an_epoch_that_the_file_leaves_out_is_added(tmp_path: Path) -> None:
    path = project(tmp_path, SHOP)
    assert raise_epoch(load_project(tmp_path), "shop") == 1
    assert raise_epoch(load_project(tmp_path), "shop") == 2
    assert path.read_text() == SHOP + "epoch: 2\n"
    assert load_project(tmp_path).pipeline("other").epoch == 0


@pytest.mark.parametrize(
    ("shop", "message"),
    [
        ("{name: shop, format: debezium, landing: {url: l}, namespace: shop}", "epoch: 1 into it"),
        (SHOP + "epoch: 9999\n", "epoch 9999 is the last"),
    ],
)
def test_file_whose_epoch_cannot_be_raised_is_left_alone(
    tmp_path: Path, shop: str, message: str
) -> None:
    path = project(tmp_path, shop)
    with pytest.raises(ConfigError, match=message):
        raise_epoch(load_project(tmp_path), "shop")
    assert path.read_text() == shop
    assert sorted(p.name for p in path.parent.iterdir()) == ["a.yaml", "b.yaml"]


def test_a_full_load_is_declared_with_the_epoch_that_it_begins(tmp_path: Path) -> None:
    path = project(tmp_path, SHOP)
    before = datetime.now(UTC).replace(microsecond=0)
    assert raise_epoch(load_project(tmp_path), "shop", full_load=True) == 1
    (declared,) = load_project(tmp_path).pipeline("shop").full_loads
    assert declared.epoch == 1
    assert before <= datetime.fromisoformat(declared.at) <= datetime.now(UTC)

    text = path.read_text().replace("full_loads:", "full_loads:  # asked of the source")
    path.write_text(text + "schedule: null\n")
    raise_epoch(load_project(tmp_path), "shop")
    assert raise_epoch(load_project(tmp_path), "shop", full_load=True) == 3
    found = load_project(tmp_path).pipeline("shop")
    assert [one.epoch for one in found.full_loads] == [3, 1]
    assert found.schedule is None
    assert "full_loads:  # asked of the source\n  - {epoch: 3, at: 2" in path.read_text()


def test_full_loads_in_another_form_are_left_to_the_operator(tmp_path: Path) -> None:
    shop = SHOP + "epoch: 1\nfull_loads: [{epoch: 1, at: 2026-01-31T20:30:00Z}]\n"
    path = project(tmp_path, shop)
    expected = r"write epoch: 2 and full_loads: \[\{epoch: 2, at: .*\}, \{epoch: 1, at: .*\}\] into"
    with pytest.raises(ConfigError, match=expected):
        raise_epoch(load_project(tmp_path), "shop", full_load=True)
    assert path.read_text() == shop


@pytest.mark.parametrize(
    "refused", [["os.replace"], ["pathlib.Path.write_text", "pathlib.Path.unlink"]]
)
def test_a_file_that_cannot_be_written_names_the_line_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: list[str]
) -> None:
    """A read-only file system refuses to delete even a file that is not there."""
    path = project(tmp_path, SHOP)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for function in refused:
        monkeypatch.setattr(function, refuse)
    with pytest.raises(ConfigError, match="write epoch: 1 into it by hand"):
        raise_epoch(load_project(tmp_path), "shop")
    assert path.read_text() == SHOP


@pytest.mark.parametrize("beside", ["a-shop.yaml", ".shop.yaml", "a.ysml"])
def test_the_file_that_the_pipeline_was_read_from_is_changed(tmp_path: Path, beside: str) -> None:
    """Not one that calls itself so too, and is broken, hidden, or none of the project's."""
    path = project(tmp_path, SHOP)
    broken = path.with_name(beside)
    broken.write_text(SHOP + "no_such_key: 1\n")
    assert raise_epoch(load_sound(tmp_path), "shop") == 1
    assert path.read_text() == SHOP + "epoch: 1\n"
    assert broken.read_text() == SHOP + "no_such_key: 1\n"


def test_a_link_stays_one_and_its_file_keeps_its_mode(tmp_path: Path) -> None:
    path = project(tmp_path, SHOP)
    real = path.rename(tmp_path / "shared.yaml")
    real.chmod(0o660)
    path.symlink_to(real)
    raise_epoch(load_project(tmp_path), "shop")
    assert path.is_symlink()
    assert real.read_text() == SHOP + "epoch: 1\n"
    assert real.stat().st_mode & 0o777 == 0o660
    assert load_project(tmp_path).pipeline("shop").epoch == 1
