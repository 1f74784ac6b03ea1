"""`sluice validate`: what a valid project has, for people."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from sluice.config.pipeline import Pipeline
from sluice.config.project import PIPELINES_FOLDER, Project
from sluice.counting import counted
from sluice.output.terminal import for_terminal, print_line


def show_project(console: Console, project: Project) -> None:
    """Show the lake, the pipelines, and the files that are nobody's; without secrets."""
    ok = f"[green]ok[/green] {for_terminal(str(project.root))}"
    pipelines = counted(len(project.pipelines), "pipeline")
    console.print(f"{ok}: {pipelines}", highlight=False, soft_wrap=True)
    for line in _lines(project):
        print_line(console, f"  {line}")


def _lines(project: Project) -> Iterator[str]:
    lake, folder = project.lake, project.root / PIPELINES_FOLDER
    yield f"tables in {lake.warehouse}, by the catalog {lake.catalog.address}"
    if not project.pipelines:
        yield f"no pipeline in {folder}" if folder.is_dir() else f"{folder} does not exist"
    for name, pipeline in sorted(project.pipelines.items()):
        yield from _of_pipeline(name, pipeline)
    for path in project.not_read:
        yield f"not read: {path} (its place is {PIPELINES_FOLDER}/*.yaml)"


def _of_pipeline(name: str, pipeline: Pipeline) -> Iterator[str]:
    yield f"{name}: {pipeline.format} from {pipeline.landing.url} into {pipeline.namespace}"
    for unknown in pipeline.unknown_types:
        yield f"  {unknown}"
