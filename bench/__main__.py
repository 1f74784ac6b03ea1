"""`make bench`: the floor, the hand-written ways and Sluice, side by side in one run.

usage: python -m bench [ROWS] [EVENTS] [--ways floor,cow,mor,sluice]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import sluice_way, workload
from bench.report import measured_on
from bench.ways import WAYS, session

SLUICE = "sluice"
_WORKLOAD = "workload"
_PREPARE, _APPLY, _RESULT = "prepare", "apply", "result"


@dataclass(frozen=True)
class Timing:
    """What one way took, in seconds, and what identifies its result; no hash if nothing merged."""

    title: str
    process: float
    batch: float
    rows: int | None = None
    hash: int | None = None


def main() -> int:
    """Generate the workload, time every way in processes of its own, print what was measured."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("rows", nargs="?", type=int, default=1_000_000)
    parser.add_argument("events", nargs="?", type=int, default=200_000)
    parser.add_argument("--ways", default=f"floor,cow,mor,{SLUICE}")
    parser.add_argument("--work", type=Path, help="keep the workload here")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        way, step, out = given.child
        print(json.dumps(_step(way, step, given, Path(out))))
        return 0
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as temporary:
        given.work = given.work or Path(temporary) / _WORKLOAD
        if not (given.work / "events").exists():
            _child(_WORKLOAD, _PREPARE, given, given.work)
        places = {way: Path(temporary) / way for way in given.ways.split(",")}
        for way, out in places.items():
            print(f"{way}: target …", file=sys.stderr, flush=True)
            out.mkdir(parents=True)
            _child(way, _PREPARE, given, out)
        timings = [_timed(way, given, out) for way, out in places.items()]
    _show(timings, given.rows, given.events)
    return 0 if _same(timings) else 1


def _timed(way: str, given: argparse.Namespace, out: Path) -> Timing:
    """Target, batch and result are each a process; the batch's is timed from start to exit.

    All targets are there before the first batch: who has just made a large one runs on a slower
    machine for a while.
    """
    print(f"{way}: batch …", file=sys.stderr, flush=True)
    started = time.perf_counter()
    batch = sluice_way.apply(out) if way == SLUICE else _child(way, _APPLY, given, out)
    process = time.perf_counter() - started
    title = "sluice run" if way == SLUICE else WAYS[way].title
    return Timing(title, process, batch, *(_child(way, _RESULT, given, out) or ()))


def _child(way: str, step: str, given: argparse.Namespace, out: Path) -> Any:
    """What a step answers, from a process of its own."""
    command = [sys.executable, "-m", "bench", str(given.rows), str(given.events)]
    command += ["--work", str(given.work), "--child", way, step, str(out)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def _step(
    way: str, step: str, given: argparse.Namespace, out: Path
) -> float | tuple[int, int] | None:
    """The seconds of a batch that is applied, rows and hash of a result, or nothing to tell."""
    if step == _PREPARE:
        _prepare(way, given, out)
        return None
    if way == SLUICE:
        return sluice_way.result(out)
    spark = session(out)
    return WAYS[way].result(spark) if step == _RESULT else WAYS[way].apply(spark, given.work, out)


def _prepare(way: str, given: argparse.Namespace, out: Path) -> None:
    if way == SLUICE:
        sluice_way.prepare(given.work, out)
    elif way == _WORKLOAD:
        workload.make(session(out), given.work, given.rows, given.events)
    else:
        WAYS[way].prepare(session(out), given.work)


def _same(timings: list[Timing]) -> bool:
    return len({(t.rows, t.hash) for t in timings if t.hash is not None}) <= 1


def _show(timings: list[Timing], rows: int, events: int) -> None:
    measured = measured_on("pyspark", "pyiceberg", "sluice")
    table = Table(title=f"{events:,} events on {rows:,} rows ({measured})")
    for name in ("way", "whole process, s", "in the session, s", "rows", "result hash"):
        table.add_column(name, justify="left" if name == "way" else "right")
    for t in timings:
        seconds = (f"{t.process:.1f}", f"{t.batch:.1f}")
        table.add_row(t.title, *seconds, _text(t.rows), _text(t.hash))
    Console(width=120).print(table)
    print("results are equal" if _same(timings) else "RESULTS DIFFER")
    print("single runs on a shared machine: compare ratios within one run, not seconds across runs")


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


if __name__ == "__main__":
    sys.exit(main())
