"""Schemas by id: from a folder, from a file, from a registry over HTTP."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from http.client import HTTPMessage
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from sluice.containers.avro_schemas import OTHER_KIND, SameServer, open_schemas
from sluice.environment import ENV_REGISTRY_TOKEN, ENV_REGISTRY_USER_INFO
from sluice.errors import TerminalError, TransientError
from tests.registry import serving

ROW = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}]}


@pytest.fixture(autouse=True)
def _no_secrets_and_no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    monkeypatch.delenv(ENV_REGISTRY_USER_INFO, raising=False)
    monkeypatch.delenv(ENV_REGISTRY_TOKEN, raising=False)


def test_a_folder_has_a_file_for_each_id(tmp_path: Path) -> None:
    (tmp_path / "1.avsc").write_text(json.dumps(ROW))
    (tmp_path / "20.json").write_text('"string"')
    schemas = open_schemas(str(tmp_path), "")
    assert [schemas(i) for i in (1, 20, 2)] == [[ROW], ["string"], None]


def test_a_file_has_schemas_as_json_or_as_text(tmp_path: Path) -> None:
    path = tmp_path / "schemas.json"
    path.write_text(json.dumps({"1": ROW, "2": json.dumps(ROW), "3": "long"}))
    schemas = open_schemas(str(path), "")
    assert [schemas(i) for i in (1, 2, 3, 4)] == [[ROW], [ROW], ["long"], None]


@pytest.mark.parametrize(
    ("content", "message"), [("{", "no JSON"), ("[1]", "JSON object"), (None, "there is no")]
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, content: str | None, message: str
) -> None:
    path = tmp_path / "schemas.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(TerminalError, match=message) as error:
        open_schemas(str(path), "")
    assert str(path) in str(error.value)


def test_a_place_of_schemas_is_needed() -> None:
    with pytest.raises(TerminalError, match="say in format_options"):
        open_schemas("", "")


def test_a_registry_is_asked_once_for_each_id() -> None:
    with serving() as registry:
        registry.add(7, ROW)
        schemas = open_schemas("", f"{registry.url}/")
        assert [schemas(i) for i in (7, 7, 8, 8)] == [[ROW], [ROW], None, None]
    assert registry.asked == [("/schemas/ids/7", None), ("/schemas/ids/8", None)]


def test_references_come_before_what_refers_to_them() -> None:
    inner = {"type": "enum", "name": "x.Inner", "symbols": ["a"]}
    middle = {"type": "record", "name": "x.Middle", "fields": [{"name": "i", "type": "x.Inner"}]}
    to_inner = {"name": "x.Inner", "subject": "in%2Fner", "version": 3}
    with serving() as registry:
        registry.add_subject("in%252Fner", 3, inner)
        registry.add_subject("middle", 1, middle, references=[to_inner])
        to_middle = {"name": "x.Middle", "subject": "middle", "version": 1}
        registry.add(1, ROW, references=[to_middle, to_inner])
        assert open_schemas("", registry.url)(1) == [inner, middle, ROW]


@pytest.mark.parametrize(
    ("variables", "header"),
    [
        ({ENV_REGISTRY_USER_INFO: "key:pass"}, "Basic a2V5OnBhc3M="),
        ({ENV_REGISTRY_TOKEN: "abc"}, "Bearer abc"),
        ({}, None),
    ],
)
def test_secrets_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], header: str | None
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with serving() as registry:
        open_schemas("", registry.url)(1)
    assert registry.asked == [("/schemas/ids/1", header)]


def test_a_redirect_takes_the_secret_to_no_other_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even through it back to the first one: the other server has written that URL."""
    monkeypatch.setenv(ENV_REGISTRY_TOKEN, "abc")
    with serving() as registry, serving() as other:
        registry.moved["/schemas/ids/1"] = f"{other.url}/elsewhere"
        other.moved["/elsewhere"] = f"{registry.url}/back"
        registry.answers["/back"] = (200, {"schema": json.dumps(ROW)})
        assert open_schemas("", registry.url)(1) == [ROW]
    assert other.asked == [("/elsewhere", None)]
    assert registry.asked == [("/schemas/ids/1", "Bearer abc"), ("/back", None)]


def test_a_redirect_on_the_same_server_keeps_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENV_REGISTRY_TOKEN, "abc")
    with serving() as registry:
        registry.moved["/schemas/ids/1"] = "/here"
        registry.answers["/here"] = (200, {"schema": json.dumps(ROW)})
        assert open_schemas("", registry.url)(1) == [ROW]
    assert registry.asked == [("/schemas/ids/1", "Bearer abc"), ("/here", "Bearer abc")]


