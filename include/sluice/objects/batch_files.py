"""The files of a batch beside the tables: manifest, staged copies, results of attempts.

They lie under `<warehouse>/_sluice/<pipeline>/`: copies in `staged/`, shared by batches, the rest
in `<batch>/`. A manifest is written once, never over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sluice.config.project import Project
from sluice.errors import TerminalError
from sluice.manifest import Manifest, SourceFile
from sluice.names import BATCH_FILES
from sluice.objects.store import ObjectStore, open_store
from sluice.result import BatchResult

SCRATCH: Final = "decoded-"


def batch_of(manifest_key: str) -> str:
    """The batch's id: the folder of its manifest."""
    return manifest_key.rsplit("/", 2)[-2]


def pipeline_of(manifest_key: str) -> str:
    """The pipeline of a manifest: the folder of all its batches."""
    return manifest_key.rsplit("/", 3)[-3]


class BatchFiles:
    """Reads and writes what belongs to batches in the project's warehouse."""

    def __init__(self, project: Project) -> None:
        self.store: ObjectStore = open_store(f"{project.lake.warehouse}/{BATCH_FILES}")

    def manifest_key(self, pipeline: str, batch_id: str) -> str:
        """Where a batch's manifest is; this is what tasks hand on."""
        return f"{pipeline}/{batch_id}/manifest.json"

    def staging_prefix(self, pipeline: str) -> str:
        """Where landing puts JSON-lines copies of what Spark cannot read."""
        return f"{pipeline}/staged/"

    def write_manifest(self, manifest: Manifest) -> str:
        """Write it unless one of its name is there; returns its key."""
        self.fix_manifest(manifest)
        return self.manifest_key(manifest.pipeline, manifest.batch_id)

    def fix_manifest(self, manifest: Manifest) -> bool:
        """The same; False where the one that is there is another."""
        key = self.manifest_key(manifest.pipeline, manifest.batch_id)
        fixed = self.store.put_if_absent(key, manifest.to_json().encode())
        return fixed or self.read_manifest(key) == manifest

    def read_manifest(self, key: str) -> Manifest:
        """Read a manifest; raises TerminalError where there is none."""
        try:
            return Manifest.from_json(self.store.get(key).decode())
        except FileNotFoundError as error:
            raise TerminalError(f"there is no manifest {key}: land the batch first") from error

    def write_result(self, result: BatchResult) -> None:
        """Write what an attempt staged; an attempt has one result."""
        self.store.put(
            self._result_key(result.pipeline, result.batch_id, result.attempt),
            result.to_json().encode(),
        )

    def read_result(self, pipeline: str, batch_id: str, attempt: str) -> BatchResult:
        """What an attempt staged; raises TerminalError where it has not finished."""
        try:
            return BatchResult.from_json(
                self.store.get(self._result_key(pipeline, batch_id, attempt)).decode()
            )
        except FileNotFoundError as error:
            raise TerminalError(
                f"attempt {attempt} of batch {batch_id} left no result: load it again"
            ) from error

    def _result_key(self, pipeline: str, batch_id: str, attempt: str) -> str:
        return f"{pipeline}/{batch_id}/result-{attempt}.json"

    def scratch_url(self, pipeline: str, batch_id: str, attempt: str) -> str:
        """Where an attempt's driver may keep what it has read, as Spark spells it."""
        return self.store.url(self.scratch_key(pipeline, batch_id, attempt))

    def scratch_key(self, pipeline: str, batch_id: str, attempt: str) -> str:
        """The same place, as the store has it."""
        return f"{self._scratch_prefix(pipeline, batch_id)}{attempt}"

    def forget_scratch(self, pipeline: str, batch_id: str, attempt: str = "") -> None:
        """Remove what one attempt's driver kept; without an attempt, what any of them left."""
        self.store.delete_prefix(f"{self._scratch_prefix(pipeline, batch_id)}{attempt}")

    def _scratch_prefix(self, pipeline: str, batch_id: str) -> str:
        return f"{pipeline}/{batch_id}/{SCRATCH}"

    def forget_copies(self, keys: Iterable[str]) -> None:
        """Remove staged copies."""
        for key in keys:
            self.store.delete_prefix(key)

    def copies_there(self, pipeline: str) -> set[str]:
        """The keys of the staged copies that are there."""
        return {found.key for found in self.store.list(f"{self.staging_prefix(pipeline)}*")}

    def staged_key(self, pipeline: str, file: SourceFile) -> str:
        """Where the copy of one object is."""
        return self.staging_prefix(pipeline) + file.url.rsplit("/", 1)[-1]
