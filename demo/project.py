"""The demo's project folder: its YAML, and the files that the engines land."""

from __future__ import annotations

import gzip
import json
import random
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from demo.shop import SEED

FILES_AN_HOUR: Final = 3
MAX_BAD_RECORDS: Final = 20

SLUICE_YAML: Final = """\
lake:
  catalog: {type: jdbc, uri: "sqlite:///catalog.db"}
  warehouse: warehouse
spark: {master: "local[2]", conf: {spark.sql.shuffle.partitions: 2}}
"""
_COMMON: Final = """\
name: NAME
format: FORMAT
namespace: NAME
landing: {url: landing/FORMAT, pattern: "dt=*/hr=*/*.jsonl*"}
"""
# Debezium's schemas say everything; the others need a word about types that JSON has not.
PIPELINES: Final[dict[str, tuple[str, str]]] = {
    "shop_postgres": ("debezium", f"max_bad_records: {MAX_BAD_RECORDS}\n"),
    "shop_mysql": (
        "datastream",
        """\
tables:
  shop.customers: {columns: {id: int, member_since: date}}
  shop.orders:
    columns:
      {id: int, customer_id: int, amount: "decimal(10,2)", express: boolean,
       placed_at: timestamp_ntz}
""",
    ),
    "shop_dataworks": (
        "streamx",
        """\
tables:
  shop.customers: {columns: {member_since: "date[ms]"}}
  shop.orders: {columns: {amount: "decimal(10,2)", placed_at: "timestamp_ntz[ms]"}}
""",
    ),
}


def write_project(folder: Path) -> None:
    """Make the folder anew, with `sluice.yaml` and a pipeline for each engine."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "pipelines").mkdir(parents=True)
    (folder / "sluice.yaml").write_text(SLUICE_YAML)
    for name, (fmt, rest) in PIPELINES.items():
        text = _COMMON.replace("NAME", name).replace("FORMAT", fmt) + rest
        (folder / "pipelines" / f"{name}.yaml").write_text(text)
        (folder / "landing" / fmt).mkdir(parents=True)


def land_hour(folder: Path, fmt: str, hour: datetime, records: Sequence[Any]) -> list[Path]:
    """Write an hour's records as an engine's files, some of them compressed."""
    lines = [r if isinstance(r, str) else json.dumps(r, ensure_ascii=False) for r in records]
    size = -(-len(lines) // FILES_AN_HOUR)
    parts = [lines[at : at + size] for at in range(0, len(lines), size)]
    where = folder / "landing" / fmt / f"dt={hour:%Y-%m-%d}" / f"hr={hour:%H}"
    where.mkdir(parents=True)
    return [_write_part(where, number, part) for number, part in enumerate(parts)]


def _write_part(where: Path, number: int, lines: Sequence[str]) -> Path:
    data = "".join(f"{line}\n" for line in lines).encode()
    path = where / f"part-{number}.jsonl{'.gz' if number % 2 else ''}"
    path.write_bytes(gzip.compress(data, mtime=0) if number % 2 else data)
    return path


def garbage(records: Sequence[Any], count: int) -> list[str]:
    """Lines cut off in the middle, as a writer leaves them that ran out of disk."""
    dice = random.Random(SEED)
    lines = [json.dumps(r, ensure_ascii=False) for r in records[:count]]
    return [line[: dice.randint(20, len(line) - 20)] for line in lines]