def test_behind_a_proxy_too_the_same_server_keeps_the_secret_and_another_gets_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(ENV_REGISTRY_TOKEN, "abc")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    first, same, other = (f"http://{x}" for x in ("registry/schemas/ids/1", "registry/a", "other/"))
    with serving() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        proxy.moved |= {first: same, same: other}
        proxy.answers[other] = (200, {"schema": json.dumps(ROW)})
        assert open_schemas("", "http://registry")(1) == [ROW]
    assert proxy.asked == [(first, "Bearer abc"), (same, "Bearer abc"), (other, None)]


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ("http://host:8081/", "https://host:8081/", True),
        ("http://host/", "https://HOST/", True),
        ("https://host/", "http://host/", False),
        ("https://host:8081/", "http://host:8081/", False),
        ("https://host/", "https://host:8443/", False),
        ("https://host/", "https://host.other/", False),
    ],
)
def test_the_secret_may_go_to_the_same_host_with_tls(before: str, after: str, kept: bool) -> None:
    request = urllib.request.Request(before, headers={"Authorization": "Bearer abc"})
    redirected = SameServer().redirect_request(request, BytesIO(), 302, "", HTTPMessage(), after)
    assert redirected is not None
    assert redirected.has_header("Authorization") == kept


def test_the_password_of_a_proxy_goes_to_no_server_behind_a_redirect() -> None:
    request = urllib.request.Request("http://host/", headers={"Proxy-Authorization": "Basic abc"})
    redirected = SameServer().redirect_request(
        request, BytesIO(), 302, "", HTTPMessage(), "http://host/a"
    )
    assert redirected is not None
    assert not redirected.header_items()


@pytest.mark.parametrize(
    ("status", "kind"),
    [(500, TransientError), (503, TransientError), (429, TransientError), (401, TerminalError)],
)
def test_http_error_of_the_registry_names_its_status(status: int, kind: type[Exception]) -> None:
    with serving() as registry:
        registry.answers["/schemas/ids/1"] = (status, {})
        with pytest.raises(kind, match=f"{status}"):
            open_schemas("", registry.url)(1)


def test_a_registry_that_fails_for_a_moment_is_asked_again() -> None:
    with serving() as registry:
        registry.add(1, ROW)
        registry.failures = [503, 429, 200]
        assert open_schemas("", registry.url)(1) == [ROW]
    assert len(registry.asked) == 4


def test_a_registry_that_denies_access_is_not_asked_again() -> None:
    with serving() as registry:
        registry.failures = [403, 403]
        with pytest.raises(TerminalError, match="403"):
            open_schemas("", registry.url)(1)
    assert len(registry.asked) == 1


def test_a_registry_whose_certificate_is_not_trusted_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def refuse(*_: Any, **__: Any) -> None:
        asked.append(1)
        raise urllib.error.URLError(ssl.SSLCertVerificationError("self-signed certificate"))

    monkeypatch.setattr(urllib.request.OpenerDirector, "open", refuse)
    with pytest.raises(TerminalError, match="self-signed"):
        open_schemas("", "https://registry")(1)
    assert asked == [1]


@pytest.mark.parametrize("document", [{}, {"error_code": 404, "message": "HTTP 404"}, ["x"], "no"])
def test_404_of_a_wrong_base_url_is_not_a_missing_schema(document: object) -> None:
    """Of a wrong URL all records would be quarantined as of schemas that nobody knows."""
    with serving() as registry:
        registry.answers["/schemas/ids/1"] = (404, document)
        with pytest.raises(TerminalError, match="base URL"):
            open_schemas("", registry.url)(1)


def test_a_registry_that_is_gone_is_tried_again_later() -> None:
    with serving() as registry:
        url = registry.url
    with pytest.raises(TransientError, match="/schemas/ids/1"):
        open_schemas("", url)(1)


def test_schemas_of_other_kinds_are_no_avro() -> None:
    """Keys of JsonSchemaConverter beside values in Avro are no reason to stop the batch."""
    with serving() as registry:
        registry.add(1, ROW, schemaType="PROTOBUF")
        registry.answers["/schemas/ids/2"] = (200, {"schema": "{}", "schemaType": "JSON"})
        schemas = open_schemas("", registry.url)
        assert [schemas(1), schemas(2)] == [OTHER_KIND, OTHER_KIND]
