"""Strict YAML: no duplicate keys, a line for every value, `no` and `on` as plain strings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from sluice.errors import ConfigError

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """A file's content, with the line of every key path."""

    path: Path
    data: dict[str, Any]
    lines: dict[KeyPath, int]

    def line(self, path: KeyPath) -> int:
        """Return the line of a key path, or of its nearest existing parent."""
        lines = (self.lines.get(path[:length]) for length in range(len(path), -1, -1))
        return next((line for line in lines if line), 1)

    def where(self, path: KeyPath) -> str:
        """Return `file:line` of a key path."""
        return f"{self.path}:{self.line(path)}"


class _Loader(yaml.SafeLoader):
    """A loader in which only true, false, null and numbers are special."""


_RESOLVERS: Final = {
    "tag:yaml.org,2002:bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "tag:yaml.org,2002:null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "tag:yaml.org,2002:int": (r"[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    "tag:yaml.org,2002:float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?",
        "-+.0123456789",
    ),
    "tag:yaml.org,2002:merge": (r"<<", "<"),
}
# Raised for a text that does not fit its tag, such as `!!int one` or `!!bool foo`.
_OF_CONSTRUCTORS: Final = (ValueError, LookupError, AttributeError, OverflowError, TypeError)
_BRACKET: Final = (
    '; within braces a type with a comma or a bracket needs quotes, as in {at: "timestamp[us]"}'
)
_SIGN: Final = (
    "; a value that begins with * or @, or has a ? within brackets or braces, needs quotes, "
    'as in ["shop_??.orders_*"]'
)
_SIGN_TAKEN: Final = re.compile(r"scanning an alias|undefined alias|'[?@]'")
# Aliases of aliases multiply; without any, a file has fewer values than characters.
_MOST_BY_ALIASES: Final = 100_000
_HALF: Final = re.compile("[\ud800-\udfff]")
_Loader.yaml_implicit_resolvers = {}
for _tag, (_pattern, _first) in _RESOLVERS.items():
    _Loader.add_implicit_resolver(_tag, re.compile(f"^(?:{_pattern})$"), list(_first))


def read_yaml(path: Path) -> Document:
    """Read a file whose top level is a mapping; raises ConfigError naming file and line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: expected a readable UTF-8 file: {error}") from error
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        lines = _Lines(path, _MOST_BY_ALIASES + len(text))
        lines.read(node, ())
        data = loader.construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as error:
        raise ConfigError(_syntax(path, error)) from error
    except (yaml.YAMLError, RecursionError, *_OF_CONSTRUCTORS) as error:
        raise ConfigError(f"{path}: expected valid YAML: {error}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{path}:1: expected a mapping of keys to values")
    return Document(path, data, lines.found)


def _syntax(path: Path, error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    line = f":{mark.line + 1}" if mark else ""
    what = " ".join(part for part in (error.context, error.problem) if part)
    return f"{path}{line}: expected valid YAML: {what}{_quotes(error.context, what)}"


def _quotes(context: str | None, what: str) -> str:
    """Advise quotes for a type, pattern or schedule in which YAML sees a sign of its own."""
    if context == "while parsing a flow mapping" and "but got '['" in what:
        return _BRACKET
    return _SIGN if _SIGN_TAKEN.search(what) else ""


class _Lines:
    """The line of every key path of a file, of which there may be `most`; refuses keys that are
    there twice and texts that are none."""

    def __init__(self, file: Path, most: int) -> None:
        self.found: dict[KeyPath, int] = {}
        self._file = file
        self._most = most

    def read(self, node: yaml.Node | None, path: KeyPath) -> None:
        """Find the lines of a value and all that it holds; raises ConfigError."""
        if node is None:
            return
        self.found.setdefault(path, _line(node))
        if len(self.found) > self._most:
            raise ConfigError(
                f"{self._file}: expected aliases that repeat at most {_MOST_BY_ALIASES} values"
            )
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.read(item, (*path, index))
        elif isinstance(node, yaml.MappingNode):
            self._read_mapping(node, path)
        else:
            self._refuse_halves(node, path)

    def _read_mapping(self, node: yaml.MappingNode, path: KeyPath) -> None:
        first: dict[str, int] = {}
        for key, value in node.value:
            line = _line(key)
            if not isinstance(key, yaml.ScalarNode):
                raise ConfigError(f"{self._file}:{line}: expected a plain word as a key")
            here = (*path, str(key.value))
            self._refuse_halves(key, here)
            if key.value in first:
                raise ConfigError(
                    f"{self._file}:{line}: {dotted(here)}: expected each key once; "
                    f"it is on line {first[key.value]} already"
                )
            first[key.value] = line
            self.found[here] = line
            self.read(value, here)

    def _refuse_halves(self, node: yaml.Node, path: KeyPath) -> None:
        """Raise ConfigError for lone surrogates.

        YAML reads the UTF-16 escapes of JSON as two halves of a character, which UTF-8 and Spark
        cannot represent.
        """
        if _HALF.search(node.value):
            raise ConfigError(
                f"{self._file}:{_line(node)}: {dotted(path)}: expected whole characters, not "
                "halves of them (\\uD800 to \\uDFFF): write the character itself, or \\U and its "
                "eight digits"
            )


def _line(node: yaml.Node) -> int:
    line: int = node.start_mark.line
    return line + 1


def dotted(path: KeyPath) -> str:
    """Return a key path as people write it: `tables.public.orders.key[0]`."""
    text = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path)
    return text.lstrip(".")


def refused(document: Document, key: KeyPath, expected: str) -> ConfigError:
    """Return the error for an unexpected value, with file, line and key."""
    return ConfigError(f"{document.where(key)}: {dotted(key)}: expected {expected}")
