"""Validation errors as messages, one line each: file, line, key path, what was expected."""

from __future__ import annotations

import difflib
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sluice.config.formats import options_model
from sluice.config.secrets import IN_ENVIRONMENT, is_secret, shortened
from sluice.config.yaml_file import Document, KeyPath, dotted

_OPTIONS: Final = "format_options"
"""The key whose model depends on `format`."""
_REGISTRY: Final = "schema_registry"  # a wrong address may hold a token anywhere


def explain(model: type[BaseModel], error: ValidationError, document: Document) -> str:
    """Return all mistakes of one file, one line each."""
    mistakes = sorted(error.errors(), key=lambda one: document.line(one["loc"]))
    return "\n".join(_line(model, one, document) for one in mistakes)


def _line(model: type[BaseModel], error: ErrorDetails, document: Document) -> str:
    path = tuple(part for part in error["loc"] if part != "[key]")
    while path and path not in document.lines and error["type"] != "missing":
        path = path[:-1]  # pydantic names the branch of a union too
    name = dotted(path)
    expected = _expected(model, path, error, document)
    return f"{document.where(path)}: {name + ': ' if name else ''}{expected}"


def _expected(
    model: type[BaseModel], path: KeyPath, error: ErrorDetails, document: Document
) -> str:
    if error["type"] == "extra_forbidden":
        if path[0] == _OPTIONS and len(path) > 1:
            model, path = options_model(document.data.get("format")), path[1:]
        return _unknown_key(model, path)
    if error["type"] == "missing":
        return "expected a value; the key is missing"
    got = f", got {shortened(error['input'])}" if _may_show(path, error) else ""
    return f"expected {_wanted(model, path, error)}{got}"


def _may_show(path: KeyPath, error: ErrorDetails) -> bool:
    """Whether a message may have the wrong value, which is no secret and holds none."""
    is_address = path[-1:] == (_REGISTRY,) and isinstance(error["input"], str)
    return not is_address and not any(is_secret(str(part)) for part in path)


def _wanted(model: type[BaseModel], path: KeyPath, error: ErrorDetails) -> str:
    """Return what the value should have been."""
    kind, given = error["type"], error["input"]
    if kind == "value_error":
        return error["msg"].removeprefix("Value error, ")
    if kind == "string_pattern_mismatch":
        return f"only characters of {error['ctx']['pattern']}"
    if kind == "list_type" and isinstance(given, str) and _may_show(path, error):
        return f"list such as [{shortened(given)[1:-1]}]"
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        keys = ", ".join(_fields_at(model, path))
        return f"a mapping with {keys}" if keys else "a mapping of keys to values"
    return error["msg"].removeprefix("Input should be ").removeprefix("a valid ")


def _unknown_key(model: type[BaseModel], path: KeyPath) -> str:
    known = sorted(_fields_at(model, path[:-1]))
    near = difflib.get_close_matches(str(path[-1]), known, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    if not near and (place := _place_below(model, path)):
        return f"unknown key here; its place is {place}"
    if not near and is_secret(str(path[-1])):
        return f"unknown key; {IN_ENVIRONMENT}"
    expected = f"one of: {', '.join(known)}" if known else "none"
    return f"unknown key; expected {expected}{hint}"


def _place_below(model: type[BaseModel], path: KeyPath) -> str:
    """Return where an unknown top-level key belongs, if another key or its entries may have it."""
    if len(path) != 1:
        return ""
    for name, field in model.model_fields.items():
        if str(path[0]) in _fields_at(model, (name, "*")):
            return f"{name}{_entry(field.annotation)}.{path[0]}"
    return ""


def _entry(annotation: Any) -> str:
    """Return how an entry of a value is written behind its key; '' for a single value."""
    kind = get_origin(annotation)
    if kind in (Union, UnionType):
        return _entry(_inside(annotation))
    return ".<name>" if kind is dict else "[0]" if kind is list else ""


def _fields_at(model: type[BaseModel], path: KeyPath) -> list[str]:
    """Return the keys of the model at a path, in their order."""
    here: Any = model
    for part in path:
        field = here.model_fields.get(part) if _is_model(here) else None
        here = _inside(field.annotation if field else here)
    return list(here.model_fields) if _is_model(here) else []


def _inside(annotation: Any) -> Any:
    """Return the model in `Model`, `Model | None`, `list[Model]` or `dict[str, Model]`."""
    if get_origin(annotation) in (Union, UnionType):
        return next((a for a in get_args(annotation) if a is not type(None)), annotation)
    if get_origin(annotation) in (dict, list):
        return get_args(annotation)[-1]
    return annotation


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
