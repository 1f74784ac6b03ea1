"""The project: `sluice.yaml` and `pipelines/*.yaml`, validated before anything runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sluice.config.broken_pipelines import by_name
from sluice.config.ddl_files import with_ddl
from sluice.config.fields import Strict
from sluice.config.format_versions import refuse_unpublishable_version
from sluice.config.locations import WAREHOUSE, refuse_globs, refuse_landing, resolved
from sluice.config.overlap import Written, refuse_overlap
from sluice.config.pipeline import Pipeline
from sluice.config.project_file import (
    CATALOG_SCHEMES,
    SQLITE,
    CatalogConfig,
    LakeConfig,
    ProjectFile,
    SparkConfig,
)
from sluice.config.secrets import holds_secret, is_clear, refuse_unsendable, shortened
from sluice.config.validation_messages import explain
from sluice.config.yaml_file import Document, read_yaml
from sluice.environment import (
    ENV_CATALOG_URI,
    ENV_REST_CREDENTIAL,
    ENV_REST_TOKEN,
    ENV_SPARK_MASTER,
)
from sluice.errors import ConfigError

PROJECT_FILE: Final = "sluice.yaml"
PIPELINES_FOLDER: Final = "pipelines"
_SUFFIXES: Final = (".yaml", ".yml")

_M = TypeVar("_M", bound=Strict)


class Project(BaseModel):
    """A validated project folder with absolute paths.

    `files`: the file of each pipeline. `broken`: the mistakes of each invalid pipeline file, by the
    pipeline's name or else the file's stem. `not_read`: YAML files that Sluice ignores: those in
    subfolders of `pipelines/`, or with a suffix in capitals.
    """

    model_config = ConfigDict(frozen=True)

    root: Path
    lake: LakeConfig
    spark: SparkConfig
    pipelines: dict[str, Pipeline]
    files: dict[str, Path] = Field(default_factory=dict)
    broken: dict[str, str] = Field(default_factory=dict)
    not_read: tuple[Path, ...] = ()

    def pipeline(self, name: str) -> Pipeline:
        """Return the pipeline called `name`, its DDL scripts read; raises ConfigError as
        `checked` does, or if a script cannot be read."""
        found = self.checked(name)
        with _as_config_error(self.files.get(name, self.root)):
            _ = found.ddl_tables
        return found

    def checked(self, name: str) -> Pipeline:
        """Return the pipeline called `name`, its DDL scripts unread; raises ConfigError if its file
        is wrong, or listing the existing ones."""
        if name in self.broken:
            raise ConfigError(self.broken[name])
        if name not in self.pipelines:
            existing = ", ".join(sorted(self.pipelines)) or "none"
            raise ConfigError(f"no pipeline {name!r} in {self.root}; there are: {existing}")
        return self.pipelines[name]

    def mistakes(self) -> list[str]:
        """Return the mistakes of all pipelines, whose DDL scripts are read."""
        found = list(self.broken.values())
        for name in self.pipelines:
            try:
                self.pipeline(name)
            except ConfigError as error:
                found.append(str(error))
        return found


def load_project(folder: Path | str) -> Project:
    """Load a project, all DDL scripts read; raises ConfigError with one line per mistake."""
    project = load_sound(folder)
    if mistakes := project.mistakes():
        raise ConfigError("\n".join(mistakes))
    return project


def load_sound(folder: Path | str) -> Project:
    """Load a project without its invalid pipelines, so that one mistake does not stop the others.

    DDL scripts are read by `Project.pipeline`, or when they are needed. Raises ConfigError if
    `sluice.yaml` is invalid, two pipelines conflict, or the environment has a secret with a control
    character; other invalid pipelines are in `broken`.
    """
    refuse_unsendable(os.environ)
    root = Path(folder).expanduser().resolve()
    document = read_yaml(_existing(root))
    top = _checked(ProjectFile, document)
    lake = _resolve_lake(root, top.lake)
    refuse_globs(document, WAREHOUSE, lake.warehouse)
    folder = root / PIPELINES_FOLDER
    found = _yaml_files(folder)
    read = [path for path in found if path.parent == folder and path.suffix in _SUFFIXES]
    written, broken = _load_pipelines(root, read, lake)
    return Project(
        root=root,
        lake=lake,
        spark=_spark(top),
        pipelines={pipeline.name: pipeline for _, pipeline in written},
        files={pipeline.name: document.path for document, pipeline in written},
        broken=broken,
        not_read=tuple(path for path in found if path not in read),
    )


def _existing(root: Path) -> Path:
    path = root / PROJECT_FILE
    if not path.is_file():
        raise ConfigError(f"{path}: expected a project folder with a {PROJECT_FILE}")
    return path


def _checked(model: type[_M], document: Document) -> _M:
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        # pydantic's own message quotes the input, which may be a secret.
        raise ConfigError(explain(model, error, document)) from None


def _load_pipelines(
    root: Path, files: list[Path], lake: LakeConfig
) -> tuple[list[Written], dict[str, str]]:
    pipelines: list[Written] = []
    mistakes: dict[Path, str] = {}
    for path in files:
        try:
            with _as_config_error(path):
                pipelines.append(_load_pipeline(root, path, lake))
        except ConfigError as error:
            mistakes[path] = str(error)
    refuse_overlap(pipelines)
    return pipelines, by_name(mistakes, {pipeline.name for _, pipeline in pipelines})


def _load_pipeline(root: Path, path: Path, lake: LakeConfig) -> Written:
    document = read_yaml(path)
    pipeline = _resolve_landing(root, _checked(Pipeline, document))
    refuse_landing(document, pipeline, lake, root / PROJECT_FILE)
    refuse_unpublishable_version(document, pipeline, lake)
    return document, with_ddl(root, document, pipeline)


@contextmanager
def _as_config_error(path: Path) -> Iterator[None]:
    """Raise ConfigError whatever it is that stops the reading of a pipeline's file: the other
    pipelines run."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        cause = f"{type(error).__name__}: {shortened(str(error))}"
        raise ConfigError(
            f"{path}: expected a pipeline's configuration, which stops at {cause}"
        ) from error


