"""What `make demo` tells: two hours that load, what SQL then sees, and an hour that fails.

Every row shown is read from the lake; what the lake should hold is known from the shop itself.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from demo import dagrun, lake
from demo.engines import WRITERS
from demo.project import MAX_BAD_RECORDS, PIPELINES, garbage, land_hour, write_project
from demo.shop import OPENING, Shop

FOLDER: Final = dagrun.ROOT / "data" / "demo"
HOUR: Final = timedelta(hours=1)
CUSTOMERS, ORDERS, STATEMENTS = 300, 900, 700
REPEATED: Final = 60
GARBAGE: Final = 45
DRAWN_WIDTH: Final = 110
FAILING: Final = "shop_postgres"

console = Console()


class UnexpectedError(Exception):
    """Something is not as the shop says it should be."""


@dataclass
class Demo:
    """The project, the shop, and what was checked so far."""

    folder: Path
    shop: Shop
    airflow: dagrun.Airflow
    checked: int = 0

    def sluice(self, *arguments: str) -> str:
        """What a `sluice` command prints."""
        program = str(Path(sys.executable).with_name("sluice"))
        command = [program, *arguments, "--project", str(self.folder)]
        done = subprocess.run(
            command, cwd=dagrun.ROOT, capture_output=True, text=True, check=False,
            env=dagrun.environment(self.folder, self.folder / "airflow"),
        )  # fmt: skip
        if done.returncode != 0:
            raise UnexpectedError(
                f"sluice {arguments[0]} ended with {done.returncode}: {done.stderr}"
            )
        return done.stdout

    def check_rows(self) -> None:
        """Compare every target, row for row and value for value, with the shop."""
        found = lake.states(self.folder)
        for pipeline in PIPELINES:
            for table in self.shop.tables:
                self._check_table(f"{pipeline}.{table}", table, found)

    def _check_table(self, name: str, table: str, found: dict[str, lake.State]) -> None:
        expected, rows = self.shop.rows(table), found[name].rows if name in found else []
        if rows != expected:
            wrong = [(e, r) for e, r in zip(expected, rows, strict=False) if e != r][:3]
            raise UnexpectedError(
                f"{name} has {len(rows)} rows, the shop {len(expected)}; the first others: {wrong}"
            )
        self.checked += len(rows)


def load_hour(demo: Demo, hour: datetime, records: dict[str, list[Any]]) -> None:
    """Land what each engine wrote, then run the three DAGs; all must end green."""
    for fmt, _ in PIPELINES.values():
        files = land_hour(demo.folder, fmt, hour, records[fmt])
        size = sum(f.stat().st_size for f in files)
        say(f"  {fmt} landed {len(records[fmt]):,} records in {len(files)} files, {size:,} bytes")
    for pipeline in PIPELINES:
        run_pipeline(demo, pipeline, hour, "success")
    show_batches(demo)


def run_pipeline(demo: Demo, pipeline: str, hour: datetime, expected: str) -> None:
    """Run one DAG and require how it ends."""
    started = time.monotonic()
    with console.status(f"DAG sluice_{pipeline}: reconcile → land → load → publish"):
        outcome = demo.airflow.run(f"sluice_{pipeline}", hour + HOUR)
    if not outcome:
        raise UnexpectedError(f"Airflow stopped; its log is {demo.airflow.log}")
    colour = "green" if outcome["state"] == "success" else "red"
    order = ("reconcile", "land", "batch.load", "batch.publish", "batch.rollback")
    tasks = ", ".join(
        f"{name} {outcome['tasks'][task]}"
        for name in order
        for task in sorted(outcome["tasks"])
        if task.split("[")[0] == name
    )
    say(
        f"  DAG sluice_{pipeline}: [{colour}]{outcome['state']}[/{colour}] in "
        f"{time.monotonic() - started:.0f} s"
    )
    say(f"    [dim]{tasks}[/dim]")
    if outcome["state"] != expected:
        raise UnexpectedError(f"the run should have ended as {expected}; see {demo.airflow.log}")


def show_batches(demo: Demo) -> None:
    """What became of every record, from the ledger."""
    rows = json.loads(demo.sluice("status", "--limit", "1", "--json"))
    table = Table(title="last batch of each pipeline")
    shown = ("pipeline", "batch_id", "state", "read", "applied", "quarantined")
    for name in shown:
        table.add_column(name)
    for row in rows:
        table.add_row(*(str(row.get(name) or 0) for name in shown))
    console.print(table)


def show_sql(demo: Demo, title: str, statement: str) -> None:
    """A query and its answer, by `sluice sql`."""
    started = time.monotonic()
    lines = demo.sluice("sql", statement, "--format", "jsonl").splitlines()
    seconds = time.monotonic() - started
    rows = [json.loads(line) for line in lines]
    say(f'\n[bold]sluice sql[/bold] "{escape(statement)}"  [dim]({seconds:.1f} s)[/dim]')
    table = Table(title=title)
    for name in rows[0] if rows else []:
        table.add_column(name)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    console.print(table)


def say(text: str) -> None:
    """One line of the story."""
    console.print(text, highlight=False)


def headline(text: str) -> None:
    """A chapter."""
    console.rule(f"[bold]{text}")


def engines(changes: Sequence[Any]) -> dict[str, list[Any]]:
    """The same changes as each engine writes them."""
    return {fmt: write(list(changes)) for fmt, write in WRITERS.items()}


def first_hour(demo: Demo) -> list[Any]:
    """A full load and an hour of trade; returns what Debezium wrote, to repeat some of it."""
    headline("Hour 1: a full load, then an hour of trade")
    demo.shop.stock(CUSTOMERS, ORDERS)
    demo.shop.hour(OPENING, STATEMENTS)
    records = engines(demo.shop.take_log())
    load_hour(demo, OPENING, records)
    agree(demo)
    return records["debezium"]


def second_hour(demo: Demo, before: list[Any]) -> tuple[int, int]:
    """Updates, deletes, a change of a key, a new column; repeats and a broken line."""
    headline("Hour 2: updates, deletes, a changed key, a new column")
    hour = OPENING + HOUR
    demo.shop.hour(hour, STATEMENTS)
    old, new = demo.shop.renumber()
    demo.shop.add_coupons()
    records = engines(demo.shop.take_log())
    say(f"  order {old} is now order {new}; orders have a new column: coupon")
    say(f"  the Debezium connector restarts: its last {REPEATED} records come a second time")
    records["debezium"] = before[-REPEATED:] + records["debezium"]
    say("  one StreamX line is cut off in the middle")
    records["streamx"] += garbage(records["streamx"], 1)
    load_hour(demo, hour, records)
    agree(demo)
    return old, new


def agree(demo: Demo) -> None:
    """Say that all tables are as the shop has them."""
    demo.check_rows()
    tables = len(PIPELINES) * len(demo.shop.tables)
    counts = ", ".join(f"{len(rows):,} {table}" for table, rows in demo.shop.tables.items())
    say(
        f"  [green]✓[/green] {tables} tables equal the shop row for row and value for value "
        f"({counts})\n"
    )


def questions(demo: Demo, moved: tuple[int, int]) -> None:
    """SQL over what three pipelines loaded."""
    headline("SQL, without a JVM")
    each = " UNION ALL ".join(
        f"SELECT '{p}' AS pipeline, count(*) AS orders, sum(amount) AS revenue, "
        f"count(coupon) AS coupons FROM {p}.orders"
        for p in PIPELINES
    )
    show_sql(demo, "one shop, three engines, one answer", each)
    show_sql(
        demo,
        f"order {moved[0]} became order {moved[1]}",
        f"SELECT id, status, amount, placed_at FROM {FAILING}.orders WHERE id IN {moved}",
    )
    show_sql(
        demo,
        "revenue by city",
        f"SELECT c.city, count(*) AS orders, sum(o.amount) AS revenue FROM {FAILING}.orders o "
        f"JOIN {FAILING}.customers c ON c.id = o.customer_id GROUP BY c.city ORDER BY revenue DESC",
    )
    show_sql(
        demo,
        "what could not be read",
        "SELECT pipeline, reason, file, record FROM sluice.quarantine",
    )


def failing_hour(demo: Demo) -> None:
    """An hour with too many broken lines: the run is red, no table has moved."""
    headline("Hour 3: a writer runs out of disk")
    hour = OPENING + 2 * HOUR
    before = lake.states(demo.folder)
    demo.shop.hour(hour, STATEMENTS)
    records = engines(demo.shop.take_log())["debezium"]
    cut = garbage(records[: 3 * GARBAGE : 3], GARBAGE)
    say(f"  {len(records):,} good records, {len(cut)} cut off; allowed are {MAX_BAD_RECORDS}")
    land_hour(demo.folder, PIPELINES[FAILING][0], hour, records + cut)
    run_pipeline(demo, FAILING, hour, "failed")
    show_reason(demo)
    same_as(before, lake.states(demo.folder))


def show_reason(demo: Demo) -> None:
    """What the ledger says of the failed batch."""
    last = json.loads(demo.sluice("status", FAILING, "--limit", "1", "--json"))[0]
    say(f"  batch {last['batch_id']} is {last['state']}: [red]{escape(str(last['error']))}[/red]")


def same_as(before: dict[str, lake.State], after: dict[str, lake.State]) -> None:
    """Show every target's snapshot before and after; require snapshot, schema, rows to be equal."""
    table = Table(title="the targets before and after the failed run")
    for name in ("table", "snapshot before", "snapshot after", "rows before", "rows after"):
        table.add_column(name)
    for name, was in before.items():
        now = after[name]
        table.add_row(
            name, str(was.snapshot), str(now.snapshot), str(len(was.rows)), str(len(now.rows))
        )
    console.print(table)
    if before != after:
        raise UnexpectedError("the failed run changed a table")
    say("  [green]✓[/green] nothing has moved: same snapshots, same schemas, same rows\n")


