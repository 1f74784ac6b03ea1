"""The parameters of the DAGs' forms, with their limits."""

from __future__ import annotations

from typing import Final

from airflow.sdk import Param

from sluice.manifest import BATCH_ID_PATTERN
from sluice.operations.maintenance import DEFAULT_BUDGET_MINUTES

# Limits: S3's longest key, three names of 128 characters, a reason of a few lines.
LONGEST_KEY: Final = 1024
LONGEST_NAME: Final = 400
LONGEST_REASON: Final = 500
MOST_FILES: Final = 1000
MOST_TABLES: Final = 500


def load_form() -> dict[str, Param]:
    """Return the parameters that select files and tables of a run by hand."""
    return {
        "window_start": Param(
            None,
            type=["null", "string"],
            format="date-time",
            title="From (hour of the files)",
            description="Load exactly the files of this window, late ones too; with 'To'.",
        ),
        "window_end": Param(
            None, type=["null", "string"], format="date-time", title="To (not included)"
        ),
        "files": _lines(
            "Files",
            "Load exactly these object keys below the landing folder, one per line.",
            LONGEST_KEY,
            MOST_FILES,
        ),
        "tables": _lines(
            "Tables",
            "Only these source tables, one per line; files already loaded are read again. The files"
            " stay free for other runs.",
            LONGEST_NAME,
            MOST_TABLES,
        ),
        "changed": tick("Changed files", "Also load files that changed after they were loaded."),
        "dry_run": tick(
            "Dry run", "List in the log of `land` what would be taken, without taking it."
        ),
    }


def maintenance_form(names: list[str]) -> dict[str, Param]:
    """Return the parameters of maintenance: which pipelines, for how long, or a dry run."""
    return {
        "pipelines": Param(
            None,
            type=["null", "array"],
            items={"type": "string", "enum": names},
            title="Pipelines",
            description="None: all pipelines.",
        ),
        "budget": Param(
            DEFAULT_BUDGET_MINUTES,
            type="number",
            minimum=0,
            title="Minutes",
            description="After these no new work begins; the next run goes on from there.",
        ),
        "dry_run": tick("Dry run", "Show what would be done, without doing it."),
    }


def one_of(title: str, names: list[str]) -> Param:
    """Return a required choice among names; without any, a free text."""
    if not names:
        return Param(type="string", minLength=1, title=title)
    return Param(type="string", enum=names, title=title)


def tick(title: str, description: str) -> Param:
    """Return a checkbox that is off by default."""
    return Param(False, type="boolean", title=title, description=description)


def _lines(title: str, description: str, longest: int, most: int) -> Param:
    """Return an optional list of text lines."""
    return Param(
        None,
        type=["null", "array"],
        items={"type": "string", "maxLength": longest},
        maxItems=most,
        title=title,
        description=description,
    )


def line_of_text(title: str, description: str, longest: int) -> Param:
    """Return an optional line of text."""
    return Param(
        None, type=["null", "string"], maxLength=longest, title=title, description=description
    )


def batch_id(title: str, description: str) -> Param:
    """Return an optional batch id."""
    return Param(
        None,
        type=["null", "string"],
        pattern=BATCH_ID_PATTERN,
        title=title,
        description=description,
    )
