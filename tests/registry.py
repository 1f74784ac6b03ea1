"""A schema registry for the tests: the REST API of Confluent's on 127.0.0.1, over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class SchemaRegistry:
    """What the server answers by path, and what it was asked with which authorization.

    `failures`: the statuses of its first answers; 200 is one that breaks off. `moved`: the URLs to
    which it redirects, by path.
    """

    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    moved: dict[str, str] = field(default_factory=dict)
    url: str = ""

    def add(self, ident: int, schema: Any, **more: Any) -> None:
        """A schema by its id; `more`: schemaType, references."""
        self.answers[f"/schemas/ids/{ident}"] = (200, {"schema": json.dumps(schema), **more})

    def add_subject(self, subject: str, version: int, schema: Any, **more: Any) -> None:
        """A schema by its subject and version."""
        path = f"/subjects/{subject}/versions/{version}"
        self.answers[path] = (200, {"subject": subject, "schema": json.dumps(schema), **more})


@contextmanager
def serving() -> Iterator[SchemaRegistry]:
    """A server on a free port until the block ends."""
    registry = SchemaRegistry()
    missing = (404, {"error_code": 40403, "message": "Schema not found"})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.asked.append((self.path, self.headers.get("Authorization")))
            status, document = registry.answers.get(self.path, missing)
            body = json.dumps(document).encode()
            sent = body
            if registry.failures:
                status, sent = registry.failures.pop(0), body[:-1]
            elsewhere = registry.moved.get(self.path)
            self.send_response(302 if elsewhere else status)
            if elsewhere:
                self.send_header("Location", elsewhere)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
