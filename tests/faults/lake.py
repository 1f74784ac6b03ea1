"""A lake of several tables at one moment, which can be restored to that moment."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from pyiceberg.catalog import Catalog

from sluice.catalog.client import open_catalog
from sluice.config.project import load_project
from sluice.environment import ENV_FAULT
from sluice.names import OWN_COLUMNS
from sluice.operations.context import Context, open_context

SLUICE: Final = str(Path(sys.executable).parent / "sluice")
PATIENCE_SECONDS: Final = 900
PROJECT: Final = """lake:
  catalog: {type: jdbc, uri: "sqlite:///data/catalog.db"}
  warehouse: data/warehouse
spark: {master: "local[2]", conf: {spark.driver.memory: 1g, spark.sql.shuffle.partitions: "2"}}
"""
PIPELINE: Final = """name: shop
format: debezium
landing: {url: landing, pattern: "**/*.jsonl*"}
namespace: shop
tables:
  shop.orders: {key: [id], columns: {id: int, total: "decimal(9,2)"}}
  shop.customers: {key: [id], columns: {id: int}, modes: [soft_delete, history, append]}
  shop.visits: {key: [], columns: {at: int}}
"""


def _place(table: str, pos: int) -> dict[str, Any]:
    """Where MySQL's log has an event."""
    return {
        "connector": "mysql", "db": "shop", "table": table,
        "file": "mysql-bin.000007", "pos": pos, "row": 0, "ts_ms": 1_760_000_000_000 + pos,
    }  # fmt: skip


def event(op: str, table: str, pos: int, after: Any = None, before: Any = None) -> str:
    """One change as Debezium writes it without schema."""
    return json.dumps({"before": before, "after": after, "source": _place(table, pos), "op": op})


def statement(table: str, pos: int, text: str) -> str:
    """One DDL statement as Debezium writes it to the topic of schema changes."""
    place = {"source": _place(table, pos), "databaseName": "shop"}
    return json.dumps({**place, "ddl": f"ALTER TABLE {table} {text}", "tableChanges": []})


def first_hour() -> list[str]:
    """The events that are loaded before a test begins."""
    orders = [event("c", "orders", k, {"id": k, "total": "1.00"}) for k in range(1, 41)]
    customers = [event("c", "customers", 50 + k, {"id": k, "name": f"c{k}"}) for k in range(1, 9)]
    return orders + customers + [event("c", "visits", 70 + k, {"at": k % 3}) for k in range(9)]


def second_hour() -> list[str]:
    """Updates, deletes, a key that changes, a new column, a late event, statements that add,
    rename and comment columns, a record that cannot be read."""
    return [
        *(event("u", "orders", 100 + k, {"id": k, "total": "2.50"}) for k in range(1, 11)),
        *(event("d", "orders", 120 + k, before={"id": k, "total": "1.00"}) for k in range(20, 25)),
        event("u", "orders", 150, {"id": 99, "total": "9.00"}, {"id": 30, "total": "1.00"}),
        event("u", "orders", 3, {"id": 40, "total": "0.01"}),
        event("u", "customers", 160, {"id": 1, "name": "one", "city": "Basel"}),
        event("d", "customers", 161, before={"id": 2, "name": "c2"}),
        *(event("c", "visits", 170 + k, {"at": k}) for k in range(4)),
        event("d", "visits", 180, before={"at": 1}),
        statement("orders", 182, "ADD COLUMN note VARCHAR(20) DEFAULT 'none' COMMENT 'by hand'"),
        statement("customers", 183, "RENAME COLUMN name TO full_name"),
        event("u", "orders", 184, {"id": 11, "total": "3.00", "note": "gift"}),
        event("u", "customers", 185, {"id": 3, "full_name": "three", "city": None}),
        '{"this is": "cut',
    ]


@dataclass(frozen=True)
class Contents:
    """The content of a lake, without what differs from one attempt to the next.

    `keys`: the identifier fields of its tables; `columns`: their columns, with types and comments.
    """

    rows: dict[str, list[str]]
    states: dict[str, str]
    keys: dict[str, set[str]]
    columns: dict[str, list[str]]


