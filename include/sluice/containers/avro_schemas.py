"""Avro schemas by the id that messages carry: from files, or from a schema registry.

The registry's REST API is Confluent's, which others (Apicurio, Karapace, Redpanda) offer too. Its
secrets come from the environment alone.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import urllib.error
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    stop_after_delay,
    wait_exponential,
)

from sluice.environment import ENV_REGISTRY_TOKEN, ENV_REGISTRY_USER_INFO
from sluice.errors import TerminalError, TransientError
from sluice.objects.store import ObjectStore, open_store

FILE_ENDINGS: Final = (".avsc", ".json")
_AVRO: Final = "AVRO"
_SECONDS: Final = 30
# With the pauses of `wait_exponential`, 0.5 s and then each twice as long: for 15 s, as a REST
# catalog.
_TRIES: Final = 6
_LONGEST: Final = 60  # seconds, where it does not answer
_FIRST_PAUSE: Final = 0.5
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"
_NOT_FOUND: Final = 404
# Error codes of a missing subject, version or schema; any other web server answers a bare 404.
_NO_SUCH: Final = (40401, 40402, 40403)
_AGAIN: Final = (408, 429)

Schemas = Callable[[int], list[Any] | None]
"""Schema id → its documents, those it refers to first; None: no such id."""
OTHER_KIND: Final[list[Any]] = []
"""The documents of an id whose schema is of another kind: JSON Schema, Protobuf."""


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
    """Return the schema of a JSON listing, which may hold it as JSON or as its text."""
    text = isinstance(schema, str) and schema.lstrip().startswith(("{", "[", '"'))
    return None if schema is None else [_document(schema, location) if text else schema]


def _document(text: str | bytes, where: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise TerminalError(f"{where} is no JSON: {error}") from error


class SameServer(HTTPRedirectHandler):
    """Follows redirects, but takes the secret only to the same host and port, and never from https
    to http."""

    def redirect_request(self, req: Request, *answer: Any) -> Request | None:
        """Return the request for the URL to which an answer redirects."""
        again = super().redirect_request(req, *answer)
        if again is None:
            return None
        # The password of a proxy; where one is used, the opener adds it anew.
        again.remove_header("Proxy-authorization")
        # `Request.host` may be that of a proxy.
        before, after = urlsplit(req.full_url), urlsplit(again.full_url)
        same = before.netloc.lower() == after.netloc.lower()
        if not (same and after.scheme in (before.scheme, "https")):
            again.remove_header("Authorization")
        return again


class _Registry:
    """A client of a schema registry; an id never changes its meaning, so each is fetched once."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._open = build_opener(SameServer).open
        self._cache: dict[int, list[Any] | None] = {}

    def get(self, ident: int) -> list[Any] | None:
        """Return a schema as `Schemas` does; TransientError if the registry does not answer."""
        if ident not in self._cache:
            schema = self._fetch(f"/schemas/ids/{ident}")
            self._cache[ident] = None if schema is None else self._with_references(schema, set())
        return self._cache[ident]

    def _with_references(self, schema: dict[str, Any], taken: set[tuple[str, int]]) -> list[Any]:
        if schema.get("schemaType", _AVRO) != _AVRO:
            return OTHER_KIND
        documents = []
        for reference in schema.get("references") or ():
            name, version = reference["subject"], int(reference["version"])
            if (name, version) not in taken:
                taken.add((name, version))
                other = self._fetch(f"/subjects/{quote(name, safe='')}/versions/{version}")
                if other is None:
                    raise TerminalError(f"{self._url}: no version {version} of subject {name}")
                documents += self._with_references(other, taken)
        return [*documents, _document(schema["schema"], self._url)]

    def _fetch(self, path: str) -> Any:
        again = Retrying(
            stop=stop_after_attempt(_TRIES) | stop_after_delay(_LONGEST),
            wait=wait_exponential(_FIRST_PAUSE),
            retry=retry_if_exception_type(TransientError),
            reraise=True,
        )
        return again(self._fetch_once, path)

    def _fetch_once(self, path: str) -> Any:
        request = Request(self._url + path, headers=_headers())
        try:
            with self._open(request, timeout=_SECONDS) as answer:
                return _document(answer.read(), self._url + path)
        except urllib.error.HTTPError as error:
            if error.code == _NOT_FOUND:
                return self._refuse_other_server(path, error)
            kind = TransientError if error.code >= 500 or error.code in _AGAIN else TerminalError
            raise kind(f"schema registry {self._url}{path}: {error}") from error
        except (OSError, HTTPException) as error:
            untrusted = isinstance(getattr(error, "reason", error), ssl.SSLCertVerificationError)
            kind = TerminalError if untrusted else TransientError
            raise kind(f"schema registry {self._url}{path}: {error}") from error

    def _refuse_other_server(self, path: str, error: urllib.error.HTTPError) -> None:
        """Raise TerminalError unless a 404 is a registry's answer that it has no such schema."""
        try:
            answer = json.loads(error.read())
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or answer.get("error_code") not in _NO_SUCH:
            raise TerminalError(
                f"schema registry {self._url}{path}: {error}, but not as a registry says that it "
                "has no such schema: is format_options.schema_registry the base URL of its "
                "Confluent-compatible API (of Apicurio …/apis/ccompat/v7)?"
            ) from error


def _headers() -> dict[str, str]:
    user_info, token = os.environ.get(ENV_REGISTRY_USER_INFO), os.environ.get(ENV_REGISTRY_TOKEN)
    headers = {"Accept": _ACCEPT}
    if user_info:
        headers["Authorization"] = f"Basic {base64.b64encode(user_info.encode()).decode()}"
    elif token:
        headers["Authorization"] = f"Bearer {token}"
    return headers
