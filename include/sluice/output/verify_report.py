"""Reports of a verification: text, and one self-contained HTML page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from sluice.catalog.failures import error_text
from sluice.counting import counted
from sluice.errors import ConfigError
from sluice.escaping import shown
from sluice.objects.store import LocalStore
from sluice.operations.verify import differences_in_words
from sluice.output.terminal import for_terminal, print_line
from sluice.verification import (
    BUCKETS,
    Comparison,
    Difference,
    Row,
    TableReport,
    Verification,
)

_HEADINGS: Final = ("table", "expected", "found", "differing keys", "result")
_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { border: 1px solid #ccc; padding: .3rem .6rem; text-align: left; vertical-align: top;
         overflow-wrap: anywhere; }
.counts td:nth-child(n+2):nth-child(-n+4) { text-align: right; }
.ok { color: #17692c; } .bad { color: #b01818; font-weight: 600; }
mark { background: #ffe08a; }
"""


def refuse_unwritable_page(page: Path | None) -> None:
    """Raise ConfigError if no page can be written there, before a verification takes its time."""
    if page is None:
        return
    there = page if _is_device(page) else page.resolve().parent
    if page.is_dir() or not os.access(there, os.W_OK):
        raise ConfigError(f"--html: {page} cannot be written; name a file in a folder that exists")


def write(page: Path | None, report: Verification, say: Callable[[str], None]) -> None:
    """Write the report's page, as a whole or not at all.

    `say` reports that it is not written, since the caller may end with another error before it
    reports this one.
    """
    if page is None:
        return
    content = as_html(report).encode()
    try:
        if _is_device(page):
            page.write_bytes(content)
        else:
            LocalStore(page.resolve().parent).put(page.resolve().name, content)
    except OSError as error:
        say(f"verify: {page} is not written: {error_text(error)}")
        raise


def _is_device(page: Path) -> bool:
    """Whether the path exists and is not a file, such as /dev/stdout: no file may replace it."""
    return page.exists() and not page.is_file()


def for_html(text: str) -> str:
    """Return text escaped for HTML."""
    return escape(shown(text))


def show(console: Console, report: Verification) -> None:
    """Show one line per table, then the differing keys with expected and found rows."""
    listed = Table(title=for_terminal(f"{report.pipeline}: {_beside(report)} ({report.seconds} s)"))
    for heading in _HEADINGS:
        right = heading not in ("table", "result")
        listed.add_column(heading, justify="right" if right else "left", overflow="fold")
    for comparison in _comparisons(report):
        style = "green" if comparison.agrees else "bold red"
        *cells, result = _cells(comparison)
        listed.add_row(*map(for_terminal, cells), f"[{style}]{for_terminal(result)}[/{style}]")
    nothing = f"{for_terminal(report.pipeline)}: no table is published yet"
    console.print(listed if report.tables else nothing)
    for line in _remarks(report):
        print_line(console, line)
    for comparison in _comparisons(report):
        _show_keys(console, comparison)


def _show_keys(console: Console, comparison: Comparison) -> None:
    if comparison.agrees:
        return
    table = f"[bold]{for_terminal(comparison.table)}[/bold]"
    heading = f"\n{table}: {for_terminal(_extent(comparison))}"
    console.print(heading, highlight=False, soft_wrap=True)
    for difference in comparison.shown:
        columns = f" in {', '.join(difference.columns)}" if difference.columns else ""
        print_line(console, f"  {difference.kind}{columns}")
        for side, row in _sides(difference):
            print_line(console, f"    {side}: {_spelled(row)}")


def as_html(report: Verification) -> str:
    """Return the report as a page, with every value escaped."""
    result = _result(report.agrees, "every table agrees", "differences")
    notes = "".join(f"<p>{for_html(line)}</p>" for line in _remarks(report))
    rows = (
        [*(for_html(cell) for cell in cells), _result(comparison.agrees, result, result)]
        for comparison in _comparisons(report)
        for *cells, result in [_cells(comparison)]
    )
    title = for_html(f"sluice verify {report.pipeline}")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{title}: {result}</h1>"
        f"<p>{for_html(report.at)}, {for_html(_beside(report))}, in {report.seconds} s</p>"
        f"{notes}{_html_table(_HEADINGS, rows, kind='counts')}"
        f"{''.join(_html_keys(c) for c in _comparisons(report) if not c.agrees)}</body></html>\n"
    )


def _html_keys(comparison: Comparison) -> str:
    rows = (
        [for_html(d.kind), _html_row(d.expected, d.columns), _html_row(d.found, d.columns)]
        for d in comparison.shown
    )
    heading = f"<h2>{for_html(comparison.table)}</h2><p>{for_html(_extent(comparison))}</p>"
    return heading + _html_table(("", "expected", "found"), rows)


def _html_row(row: Row | None, marked: Iterable[str]) -> str:
    if row is None:
        return "no row"
    lines = (
        f"<mark>{for_html(line)}</mark>" if name in marked else for_html(line)
        for name, line in ((name, f"{name}: {_value(value)}") for name, value in row.items())
    )
    return "<br>".join(lines)


def _html_table(headings: Iterable[str], rows: Iterable[Iterable[str]], kind: str = "rows") -> str:
    """Return a table; the cells are HTML already."""
    head = "".join(f"<th>{for_html(h)}</th>" for h in headings)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<table class="{kind}"><tr>{head}</tr>{body}</table>'


def _result(agrees: bool, good: str, bad: str) -> str:
    return f'<span class="{"ok" if agrees else "bad"}">{for_html(good if agrees else bad)}</span>'


def _beside(report: Verification) -> str:
    batches = counted(report.batches, "published batch")
    if report.source is not None:
        return f"{batches} beside {report.source}"
    return f"{batches} recomputed"


def _comparisons(report: Verification) -> list[Comparison]:
    return [comparison for table in report.tables for comparison in table.comparisons]


def _cells(comparison: Comparison) -> tuple[str, ...]:
    numbers = (comparison.expected, comparison.found, comparison.differing)
    result = "agrees" if comparison.agrees else differences_in_words(comparison)
    return (comparison.table, *(f"{n:,}" for n in numbers), result)


def _remarks(report: Verification) -> list[str]:
    return [
        *report.notes,
        *(line for table in report.tables for line in _of_table(table)),
    ]


def _of_table(table: TableReport) -> list[str]:
    lines = []
    if table.floor is not None:
        lines.append(f"{table.target}: only what is above its floor {table.floor} is compared")
    if table.foreign:
        listed = ", ".join(table.foreign)
        lines.append(f"{table.target}: no batch wrote these snapshots of main: {listed}")
    return lines


def _extent(comparison: Comparison) -> str:
    at = "main is empty" if comparison.snapshot is None else f"main at {comparison.snapshot}"
    listed = f"{len(comparison.shown)} of {counted(comparison.differing, 'differing key')}"
    return f"{at}; {comparison.buckets} of {BUCKETS} key ranges differ; {listed}"


def _sides(difference: Difference) -> tuple[tuple[str, Row | None], ...]:
    return ("expected", difference.expected), ("found", difference.found)


def _spelled(row: Row | None) -> str:
    if row is None:
        return "no row"
    return ", ".join(f"{name}={_value(value)}" for name, value in row.items())


def _value(value: str | None) -> str:
    return "NULL" if value is None else value
