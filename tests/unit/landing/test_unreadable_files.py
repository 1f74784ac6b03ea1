"""Files that may be listed and not read: they keep nothing else from landing, and are told."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.stub import Stubber
from rich.console import Console

from sluice.errors import FileDeniedError, FilesLeftOutError, TerminalError, TransientError
from sluice.landing.inspection import Inspector
from sluice.objects.s3_store import S3Store
from sluice.operations import preview as preview_module
from sluice.operations import reprocess, stages
from sluice.operations.context import MOST_FILES_NAMED, Context
from sluice.operations.preview import Preview, preview
from sluice.operations.selection import EVERYTHING, Selection, open_landing
from sluice.operations.unreadable_files import UnreadableFiles, files_left_out
from sluice.output import report
from tests.all_readable import land
from tests.unit.projects import SHOP, files_of_loads, keys, open_shop

pytestmark = pytest.mark.catalog

KEYS = ("a.jsonl", "b.jsonl", "c.jsonl")


@pytest.fixture
def context(tmp_path: Path, messages: list[str]) -> Context:
    tables = "tables: {s.orders: {key: [id]}}\n"
    context = open_shop(tmp_path, SHOP + tables, messages.append)
    for key in KEYS:
        path(context, key).write_text(f'{{"op": "{key}"}}\n')
    return context


def path(context: Context, key: str) -> Path:
    return context.project.root / "landing" / key


@pytest.fixture
def closed(context: Context, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of files that may not be read; nothing stops root, so that the call does it."""
    names = {"b.jsonl"}
    really = Path.open

    def opened(self: Path, *given: Any, **more: Any) -> Any:
        if self.name in names and self.parent.name == "landing":
            raise PermissionError(13, "Permission denied", str(self))
        return really(self, *given, **more)

    monkeypatch.setattr(Path, "open", opened)
    return names


def test_unreadable_file_is_not_recorded_and_the_others_land(
    context: Context, closed: set[str], messages: list[str]
) -> None:
    unreadable = UnreadableFiles()
    assert keys(context, stages.land(context, EVERYTHING, unreadable)) == ["a.jsonl", "c.jsonl"]
    assert list(unreadable.errors) == ["b.jsonl"]
    assert f"{path(context, 'b.jsonl')}: Permission denied; let Sluice read it" in str(
        unreadable.errors["b.jsonl"]
    )
    error = files_left_out("shop", unreadable)
    assert isinstance(error, FilesLeftOutError)
    assert "pipeline shop: 1 file that landed cannot be read" in str(error)
    assert any("b.jsonl is left out" in line for line in messages)
    assert set(context.ledger.files.known()) == {"a.jsonl", "c.jsonl"}
    closed.clear()
    assert keys(context, land(context)) == ["b.jsonl"]


@pytest.mark.parametrize("tables", [(), ("s.orders",)])
def test_run_loads_the_readable_files_and_ends_as_an_error(
    context: Context, closed: set[str], monkeypatch: pytest.MonkeyPatch, tables: tuple[str, ...]
) -> None:
    loaded = files_of_loads(monkeypatch)
    results, failure = stages.run(context, Selection(tables=tables))
    assert (results, loaded) == ([], ["a.jsonl", "c.jsonl"])
    assert isinstance(failure, FilesLeftOutError)
    assert failure.exit_code == 1
    assert "b.jsonl: Permission denied" in str(failure)


def test_no_batch_is_made_if_no_file_can_be_read(context: Context, closed: set[str]) -> None:
    closed.update(KEYS)
    results, failure = stages.run(context)
    assert results == []
    assert isinstance(failure, FilesLeftOutError)
    assert context.ledger.batches.all() == []


def test_run_for_some_tables_reads_the_readable_files(context: Context, closed: set[str]) -> None:
    unreadable = UnreadableFiles()
    made = stages.land_tables(context, Selection(tables=("s.orders",)), unreadable)
    assert keys(context, made) == ["a.jsonl", "c.jsonl"]
    assert list(unreadable.errors) == ["b.jsonl"]


