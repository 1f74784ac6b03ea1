"""JSON documents however a file holds them: one a line, pretty-printed, an array, `KEY^VALUE`.

A key may also stand before a tab, and one that is an object before `;` or `|`.

Everything here works on bytes and text alone. A document's text is kept as it is, but one of many
lines has nothing between its tokens. Numbers are never read as numbers.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from json import JSONDecodeError, JSONDecoder
from typing import Any, Final

from sluice.containers.compression import Damage

BOM: Final = "\ufeff"
JSON_BEGINS: Final = (b"{", b"[")
UTF16_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
INVALID_UTF8: Final = "invalid_utf8"
LONE_SURROGATE: Final = "lone_surrogate"
TOO_LARGE: Final = "document_too_large"
UNPARSEABLE: Final = "unparseable_document"
CUT_ARRAY: Final = "truncated_array"

# No token but a string is longer; an error this near the end may only mean that more is to come.
_NEAR_END: Final = 32
# Where files were put on end, a byte order mark stands between two documents.
_BLANKS: Final = re.compile(rf"[ \t\r\n{BOM}]*")
_LINE: Final = re.compile(r"[^\r\n]*")
_ARRAY: Final = re.compile(r"\[(?=[ \t\r\n]*([{\]]|null[ \t\r\n]*[,\]]))")
# What kafka-console-consumer writes by default; a null value is a word there.
_TAB: Final = r"\t(?=\{|null[ \t]*(?:[\r\n]|\Z))"
_OTHER_KEY: Final = re.compile(rf"[^\r\n^{{}}\[\]]*\^|[^\t\r\n^{{}}\[\]]*{_TAB}")
_KEY_END: Final = re.compile(rf"\^|{_TAB}")
_OTHER_SEPARATOR: Final = re.compile(rf"[ \t]{{0,8}}[;|][ \t]{{0,8}}(?=\{{)|{_TAB}")
_NEXT_START: Final = re.compile(r"[\r\n](?=[{\[])")
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_BETWEEN_TOKENS: Final = re.compile(r'("(?:[^"\\]|\\.)*+")|[ \t\r\n]++')


def _as_text(number: str) -> str:
    return number


_DECODER: Final = JSONDecoder(parse_float=_as_text, parse_int=_as_text, parse_constant=_as_text)


class _Window(str):
    """Text in which an error costs nothing but itself.

    A JSONDecodeError counts the lines before it: of many broken lines each would cost a look at
    all before it.
    """

    def count(self, *_: object) -> int:
        return 0

    def rfind(self, *_: object) -> int:
        return -1


@dataclass(frozen=True)
class Line:
    """One document, or one line that is none and that the reader has to reject."""

    text: bytes


@dataclass(frozen=True)
class Refused:
    """What cannot be handed on as a line."""

    reason: str
    raw: bytes


@dataclass(frozen=True)
class Document:
    """What `read_document` found: the place after it, or why there is none."""

    end: int = 0
    value: Any = None
    error_at: int = -1
    incomplete: bool = False

    @property
    def found(self) -> bool:
        """True for a document."""
        return self.error_at < 0


def read_document(text: str, at: int) -> Document:
    """Read the JSON document that begins at `at`; `incomplete` when more text could mend it."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except JSONDecodeError as error:
        unterminated = error.msg.startswith("Unterminated string")
        return Document(
            error_at=error.pos, incomplete=unterminated or error.pos + _NEAR_END > len(text)
        )
    except RecursionError:
        return Document(error_at=at)
    return Document(end=end, value=value)


def is_lossy(text: str, value: Any) -> bool:
    """True when a string of the document holds half a surrogate pair, which UTF-8 cannot say."""
    if not _SURROGATE_ESCAPE.search(text):
        return False
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def split(chunks: Iterator[bytes], limit: int, keys: bool = True) -> Iterator[Line | Refused]:
    """Every document of a file on a line of its own, in order; damage shows as Refused.

    A key and its value become `{"key": …, "value": …}`, without `keys` the value alone. `limit`:
    bytes of the largest document, with its key.
    Raises Damage where nothing of the file can be trusted.
    """
    return _Splitter(chunks, limit, keys).run()