def _yaml_files(folder: Path) -> list[Path]:
    """Return the YAML files of a folder and those below, whose names' ends may be in capitals."""
    found = (p for p in folder.rglob("*") if p.suffix.lower() in _SUFFIXES)
    return sorted(p for p in found if not any(map(_is_hidden, p.relative_to(folder).parts)))


def _is_hidden(part: str) -> bool:
    return part.startswith(".")


def _resolve_lake(root: Path, lake: LakeConfig) -> LakeConfig:
    catalog = _resolve_catalog(root, lake.catalog)
    return lake.model_copy(update={"catalog": catalog, "warehouse": resolved(root, lake.warehouse)})


def _resolve_catalog(root: Path, catalog: CatalogConfig) -> CatalogConfig:
    place = f"{root / PROJECT_FILE}: lake.catalog.uri"
    if uri := os.environ.get(ENV_CATALOG_URI):
        catalog, place = _overridden(catalog, uri), ENV_CATALOG_URI
    else:
        _refuse_password_in_file(catalog, place)
    _refuse_rest_secret(catalog, place)
    if catalog.is_sqlite:
        path = resolved(root, str(catalog.sqlite_path))
        return catalog.model_copy(update={"uri": f"{SQLITE}{path}"})
    _refuse_ambiguous(catalog)
    return catalog


def _refuse_password_in_file(catalog: CatalogConfig, place: str) -> None:
    if holds_secret(catalog.uri) or not (catalog.is_sqlite or is_clear(catalog.uri)):
        raise ConfigError(
            f"{place}: expected no password in the file; "
            f"give the whole address in {ENV_CATALOG_URI}, with a number where it has a port"
        )


def _refuse_rest_secret(catalog: CatalogConfig, place: str) -> None:
    if catalog.type == "rest" and (holds_secret(catalog.uri) or set("@#") & set(catalog.uri)):
        raise ConfigError(
            f"{place}: expected no password or token in a rest catalog's address; "
            f"give it in {ENV_REST_TOKEN} or {ENV_REST_CREDENTIAL}"
        )


def _refuse_ambiguous(catalog: CatalogConfig) -> None:
    if not is_clear(catalog.uri):
        raise ConfigError(
            f"{ENV_CATALOG_URI}: expected {catalog.uri.partition(':')[0]}://user:password@host:"
            "port/database, with %40 %3A %2F %3F %23 %25 for @ : / ? # % in user and password, "
            "and a number as the port"
        )


def _overridden(catalog: CatalogConfig, uri: str) -> CatalogConfig:
    try:
        return CatalogConfig.model_validate(catalog.model_dump() | {"uri": uri})
    except ValidationError:
        schemes = " or ".join(CATALOG_SCHEMES[catalog.type])
        raise ConfigError(f"{ENV_CATALOG_URI}: expected to begin with {schemes}") from None


def _resolve_landing(root: Path, pipeline: Pipeline) -> Pipeline:
    landing = pipeline.landing
    url = resolved(root, landing.url)
    return pipeline.model_copy(update={"landing": landing.model_copy(update={"url": url})})


def _spark(top: ProjectFile) -> SparkConfig:
    master = os.environ.get(ENV_SPARK_MASTER) or top.spark.master
    return top.spark.model_copy(update={"master": master})
