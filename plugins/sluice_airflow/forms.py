"""The parameters of the DAGs' forms, with their limits."""

from __future__ import annotations

from typing import Any, Final

from airflow.sdk import Param

from sluice.manifest import BATCH_ID_PATTERN
from sluice.operations.maintenance import DEFAULT_BUDGET_MINUTES

# Limits: S3's longest key, three names of 128 characters, a reason of a few lines.
LONGEST_KEY: Final = 1024
LONGEST_NAME: Final = 400
LONGEST_REASON: Final = 500
MOST_FILES: Final = 1000
MOST_TABLES: Final = 500


_CLOCK: Final = "Hours of files are UTC; this field has the time zone that Airflow's page shows."
# A DAG that stays paused would not begin the dry run either.
_PAUSED: Final = (
    "Not in a DAG that is paused: *Unpause … on trigger* switches it on, and its schedule begins at"
    " once."
)


def load_form() -> dict[str, Param]:
    """Return the parameters that select files and tables of a run by hand."""
    return {
        "window_start": _moment(
            "From (hour of the files)",
            f"Load exactly the files of this window, late ones too; with 'To'. {_CLOCK}",
        ),
        "window_end": _moment(
            "To (not included)", f"The hour after the last one; with 'From'. {_CLOCK}"
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
            "Dry run",
            f"List in the log of `land` what would be taken, without taking it. {_PAUSED}"
            " `sluice plan` lists the same.",
        ),
    }


def maintenance_form(names: list[str]) -> dict[str, Param]:
    """Return the parameters of maintenance: which pipelines, for how long, or a dry run."""
    return {
        "pipelines": _field(
            None,
            "Pipelines",
            "Empty: all pipelines.",
            type=["null", "array"],
            items={"type": "string", "enum": names},
            examples=names,
        ),
        "budget": _field(
            DEFAULT_BUDGET_MINUTES,
            "Minutes",
            "After these no new work begins; the next run goes on from there.",
            type="number",
            minimum=0,
        ),
        "dry_run": tick(
            "Dry run",
            f"Show what would be done, without doing it. {_PAUSED} `sluice maintain --dry-run`"
            " shows the same.",
        ),
    }


def pipeline_choice(names: list[str]) -> Param:
    """Return a required choice among pipelines; without any, a free text."""
    schema = {"enum": names} if names else {"minLength": 1}
    about = "The operation is for this pipeline alone."
    return Param(title="Pipeline", description_md=about, type="string", **schema)


def tick(title: str, description: str) -> Param:
    """Return a checkbox that is off by default.

    Airflow marks it as required unless its type includes null.
    """
    return _field(False, title, description, type=["null", "boolean"])


def line_of_text(title: str, description: str, longest: int) -> Param:
    """Return an optional line of text."""
    return _field(None, title, description, type=["null", "string"], maxLength=longest)


def batch_id(title: str, description: str) -> Param:
    """Return an optional batch id."""
    return _field(None, title, description, type=["null", "string"], pattern=BATCH_ID_PATTERN)


def _moment(title: str, description: str) -> Param:
    return _field(None, title, description, type=["null", "string"], format="date-time")


def _lines(title: str, description: str, longest: int, most: int) -> Param:
    """Return an optional list of text lines."""
    items = {"type": "string", "maxLength": longest}
    return _field(None, title, description, type=["null", "array"], items=items, maxItems=most)


def _field(default: Any, title: str, description: str, **schema: Any) -> Param:
    """Return a field; its description is Markdown, for `description` would show its backticks."""
    return Param(default, title=title, description_md=description, **schema)