def draw_from_here() -> None:
    """Record what is printed from now on, for `--svg`."""
    console.width = DRAWN_WIDTH
    console.record = True


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line's options."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument(
        "--svg", type=Path, metavar="FILE", help="draw the SQL and the failing hour in this file"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Tell the story; 1 when anything was not as it should be."""
    svg = options(arguments).svg
    started = time.monotonic()
    write_project(FOLDER)
    say("One shop. Debezium, Google Datastream and StreamX each write down its changes; Sluice")
    say(f"loads them into Iceberg, in {FOLDER.relative_to(dagrun.ROOT)}. A few minutes.\n")
    try:
        with dagrun.Airflow(FOLDER) as airflow:
            demo = Demo(FOLDER, Shop(), airflow)
            before = first_hour(demo)
            moved = second_hour(demo, before)
            if svg:
                draw_from_here()
            questions(demo, moved)
            failing_hour(demo)
    except UnexpectedError as surprise:
        console.print(f"[bold red]{escape(str(surprise))}[/bold red]", highlight=False)
        return 1
    if svg:
        console.save_svg(str(svg), title="make demo")
    say(f"{demo.checked:,} rows compared; {time.monotonic() - started:.0f} s in all. Look around:")
    say(f"  .venv/bin/sluice status --project {FOLDER.relative_to(dagrun.ROOT)}")
    return 0
