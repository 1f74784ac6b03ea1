"""The documents' examples: the files that they name, and the rows that these give.

A page's section `Example` has fenced blocks and tables. The line above a block names, in
backquotes, the project's file that the block shows; for Python the line names the command that runs
it. The line above a table names the table of the lake whose rows it shows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FORMATS: Final = ROOT / "docs" / "formats"
INDEX: Final = FORMATS / "README.md"
README: Final = ROOT / "README.md"
PAGES: Final = tuple(sorted(page.stem for page in FORMATS.glob("*.md") if page != INDEX))
_SECTION: Final = re.compile(r"^## Example\n(.*?)(?=^## |\Z)", re.M | re.S)
_CAPTION: Final = r"^[^`\n]*`([^`\n]+)`[^\n]*\n\n"
_BLOCK: Final = re.compile(_CAPTION + r"```(\w+)\n(.*?)^```$", re.M | re.S)
_TABLE: Final = re.compile(_CAPTION + r"((?:\|[^\n]*\n)+)", re.M)
_YAML: Final = re.compile(r"^```yaml\n(.*?)^```$", re.M | re.S)
_WRITTEN: Final = re.compile(r"^cat > my/(\S+) <<'EOF'\n(.*?)^EOF$", re.M | re.S)
_DRAWN: Final = re.compile(r"^┏.*\n(┃.*)\n┡.*\n((?:│.*\n)+)└", re.M)

Rows = list[dict[str, str]]


@dataclass(frozen=True)
class Example:
    """The example of a page: the project's files by their paths, scripts that make further files,
    and the rows of each table."""

    files: dict[str, str]
    scripts: tuple[str, ...]
    tables: dict[str, Rows]

    def write(self, project: Path) -> None:
        """Write the project as the page says, in the folder that
        `docs/formats/README.md` creates."""
        (project / "landing").mkdir()
        for path, text in (files_written(INDEX) | self.files).items():
            (project / path).parent.mkdir(parents=True, exist_ok=True)
            (project / path).write_text(text)


def example_of(page: str) -> Example:
    """The example of a format's page; raises LookupError saying what the page lacks."""
    section = _SECTION.search((FORMATS / f"{page}.md").read_text())
    if section is None:
        raise LookupError(f"docs/formats/{page}.md has no section `## Example`")
    blocks = _BLOCK.findall(section[1])
    found = Example(
        {name: text for name, language, text in blocks if language != "python"},
        tuple(text for _, language, text in blocks if language == "python"),
        {name: _rows(table) for name, table in _TABLE.findall(section[1])},
    )
    _refuse_parts_of_one(page, found)
    return found


def _refuse_parts_of_one(page: str, found: Example) -> None:
    lacking = [
        what
        for what, there in (
            ("pipelines/shop.yaml", "pipelines/shop.yaml" in found.files),
            ("a landed file", found.scripts or any(f.startswith("landing/") for f in found.files)),
            ("a table's rows", any(found.tables.values())),
        )
        if not there
    ]
    if lacking:
        raise LookupError(f"the example of docs/formats/{page}.md lacks {', '.join(lacking)}")


def _rows(table: str) -> Rows:
    """The rows of a Markdown table by the names in its first line."""
    head, _, *lines = [_cells(line) for line in table.splitlines()]
    return [dict(zip(head, line, strict=True)) for line in lines]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def files_written(page: Path) -> dict[str, str]:
    """The files of the project `my` that a page's commands write."""
    return dict(_WRITTEN.findall(page.read_text()))


def yaml_blocks(page: Path) -> list[str]:
    """Every block of YAML that a page has."""
    return _YAML.findall(page.read_text())


def drawn_tables(page: Path, heading: str) -> list[Rows]:
    """The tables that a section shows as terminal output, in their order."""
    section = page.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [_drawn(head, lines) for head, lines in _DRAWN.findall(section)]


def _drawn(head: str, lines: str) -> Rows:
    names, *rows = [
        [cell.strip() for cell in re.split("[┃│]", line)[1:-1]]
        for line in (head, *lines.splitlines())
    ]
    return [dict(zip(names, row, strict=True)) for row in rows]
