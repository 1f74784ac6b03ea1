"""A catalog that is away for a while: what waits, what gives up, and what is never sent twice."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import RESTError, ServiceUnavailableError
from pyiceberg.table import Table

from sluice.catalog import client as catalog_module
from sluice.catalog import rest as restcatalog
from sluice.catalog import retries
from sluice.catalog.client import find_table, open_catalog
from sluice.catalog.failures import as_sluice_error
from sluice.catalog.listing import tables_of
from sluice.catalog.table_publish import publish_table
from sluice.catalog.table_rollback import rollback_table
from sluice.config.project import Project
from sluice.config.project_file import CatalogConfig, LakeConfig, SparkConfig
from sluice.errors import (
    CommitStateUnknownError,
    LakeMovedError,
    TerminalError,
    TransientError,
)
from sluice.ledger import appends
from sluice.ledger.claims import ClaimRequest
from sluice.ledger.ledger import Ledger, PipelineLedger
from sluice.manifest import SourceFile
from tests import postgres
from tests.unit import staged_tables
from tests.unit.clocks import Clock
from tests.unit.outages import away, failing, internal, invalidated

pytestmark = pytest.mark.catalog


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (retries, appends):
        monkeypatch.setattr(module, "time", made)
    return made


def project(uri: str, warehouse: Path, more: dict[str, Any] | None = None) -> Project:
    kind = "rest" if uri.startswith("http") else "jdbc"
    catalog = CatalogConfig.model_validate({"type": kind, "uri": uri} | (more or {}))
    lake = LakeConfig(catalog=catalog, warehouse=str(warehouse))
    return Project(root=warehouse, lake=lake, spark=SparkConfig(), pipelines={})


def embedded(folder: Path) -> Project:
    return project(f"sqlite:///{folder}/c.db", folder / "w")


def with_tables(catalog: Catalog) -> PipelineLedger:
    """The ledger of a pipeline, whose tables are there."""
    Ledger(catalog).ensure()
    return Ledger(catalog).of("p")


def claim(ledger: PipelineLedger, key: str) -> list[str]:
    file = SourceFile(key=key, url=f"file:///{key}", size=1, etag="e", hour="h")
    _, won = ledger.files.claim(ClaimRequest((file,), lambda files: f"batch-{files[0].key}"))
    return [one.key for one in won]


def test_a_catalog_that_is_away_for_a_minute_is_opened(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def after_a_minute(*args: Any, **kwargs: Any) -> Catalog:
        if clock.now < 60:
            raise away()
        return load_catalog(*args, **kwargs)

    monkeypatch.setattr(catalog_module, "load_catalog", after_a_minute)
    assert open_catalog(embedded(tmp_path)).list_namespaces() == []
    assert clock.now >= 60


def test_reads_of_tables_wait_for_a_catalog_that_is_away(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = staged_tables.one_table(tmp_path)
    staged = staged_tables.stage(catalog, "b1", 1)
    load, listed = catalog.load_table, catalog.list_tables
    monkeypatch.setattr(catalog, "load_table", failing(3, away(), load))
    assert find_table(catalog, "shop", "orders") is not None
    monkeypatch.setattr(catalog, "list_tables", failing(3, away(), listed))
    assert tables_of(catalog, "shop") == [("shop", "orders")]
    for act in (publish_table, rollback_table):
        monkeypatch.setattr(catalog, "load_table", failing(3, away(), load))
        act(catalog, staged, "b1")
    assert len(clock.slept) == 12


@pytest.mark.parametrize("lost_answer", [requests.ConnectionError("reset"), invalidated()])
def test_a_ledger_outlives_a_minute_without_its_catalog(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, lost_answer: Exception
) -> None:
    """The answer of a commit is lost just before: what was sent arrived, and counts once."""
    ledger = with_tables(open_catalog(embedded(tmp_path)))
    commit, load = Table._do_commit, appends.LedgerTables._open
    lost: list[float] = []

    def answer_lost(self: Table, *args: Any, **kwargs: Any) -> None:
        commit(self, *args, **kwargs)
        if not lost:
            lost.append(clock.now)
            raise lost_answer

    def away_then(self: appends.LedgerTables, name: str) -> Table:
        if lost and clock.now < lost[0] + 60:
            raise away()
        return load(self, name)

    monkeypatch.setattr(Table, "_do_commit", answer_lost)
    monkeypatch.setattr(appends.LedgerTables, "_open", away_then)
    assert claim(ledger, "a") == ["a"]
    assert [row.object_key for row in ledger.files.known().values()] == ["a"]
    assert clock.now >= 60


def test_a_ledger_that_stays_away_leaves_its_commit_unknown(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(open_catalog(embedded(tmp_path))).of("p")
    monkeypatch.setattr(appends.LedgerTables, "_open", failing(10_000, away()))
    with pytest.raises(
        CommitStateUnknownError, match="the ledger could not be read: no answer in 90 s"
    ):
        claim(ledger, "a")


def test_a_lake_that_was_moved_is_not_tried_again(tmp_path: Path, clock: Clock) -> None:
    """Its catalog names files by their whole paths; so does one from an older backup."""
    claim(Ledger(open_catalog(embedded(tmp_path))).of("p"), "a")
    (tmp_path / "w").rename(tmp_path / "moved")
    moved = Ledger(open_catalog(embedded(tmp_path))).of("p")
    with pytest.raises(LakeMovedError, match=r"metadata\.json.*names a file that is not in the"):
        moved.files.known()
    assert clock.now >= 90


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (OSError(errno.ENOSPC, "No space left"), TransientError, "No space left; make room"),
        (OSError(errno.EROFS, "Read-only"), TerminalError, "Read-only; let this process write"),
        (PermissionError("access denied"), TerminalError, "access denied; let this process write"),
        (away("attempt to write a readonly database"), TerminalError, "readonly database; let"),
    ],
)
def test_refused_ledger_write_is_raised_without_a_retry(
    tmp_path: Path,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    kind: type[Exception],
    message: str,
) -> None:
    ledger = with_tables(open_catalog(embedded(tmp_path)))
    monkeypatch.setattr(Table, "_do_commit", failing(10_000, error))
    with pytest.raises(kind, match=rf"^sluice\.files cannot be written: \w+: .*{message}"):
        claim(ledger, "a")
    assert clock.slept == []


def test_ledger_write_that_fails_each_time_raises_the_last_failure(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = with_tables(open_catalog(embedded(tmp_path)))
    monkeypatch.setattr(Table, "_do_commit", failing(10_000, OSError("broken pipe")))
    with pytest.raises(TransientError, match="in each of 60 tries: OSError: broken pipe; try"):
        claim(ledger, "a")
    assert len(clock.slept) == appends.MAX_TRIES


@pytest.fixture
def server() -> Iterator[tuple[str, list[tuple[str, str]], list[int]]]:
    """A REST catalog: its address, what it was asked, and the codes to answer with first."""
    asked: list[tuple[str, str]] = []
    codes: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append((self.command, self.path))
            bodies = {
                "config": b'{"defaults": {}, "overrides": {}}',
                "namespaces": b'{"namespaces": []}',
            }
            body = bodies.get(self.path.split("?")[0].rpartition("/")[2], b"{}")
            if self.path.startswith("/site/"):
                body = b"<html>Sign in, please</html>"
            self.send_response(codes.pop(0) if codes else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}", asked, codes
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_rest_catalog_retries_reads_but_no_writes(
    server: tuple[str, list[tuple[str, str]], list[int]], tmp_path: Path
) -> None:
    address, asked, codes = server
    codes += [503, 429]
    catalog = open_catalog(project(address, tmp_path))
    assert [path for _, path in asked] == ["/v1/config?warehouse=" + _quoted(tmp_path)] * 3
    codes += [502]
    assert catalog.list_namespaces() == []
    asked.clear()
    codes += [503]
    with pytest.raises(ServiceUnavailableError):
        catalog.create_namespace("shop")
    assert [method for method, _ in asked] == ["POST"]


def _quoted(path: Path) -> str:
    return quote(str(path), safe="")


def test_a_rest_catalog_is_asked_for_its_warehouse_by_the_name_that_it_has_there(
    server: tuple[str, list[tuple[str, str]], list[int]], tmp_path: Path
) -> None:
    address, asked, _ = server
    more = {"warehouse": "prod", "properties": {"prefix": "lake/prod"}}
    open_catalog(project(address, tmp_path, more)).list_namespaces()
    paths = [path for _, path in asked]
    assert paths == ["/v1/config?warehouse=prod", "/v1/lake/prod/namespaces"]


def test_address_that_is_no_catalog_is_a_terminal_error(
    server: tuple[str, list[tuple[str, str]], list[int]], tmp_path: Path
) -> None:
    address = f"{server[0]}/site"
    with pytest.raises(TerminalError, match=rf"{address} .*lake\.catalog\.uri"):
        open_catalog(project(address, tmp_path))


def test_a_rest_catalog_that_does_not_answer_is_not_waited_for_without_end(
    server: tuple[str, list[tuple[str, str]], list[int]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timeouts: list[Any] = []
    send = requests.adapters.HTTPAdapter.send

    def seen(self: Any, request: Any, **kwargs: Any) -> Any:
        timeouts.append(kwargs["timeout"])
        return send(self, request, **kwargs)

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", seen)
    open_catalog(project(server[0], tmp_path)).list_namespaces()
    assert set(timeouts) == {(restcatalog.CONNECT_SECONDS, restcatalog.READ_SECONDS)}


# Not every developer may install a server; in CI `make setup-tests` fails without one.
@pytest.mark.skipif(postgres.programs() is None, reason=postgres.MISSING)
def test_a_ledger_outlives_a_restart_of_its_database(tmp_path: Path) -> None:
    """A server of its own, gone in the middle of twelve claims and back seconds later."""
    keys = [f"f{n:02}" for n in range(12)]
    with postgres.server() as address:
        opened = open_catalog(project(address, tmp_path / "w"))
        ledger, won = with_tables(opened), []
        writer = threading.Thread(target=lambda: won.extend(claim(ledger, key) for key in keys))
        writer.start()
        while len(won) < 2:
            time.sleep(0.01)
        postgres.restart(address, down=3)
        assert len(won) < len(keys)
        writer.join()
        known = sorted(row.object_key for row in ledger.files.known().values())
        opened.engine.dispose()  # type: ignore[attr-defined]
    assert won == [[key] for key in keys]
    assert known == keys


def test_rows_that_are_committed_are_no_failure_if_the_table_cannot_be_tidied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = with_tables(open_catalog(embedded(tmp_path)))
    monkeypatch.setattr(appends, "COMPACT_AT", 1)
    monkeypatch.setattr(appends, "scan", failing(10_000, OSError("SLOW_DOWN")))
    assert [claim(ledger, key) for key in ("a", "b")] == [["a"], ["b"]]


@pytest.mark.skipif(postgres.programs() is None, reason=postgres.MISSING)
def test_a_ledger_leaves_a_server_that_became_a_standby(tmp_path: Path) -> None:
    """Its connections stay open and answer reads; only new ones reach the server that writes."""
    with postgres.server() as address:
        opened = open_catalog(project(address, tmp_path / "w"))
        ledger, engine = with_tables(opened), opened.engine  # type: ignore[attr-defined]
        with engine.connect() as pooled:
            pooled.exec_driver_sql("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
            pooled.commit()
        won = claim(ledger, "a")
        engine.dispose()
    assert won == ["a"]


def test_a_ledger_outlives_a_minute_in_which_its_database_only_reads(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = with_tables(open_catalog(embedded(tmp_path)))
    commit = Table._do_commit

    def after_a_minute(self: Table, *args: Any, **kwargs: Any) -> None:
        if clock.now < 60:
            raise internal("25006")
        commit(self, *args, **kwargs)

    monkeypatch.setattr(Table, "_do_commit", after_a_minute)
    assert claim(ledger, "a") == ["a"]


@pytest.mark.parametrize("code", [400, 404, 422])
def test_a_catalog_without_this_warehouse_or_path_is_a_terminal_error(
    server: tuple[str, list[tuple[str, str]], list[int]], tmp_path: Path, code: int
) -> None:
    server[2].append(code)
    with pytest.raises(
        TerminalError, match=rf"{server[0]} .*lake\.catalog\.uri.*catalog\.warehouse"
    ):
        open_catalog(project(server[0], tmp_path))


@pytest.mark.parametrize("code", [408, 421])
def test_an_answer_that_may_pass_is_worth_another_try(
    server: tuple[str, list[tuple[str, str]], list[int]], tmp_path: Path, code: int
) -> None:
    server[2].append(code)
    with pytest.raises(RESTError) as raised:
        open_catalog(project(server[0], tmp_path))
    assert type(as_sluice_error(raised.value)) is TransientError
