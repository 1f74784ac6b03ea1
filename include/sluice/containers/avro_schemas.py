"""Avro schemas by the id that messages carry: from files, or from a schema registry.

The registry's REST API is Confluent's, which others (Apicurio, Karapace, Redpanda) offer too. Its
secrets come from the environment alone.
"""

from __future__ import annotations

import base64
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

from sluice.errors import TerminalError, TransientError
from sluice.objects.store import ObjectStore, open_store

ENV_USER_INFO: Final = "SCHEMA_REGISTRY_USER_INFO"
ENV_TOKEN: Final = "SCHEMA_REGISTRY_TOKEN"
FILE_ENDINGS: Final = (".avsc", ".json")
_AVRO: Final = "AVRO"
_SECONDS: Final = 30
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"
_NOT_FOUND: Final = 404
# Subject, version, schema: what the registry says it has not, where any web server has no page.
_NO_SUCH: Final = (40401, 40402, 40403)
_AGAIN: Final = (408, 429)

Schemas = Callable[[int], list[Any] | None]
"""Schema id → the documents that make it up, those it refers to first; None: no such id."""


def open_schemas(location: str, registry: str) -> Schemas:
    """Return the schemas in files, or else in a registry; raises TerminalError without either."""
    if registry:
        return _Registry(registry).get
    if not location:
        raise TerminalError(
            "the files hold messages with schema ids: say in format_options where the schemas "
            "are, `schemas:` (a folder of <id>.avsc, or a JSON file) or `schema_registry:` (a URL)"
        )
    return _from_files(location)


def _from_files(location: str) -> Schemas:
    folder, _, name = location.rstrip("/").rpartition("/")
    if not name.endswith(FILE_ENDINGS):
        return lambda ident: _from_folder(open_store(location.rstrip("/")), location, ident)
    listed = _document(_existing(open_store(folder), name, location), location)
    if not isinstance(listed, dict):
        raise TerminalError(f"{location}: expected a JSON object of schema ids and schemas")
    return lambda ident: _listed(listed.get(str(ident)), location)


def _existing(store: ObjectStore, name: str, location: str) -> bytes:
    try:
        return store.get(name)
    except FileNotFoundError as error:
        raise TerminalError(f"format_options.schemas: there is no {location}") from error


def _from_folder(store: ObjectStore, location: str, ident: int) -> list[Any] | None:
    for ending in FILE_ENDINGS:
        try:
            return [_document(store.get(f"{ident}{ending}"), f"{location}/{ident}{ending}")]
        except FileNotFoundError:
            continue
    return None


def _listed(schema: Any, location: str) -> list[Any] | None:
    """A schema as JSON, or as the text of it."""
    text = isinstance(schema, str) and schema.lstrip().startswith(("{", "[", '"'))
    return None if schema is None else [_document(schema, location) if text else schema]


def _document(text: str | bytes, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise TerminalError(f"{where} is no JSON: {error}") from error


class _Registry:
    """A schema registry: ids never change what they stand for, so each is asked for once."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._known: dict[int, list[Any] | None] = {}

    def get(self, ident: int) -> list[Any] | None:
        """See `Schemas`; raises TransientError where the registry does not answer."""
        if ident not in self._known:
            found = self._ask(f"/schemas/ids/{ident}")
            self._known[ident] = None if found is None else self._with_references(found, set())
        return self._known[ident]

    def _with_references(self, found: dict[str, Any], seen: set[tuple[str, int]]) -> list[Any]:
        if found.get("schemaType", _AVRO) != _AVRO:
            raise TerminalError(f"{self._url}: {found['schemaType']} schemas cannot be read")
        documents = []
        for reference in found.get("references") or ():
            name, version = reference["subject"], int(reference["version"])
            if (name, version) not in seen:
                seen.add((name, version))
                other = self._ask(f"/subjects/{quote(name, safe='')}/versions/{version}")
                if other is None:
                    raise TerminalError(f"{self._url}: no version {version} of subject {name}")
                documents += self._with_references(other, seen)
        return [*documents, _document(found["schema"], self._url)]

    def _ask(self, path: str) -> Any:
        request = urllib.request.Request(self._url + path, headers=_headers())
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                return _document(answer.read(), self._url + path)
        except urllib.error.HTTPError as error:
            if error.code == _NOT_FOUND:
                return self._none_such(path, error)
            kind = TransientError if error.code >= 500 or error.code in _AGAIN else TerminalError
            raise kind(f"schema registry {self._url}{path}: {error}") from error
        except (OSError, urllib.error.URLError) as error:
            raise TransientError(f"schema registry {self._url}{path}: {error}") from error

    def _none_such(self, path: str, error: urllib.error.HTTPError) -> None:
        """Raises TerminalError where it is no registry that has no such schema."""
        try:
            told = json.loads(error.read())
        except ValueError:
            told = None
        if not isinstance(told, dict) or told.get("error_code") not in _NO_SUCH:
            raise TerminalError(
                f"schema registry {self._url}{path}: {error}, but not as a registry says that it "
                "has no such schema: is format_options.schema_registry the base URL of its "
                "Confluent-compatible API (of Apicurio …/apis/ccompat/v7)?"
            ) from error


def _headers() -> dict[str, str]:
    user_info, token = os.environ.get(ENV_USER_INFO), os.environ.get(ENV_TOKEN)
    headers = {"Accept": _ACCEPT}
    if user_info:
        headers["Authorization"] = f"Basic {base64.b64encode(user_info.encode()).decode()}"
    elif token:
        headers["Authorization"] = f"Bearer {token}"
    return headers