class _Splitter:
    """A window over the text, moved from document to document.

    `passed`: characters before the window. `no_end_before`: up to which of all characters no
    comment ends that has not ended yet, so that each is looked at once for that.
    """

    def __init__(self, chunks: Iterator[bytes], limit: int, keys: bool) -> None:
        self.chunks = chunks
        self.limit = limit
        self.keys = keys
        self.decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.text = _Window()
        self.at = 0
        self.passed = 0
        self.no_end_before = 0
        self.ended = False
        self.cut = ""
        self.in_array = False

    def run(self) -> Iterator[Line | Refused]:
        self._more()
        self.at = 1 if self.text.startswith(BOM) else 0
        while self._to_next():
            yield self._next()
        if self.cut:
            yield Refused(self.cut, b"")
        elif self.in_array:
            yield Refused(CUT_ARRAY, b"")

    def _more(self) -> bool:
        """Read on, at least as much again as is waiting; false at the end."""
        if self.ended:
            return False
        pieces, size = [self.text[self.at :]], 0
        self.passed += self.at
        self.at = 0
        while size <= len(pieces[0]) and not self.ended:
            piece = self._decoded()
            pieces.append(piece)
            size += len(piece)
        self.text = _Window("".join(pieces))
        return True

    def _decoded(self) -> str:
        try:
            return self.decoder.decode(next(self.chunks))
        except StopIteration:
            pass
        except Damage as damage:
            if not damage.trusted:
                raise
            self.cut = damage.reason
        self.ended = True
        return self.decoder.decode(b"", final=True)

    def _to_next(self) -> bool:
        """Pass over what stands between documents; false at the end of the text."""
        while True:
            if len(self.text) - self.at < _NEAR_END and self._more():
                continue
            start = self.at
            self.at = _BLANKS.match(self.text, self.at).end()  # type: ignore[union-attr]
            if self._pass_punctuation() or self._pass_comment():
                continue
            if self.at < len(self.text):
                return True
            if self.at == start and not self._more():
                return False

    def _pass_punctuation(self) -> bool:
        char = self.text[self.at : self.at + 1]
        if char == "," or (char == "]" and self.in_array):
            self.in_array = self.in_array and char == ","
        elif not self.in_array and _ARRAY.match(self.text, self.at):
            self.in_array = True
        else:
            return False
        self.at += 1
        return True

    def _pass_comment(self) -> bool:
        if not self.text.startswith("/*", self.at):
            return False
        end = self._comment_end()
        while end < 0 and self._within_limit() and self._more():
            end = self._comment_end()
        self.at = end if end >= 0 else self.at
        return end >= 0

    def _comment_end(self) -> int:
        """The place after the comment that begins here; -1 where it does not end in the window."""
        start = max(self.at + 2, self.no_end_before - self.passed)
        end = self.text.find("*/", start)
        if end < 0:  # the last character may be the half of an end
            self.no_end_before = self.passed + len(self.text) - 1
        return end + 2 if end >= 0 else end

    def _within_limit(self) -> bool:
        return len(self.text) - self.at <= self.limit

    def _next(self) -> Line | Refused:
        found = self._document(0)
        if found.found and self._stands_alone(found.end):
            return self._take(found)
        self._read_line(0)
        key = _OTHER_KEY.match(self.text, self.at)
        if key:
            return self._key_and_value("null", key.end() - self.at)
        return self._take_broken(found)

    def _document(self, offset: int) -> Document:
        """The document at `offset` from here; reads on as long as that could complete it."""
        while True:
            found = read_document(self.text, self.at + offset)
            at_edge = found.found and found.end + _NEAR_END > len(self.text)
            if not (found.incomplete or at_edge) or self.ended:
                return found
            if not self._within_limit():
                return found
            self._more()

    def _stands_alone(self, end: int) -> bool:
        """A bare word or number is a document only where nothing follows it on the line."""
        if self.text[self.at] == "{" or self.in_array or _KEY_END.match(self.text, end):
            return True
        return not self._line_from(end).strip()

    def _take(self, found: Document) -> Line | Refused:
        key = self.text[self.at : found.end]
        if self.text[found.end : found.end + 1] == "^":
            return self._key_and_value(key, found.end + 1 - self.at)
        other = None if self.in_array else _OTHER_SEPARATOR.match(self.text, found.end)
        if other and self._is_of_key(found.value, offset := other.end() - self.at):
            return self._key_and_value(key, offset)
        text = self._pass_to(self.at + len(key))
        return self._unless_large(text, _line(text, is_lossy(text, found.value)))

    def _is_of_key(self, key: Any, offset: int) -> bool:
        """Whether a record is at `offset` and `key` is its key: two records share a field's name.

        To take a record for the key of another would lose it. So before a null only fields that
        hold no others are a key, and none are where keys are not kept.
        """
        if isinstance(key, dict) and not self.keys:
            return False
        found = self._document(offset)
        if found.found and found.value is None:
            return not any(isinstance(part, (dict, list)) for part in _inner(key).values())
        return found.found and set(_inner(key)).isdisjoint(_inner(found.value))

    def _key_and_value(self, key: str, offset: int) -> Line | Refused:
        self._read_line(offset)
        if not self._line_from(self.at + offset).strip():
            if self.cut and _line_end(self.text, self.at + offset) == len(self.text):
                return self._cut_off()  # of what follows nobody knows that it was nothing
            whole = self._pass_to(self.at + offset)
            return self._unless_large(whole, _line(self._pair(key, "null")))
        blanks = _BLANKS.match(self.text, self.at + offset)
        value_at = blanks.end() - self.at if blanks else offset
        found = self._document(value_at)
        if not found.found:
            return self._take_broken(found)
        whole = self._pass_to(found.end)
        value = whole[value_at:]
        lossy = is_lossy(key + value, [key, found.value])
        return self._unless_large(whole, _line(self._pair(key, value), lossy))

    def _unless_large(self, whole: str, part: Line | Refused) -> Line | Refused:
        """The part, where its text in the file is within the limit: a window may hold more."""
        may_be_large = 4 * len(whole) > self.limit  # a character has up to four bytes
        if may_be_large and len(raw := _bytes(whole)) > self.limit:
            return Refused(TOO_LARGE, raw)
        return part

    def _pair(self, key: str, value: str) -> str:
        return f'{{"key":{key},"value":{value}}}' if self.keys else value

    def _read_line(self, offset: int) -> None:
        """Have the rest of the line from `offset` in the window, as far as the limit lets it."""
        while not self._has_line(offset) and self._within_limit() and self._more():
            pass

    def _has_line(self, offset: int) -> bool:
        return self.ended or _line_end(self.text, self.at + offset) < len(self.text)

    def _line_from(self, at: int) -> str:
        return self.text[at : _line_end(self.text, at)]

    def _take_broken(self, found: Document) -> Line | Refused:
        """No document here: this line, or all up to where the next document seems to begin."""
        error = -1 if found.found else found.error_at - self.at
        end = _line_end(self.text, self.at)
        if found.incomplete and self.ended and self.cut:
            return self._cut_off()
        if not self._within_limit() and (found.incomplete or end == len(self.text)):
            return self._too_large()
        if error <= end - self.at:
            return _line(self._pass_to(end))
        return self._take_many()

    def _cut_off(self) -> Refused:
        reason, self.cut = self.cut, ""
        return Refused(reason, _bytes(self._pass_to(len(self.text))))

    def _take_many(self) -> Line | Refused:
        start = _NEXT_START.search(self.text, self.at + 1)
        while start is None and self._within_limit() and self._more():
            start = _NEXT_START.search(self.text, self.at + 1)
        text = self._pass_to(start.start() if start else len(self.text)).strip()
        if "\n" in text or "\r" in text:
            return Refused(UNPARSEABLE, _bytes(text))
        return _line(text)

    def _too_large(self) -> Refused:
        """Refuse the beginning, and go on where a line begins a document."""
        first = self._pass_to(len(self.text))
        while (start := _NEXT_START.search(self.text, self.at)) is None:
            self.at = max(self.at, len(self.text) - 1)
            if not self._more():
                break
        self.at = start.end() if start else len(self.text)
        return Refused(TOO_LARGE, _bytes(first))

    def _pass_to(self, end: int) -> str:
        text = self.text[self.at : end]
        self.at = end
        return text


def _inner(document: Any) -> dict[str, Any]:
    """A document's fields, within what describes them."""
    described = isinstance(document, dict) and "schema" in document
    inner = document.get("payload", document) if described else document
    return inner if isinstance(inner, dict) else {}


def _line_end(text: str, at: int) -> int:
    return _LINE.match(text, at).end()  # type: ignore[union-attr]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _line(text: str, lossy: bool = False) -> Line | Refused:
    if lossy:
        return Refused(LONE_SURROGATE, _bytes(text))
    if "\0" in text:  # no JSON, but Spark could take it for UTF-16 or UTF-32
        return Refused(UNPARSEABLE, _bytes(text))
    if "\n" in text or "\r" in text:
        text = _BETWEEN_TOKENS.sub(lambda found: found[1] or "", text)
    try:
        return Line(text.encode())
    except UnicodeEncodeError:
        return Refused(INVALID_UTF8, _bytes(text))