@dataclass(frozen=True)
class Lake:
    """A project in a folder. Tables know absolute paths, so it is restored in the same place."""

    root: Path

    @classmethod
    def make(cls, root: Path, more: str = "") -> Lake:
        """Create a project with its first hour landed; `more`: further lines of the
        pipeline's file."""
        (root / "pipelines").mkdir(parents=True)
        (root / "landing").mkdir()
        (root / "sluice.yaml").write_text(PROJECT)
        (root / "pipelines" / "shop.yaml").write_text(PIPELINE + more)
        lake = cls(root)
        lake.land("dt=2026-03-01/hr=00/a.jsonl", first_hour())
        return lake

    def land(self, key: str, events: Iterable[str]) -> None:
        """Write a file into the landing folder."""
        path = self.root / "landing" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{e}\n" for e in events))

    def land_cut(self, key: str, events: Iterable[str]) -> None:
        """Write a compressed file whose last bytes are cut off, so that landing has
        to decode it."""
        self.land(key, [])
        whole = gzip.compress("".join(f"{e}\n" for e in events).encode(), mtime=0)
        (self.root / "landing" / key).write_bytes(whole[:-6])

    def land_second_hour(self) -> None:
        """Land two files, of which landing has to decode one, and hint two wider types, of which
        Iceberg promotes one."""
        pipeline = self.root / "pipelines" / "shop.yaml"
        wider = pipeline.read_text().replace("{at: int}", "{at: bigint}")
        pipeline.write_text(wider.replace("decimal(9,2)", "decimal(12,3)"))
        self.land("dt=2026-03-01/hr=01/b.jsonl", second_hour())
        self.land_cut("dt=2026-03-01/hr=01/c.jsonl.gz", second_hour()[:30])

    def save(self, name: str) -> None:
        """Save the present state under a name."""
        shutil.copytree(self.root, self._saved(name))

    def restore(self, name: str) -> None:
        """Restore a saved state."""
        shutil.rmtree(self.root)
        shutil.copytree(self._saved(name), self.root)

    def _saved(self, name: str) -> Path:
        return self.root.with_name(f"{self.root.name}.{name}")

    def start(self, *arguments: str, fault: str = "") -> subprocess.Popen[str]:
        """Start a command on the project in a session of its own."""
        return subprocess.Popen(
            [SLUICE, *arguments, "--project", str(self.root)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
            env={**os.environ, **({ENV_FAULT: fault} if fault else {})},
        )  # fmt: skip

    def command(self, *arguments: str, fault: str = "") -> tuple[int, str]:
        """Run a command to its end."""
        return finish(self.start(*arguments, fault=fault))

    def context(self) -> Context:
        """The context of the stages."""
        return open_context(self.root, "shop")

    def contents(self) -> Contents:
        """All rows of all tables of the pipeline, the quarantine, and the states of the batches."""
        catalog = open_catalog(load_project(self.root))
        named = [*catalog.list_tables("shop"), *catalog.list_tables("shop__cdc")]
        rows = {".".join(name): sorted(map(repr, _all(catalog, name))) for name in named}
        bad = _all(catalog, ("sluice", "quarantine"))
        kept = ("batch_id", "reason", "file", "record", "raw")
        rows["quarantine"] = sorted(repr([row.get(c) for c in kept]) for row in bad)
        ledger = self.context().ledger
        schemas = {".".join(name): catalog.load_table(name).schema() for name in named}
        keys = {name: schema.identifier_field_names() for name, schema in schemas.items()}
        columns = {
            name: sorted(f"{field.name} {field.field_type} {field.doc}" for field in schema.fields)
            for name, schema in schemas.items()
        }
        return Contents(rows, {b.batch_id: b.state for b in ledger.batches.all()}, keys, columns)

    def leftovers(self) -> list[str]:
        """Branches, columns of an unfinished change of type, scratch files, staged files, and
        manifests of batches that the ledger does not have."""
        catalog = open_catalog(load_project(self.root))
        found = [
            f"{'.'.join(name)}: {left}"
            for space in ("shop", "shop__cdc")
            for name in catalog.list_tables(space)
            for table in [catalog.load_table(name)]
            for left in (*table.metadata.refs, *table.schema().column_names)
            if left.startswith(("batch_", f"{OWN_COLUMNS}wider"))
        ]
        batches = {b.batch_id for b in self.context().ledger.batches.all()}
        files = self.root / "data" / "warehouse" / "_sluice" / "shop"
        for path in sorted(p for p in files.rglob("*") if p.is_file()):
            owner = path.relative_to(files).parts[0]
            known = owner in batches and path.name.startswith(("manifest", "result"))
            found += [] if known else [str(path.relative_to(files))]
        return found


def _all(catalog: Catalog, name: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows of a table without NULL values, since a column that a dead attempt added is NULL
    until the batch is loaded, and without the places of decimals, of which it may have added some.
    """
    rows = catalog.load_table(name).scan().to_arrow().to_pylist()
    return [
        {
            column: v.normalize() if isinstance(v, Decimal) else v
            for column, v in row.items()
            if v is not None
        }
        for row in rows
    ]


def finish(process: subprocess.Popen[str], patience: float = PATIENCE_SECONDS) -> tuple[int, str]:
    """Wait for a process; return its exit code and its output."""
    printed, _ = process.communicate(timeout=patience)
    return process.returncode, printed


def descendants(pid: int) -> list[int]:
    """All processes below a process, the deepest last."""
    found: list[int] = []
    for child in _children(pid):
        found += [child, *descendants(child)]
    return found


def _children(pid: int) -> list[int]:
    try:
        tasks = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:  # it has just ended
        return []
    return [int(child) for line in tasks for child in line.split()]


def kill(pids: Iterable[int]) -> None:
    """End processes at once."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
