"""`make bench`: the floor, the hand-written ways and Sluice, side by side in one run.

usage: python -m bench [ROWS] [EVENTS] [--ways floor,cow,mor,sluice]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import sluice_way, workload
from bench.ways import WAYS, Timing, session


def main() -> int:
    """Generate the workload, time every way in a process of its own, print what was measured."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("rows", nargs="?", type=int, default=1_000_000)
    parser.add_argument("events", nargs="?", type=int, default=200_000)
    parser.add_argument("--ways", default="floor,cow,mor,sluice")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help="keep the workload here")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(asdict(_one(given.one, given.work, given.rows, given.events))))
        return 0
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as temporary:
        work = given.work or Path(temporary)
        if not (work / "events").exists():
            _child("workload", work, given)
        timings = [_child(way, work, given) for way in given.ways.split(",")]
    _show(timings, given.rows, given.events)
    return 0 if _same(timings) else 1


def _child(way: str, work: Path, given: argparse.Namespace) -> Timing:
    print(f"{way} …", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "bench", str(given.rows), str(given.events)]
    done = subprocess.run(
        [*command, "--one", way, "--work", str(work)], stdout=subprocess.PIPE, check=True
    )
    return Timing(**json.loads(done.stdout.splitlines()[-1]))


def _one(way: str, work: Path, rows: int, events: int) -> Timing:
    with tempfile.TemporaryDirectory(prefix=f"sluice-bench-{way}-") as temporary:
        out = Path(temporary)
        if way == "workload":
            workload.make(session(out), work, rows, events)
            return Timing(way, 0.0)
        if way == "sluice":
            return sluice_way.timed(work, sluice_way.prepare(work, out))
        return WAYS[way](session(out), work, out)


def _same(timings: list[Timing]) -> bool:
    return len({(t.rows, t.hash) for t in timings if t.hash is not None}) <= 1


def _show(timings: list[Timing], rows: int, events: int) -> None:
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    parts = ", ".join(f"{name} {version(name)}" for name in ("pyspark", "pyiceberg", "sluice"))
    table = Table(title=f"{events:,} events on {rows:,} rows ({machine}; {parts})")
    for name in ("way", "seconds", "of which start-up", "rows", "result hash"):
        table.add_column(name, justify="left" if name == "way" else "right")
    for t in timings:
        shown = [f"{t.seconds:.1f}", f"{t.startup:.1f}" if t.startup else "not counted"]
        table.add_row(t.way, *shown, _text(t.rows), _text(t.hash))
    Console(width=120).print(table)
    print("results are equal" if _same(timings) else "RESULTS DIFFER")
    print("single runs on a shared machine: compare ratios within one run, not seconds across runs")


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


if __name__ == "__main__":
    sys.exit(main())