def test_plan_lists_unreadable_files(
    context: Context, closed: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    forecast = preview_module.Forecast()
    monkeypatch.setattr(preview_module, "_forecast", lambda *_: forecast)
    found = preview(context)
    assert found.files == ("a.jsonl", "c.jsonl")
    assert list(found.denied) == ["b.jsonl"]
    assert "would be left out: b.jsonl" in printed(found)


def printed(found: Preview) -> str:
    out = io.StringIO()
    report.show_preview(Console(file=out, width=500), found)
    return out.getvalue()


def test_reprocess_of_an_unreadable_file_names_it(context: Context, closed: set[str]) -> None:
    closed.clear()
    (key,) = land(context)
    (file,) = [f for f in context.files.read_manifest(key).files if f.key == "b.jsonl"]
    closed.add("b.jsonl")
    with pytest.raises(TerminalError, match=r"(?s)b\.jsonl: Permission denied.*--batch"):
        reprocess._inspect_unchanged(context, {"b.jsonl": file})


def test_error_names_some_unreadable_files_and_counts_all() -> None:
    error = files_left_out(
        "shop", UnreadableFiles({f"{n:03}": FileDeniedError("denied") for n in range(100)})
    )
    assert "100 files" in str(error)
    assert str(error).count("denied") == MOST_FILES_NAMED
    assert f"and {100 - MOST_FILES_NAMED} more" in str(error)
    assert files_left_out("shop", UnreadableFiles()) is None


def test_throttling_store_is_not_blamed_on_one_file(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def inspected(*_: Any) -> Any:
        raise TransientError("s3://x/a: SlowDown; try again")

    monkeypatch.setattr(Inspector, "inspect", inspected)
    with pytest.raises(TransientError, match="SlowDown"):
        stages.land(context, EVERYTHING, UnreadableFiles())


def answering(code: str, status: int) -> S3Store:
    """A bucket that answers the reading of an object with an error."""
    store = S3Store("bucket", "landing")
    client = botocore.session.Session().create_client(
        "s3", region_name="x", aws_access_key_id="x", aws_secret_access_key="x"
    )
    stub = Stubber(client)
    stub.add_client_error("get_object", code, "told", status)
    stub.activate()
    store.__dict__["client"] = client
    return store


@pytest.mark.parametrize(
    ("code", "status", "advice"),
    [
        ("AccessDenied", 403, "s3:GetObject"),
        ("InvalidObjectState", 403, "restore it"),
        ("KMS.DisabledException", 400, "its key"),
        ("InvalidRequest", 400, "written again"),
    ],
)
def test_s3_errors_of_one_object_are_file_denied(code: str, status: int, advice: str) -> None:
    with pytest.raises(FileDeniedError, match=rf"s3://bucket/landing/k: .*{code}.*{advice}"):
        answering(code, status).open("k")


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("InvalidAccessKeyId", 403, TerminalError),
        ("SignatureDoesNotMatch", 403, TerminalError),
        ("NoSuchBucket", 404, TerminalError),
        ("SlowDown", 503, TransientError),
        ("ExpiredToken", 400, TransientError),
        ("InvalidToken", 400, TerminalError),
        ("RequestTimeTooSkewed", 403, TerminalError),
        ("NoSuchKey", 404, FileNotFoundError),
    ],
)
def test_store_wide_s3_errors_are_not_blamed_on_one_file(
    code: str, status: int, kind: type[Exception]
) -> None:
    with pytest.raises(kind) as caught:
        answering(code, status).open("k")
    assert type(caught.value) is kind


def test_a_local_file_that_is_closed_to_others(context: Context, closed: set[str]) -> None:
    path(context, "b.jsonl").chmod(0)
    store = open_landing(context)
    with pytest.raises(FileDeniedError):
        store.open("b.jsonl")
    with pytest.raises(FileDeniedError):
        store.get("b.jsonl")
