"""The files of a batch beside the tables: manifest, staged files, results of attempts.

They are under `<warehouse>/_sluice/<pipeline>/`: staged files (made of landed files that Spark
cannot read as they are) in `staged/`, shared by batches, the rest in `<batch>/`. A manifest is
never overwritten.
"""

from __future__ import annotations

from typing import Final

from sluice.config.project import Project
from sluice.errors import BatchFileDamagedError, TerminalError
from sluice.manifest import Manifest, SourceFile
from sluice.names import BATCH_FILES
from sluice.objects.store import ObjectStore, open_store
from sluice.result import BatchResult

SCRATCH: Final = "decoded-"
# What a document raises that is no text, no JSON, or another one.
_OF_CONTENT: Final = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


def batch_of(manifest_key: str) -> str:
    """Return the batch's id: the folder of its manifest."""
    return manifest_key.rsplit("/", 2)[-2]


def pipeline_of(manifest_key: str) -> str:
    """Return the pipeline of a manifest: the folder above its batch."""
    return manifest_key.rsplit("/", 3)[-3]


class BatchFiles:
    """Reads and writes the files of batches in the project's warehouse."""

    def __init__(self, project: Project) -> None:
        self.store: ObjectStore = open_store(f"{project.lake.warehouse}/{BATCH_FILES}")

    def manifest_key(self, pipeline: str, batch_id: str) -> str:
        """Return the key of a batch's manifest, which tasks pass on."""
        return f"{pipeline}/{batch_id}/manifest.json"

    def staging_prefix(self, pipeline: str) -> str:
        """Return the prefix of the files that landing makes for Spark."""
        return f"{pipeline}/staged/"

    def write_manifest(self, manifest: Manifest) -> str:
        """Write a manifest unless its key exists; returns the key."""
        self.put_manifest(manifest)
        return self.manifest_key(manifest.pipeline, manifest.batch_id)

    def put_manifest(self, manifest: Manifest) -> bool:
        """Write a manifest unless its key exists; False if another one is stored there."""
        key = self.manifest_key(manifest.pipeline, manifest.batch_id)
        written = self.store.put_if_absent(key, manifest.to_json().encode())
        return written or self.read_manifest(key) == manifest

    def read_manifest(self, key: str) -> Manifest:
        """Read a manifest; raises TerminalError if there is none or it is of another release,
        BatchFileDamagedError if it is damaged."""
        try:
            return Manifest.from_json(self.store.get(key).decode())
        except FileNotFoundError as error:
            raise TerminalError(
                f"there is no manifest {key} in {self.store.url('')}: was `lake.warehouse` "
                "changed, or the file deleted?"
            ) from error
        except _OF_CONTENT as error:
            pipeline, batch = pipeline_of(key), batch_of(key)
            raise BatchFileDamagedError(
                f"{self.store.url(key)} cannot be read ({type(error).__name__}: {error}): put it "
                f"back from a backup; without one `sluice rollback {pipeline} --batch {batch}`, "
                f"`sluice release {pipeline} --batch {batch}`, and run again"
            ) from error

    def manifest_of(self, pipeline: str, batch_id: str) -> Manifest:
        """Read the manifest of a batch; raises TerminalError if there is none."""
        return self.read_manifest(self.manifest_key(pipeline, batch_id))

    def write_result(self, result: BatchResult) -> None:
        """Write the result of an attempt, which has one."""
        self.store.put(
            self._result_key(result.pipeline, result.batch_id, result.attempt),
            result.to_json().encode(),
        )

    def read_result(self, pipeline: str, batch_id: str, attempt: str) -> BatchResult:
        """Read the result of an attempt; raises TerminalError if it has not finished,
        BatchFileDamagedError if that is damaged."""
        key = self._result_key(pipeline, batch_id, attempt)
        try:
            return BatchResult.from_json(self.store.get(key).decode())
        except FileNotFoundError as error:
            raise TerminalError(
                f"attempt {attempt} of batch {batch_id} left no result: load it again"
            ) from error
        except _OF_CONTENT as error:
            raise BatchFileDamagedError(
                f"{self.store.url(key)} cannot be read ({type(error).__name__}: {error}): put it "
                "back from a backup, or load the batch again"
            ) from error

    def _result_key(self, pipeline: str, batch_id: str, attempt: str) -> str:
        return f"{pipeline}/{batch_id}/result-{attempt}.json"

    def scratch_url(self, pipeline: str, batch_id: str, attempt: str) -> str:
        """Return Spark's URL of the folder for an attempt's intermediate files."""
        return self.store.url(self.scratch_key(pipeline, batch_id, attempt))

    def scratch_key(self, pipeline: str, batch_id: str, attempt: str) -> str:
        """Return the store's key of the folder for an attempt's intermediate files."""
        return f"{self._scratch_prefix(pipeline, batch_id)}{attempt}"

    def delete_scratch(self, pipeline: str, batch_id: str, attempt: str = "") -> None:
        """Remove the intermediate files of one attempt, or of all attempts at a batch."""
        self.store.delete_prefix(f"{self._scratch_prefix(pipeline, batch_id)}{attempt}")

    def _scratch_prefix(self, pipeline: str, batch_id: str) -> str:
        return f"{pipeline}/{batch_id}/{SCRATCH}"

    def staged_there(self, pipeline: str) -> set[str]:
        """Return the keys of the staged files that exist."""
        return {staged.key for staged in self.store.list(f"{self.staging_prefix(pipeline)}*")}

    def staged_key(self, pipeline: str, file: SourceFile) -> str:
        """Return the key of an object's staged file."""
        return self.staging_prefix(pipeline) + file.url.rsplit("/", 1)[-1]
