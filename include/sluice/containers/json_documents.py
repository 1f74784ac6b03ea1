"""Split files into JSON documents: one a line, pretty-printed, an array, or `KEY^VALUE`.

After a key there may also be a tab or, if the key is an object, `;` or `|`; before it, what Kafka's
console consumer prints. Everything here works on bytes and text alone. A document's text is kept as
it is, except that one of several lines loses the white space between its tokens. Numbers are never
parsed.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from sluice.containers.broken_json import (
    FOLLOWS,
    PRINTED_FIELD,
    STRAY,
    TAB,
    DocumentEnds,
    ends_another,
)
from sluice.containers.json_text import NEAR_END, Document, is_lossy
from sluice.containers.text_window import TextWindow

BOM: Final = "\ufeff"
JSON_BEGINS: Final = (b"{", b"[")
UTF16_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
INVALID_UTF8: Final = "invalid_utf8"
LONE_SURROGATE: Final = "lone_surrogate"
TOO_LARGE: Final = "document_too_large"
UNPARSEABLE: Final = "unparseable_document"
CUT_ARRAY: Final = "truncated_array"

# After a document that is too large only a shorter key is recognised at a line's start.
_LONGEST_KEY: Final = 1 << 10
# Concatenated files have a byte order mark between two documents.
_BLANKS: Final = re.compile(rf"[ \t\r\n{BOM}]*")
_ARRAY: Final = re.compile(r"\[(?=[ \t\r\n]*([{\]]|null[ \t\r\n]*[,\]]))")
_OTHER_KEY: Final = re.compile(rf"[^\r\n^{{}}\[\]]*\^|[^\t\r\n^{{}}\[\]]*{TAB}")
_KEY_END: Final = re.compile(rf"\^|{TAB}")
# With what is looked ahead it stays below NEAR_END.
_VALUE_BEGINS: Final = r"(?=\{|null[ \t]{0,8}(?:[\r\n]|\Z))"
_OTHER_SEPARATOR: Final = re.compile(rf"[ \t]{{0,8}}[;|][ \t]{{0,8}}{_VALUE_BEGINS}|{TAB}")
# Behind such fields `name:value` are headers.
_PRINTED: Final = re.compile(
    rf"(?:{PRINTED_FIELD})++"
    r"(?:[^\t\r\n:{}\[\]\"]++:[^\t\r\n{}\[\]\"]*+\t)?+(?=[^ \t\r\n])"
)
# In keys of Maxwell, beside `database` and `table`, which its records have too.
_UUID: Final = "_uuid"
_OF_A_KEY: Final = "pk."
_BETWEEN_TOKENS: Final = re.compile(r'("(?:[^"\\]|\\.)*+")|[ \t\r\n]++')


@dataclass(frozen=True)
class Line:
    """One document, or one line that is none, which the reader has to reject."""

    text: bytes


@dataclass(frozen=True)
class Rejected:
    """A part that cannot be handed on as a line, and why."""

    reason: str
    raw: bytes


def split(chunks: Iterator[bytes], limit: int, *, keys: bool) -> Iterator[Line | Rejected]:
    """Yield every document of a file as one line, in order; damage as Rejected.

    A key and its value become `{"key": …, "value": …}`, or the value alone without `keys`. `limit`:
    bytes of the largest document with its key. Raises DamageError if nothing of the file can be
    trusted.
    """
    return _Splitter(chunks, limit, keys).run()


class _Splitter(TextWindow):
    """A window over the text that moves from document to document.

    `no_end_before`: the open comment does not end before this offset in the file, so that each
    character is searched once.
    """

    def __init__(self, chunks: Iterator[bytes], limit: int, keys: bool) -> None:
        super().__init__(chunks, limit)
        self.keys = keys
        self.no_end_before = 0
        self.ends = DocumentEnds(self)
        self.in_array = False
        self.ends_array = False

    def run(self) -> Iterator[Line | Rejected]:
        self.more()
        self.at = 1 if self.text.startswith(BOM) else 0
        while self._to_next():
            self.ends_array = False
            yield self._next()
        if self.cut:
            yield Rejected(self.cut, b"")
        elif self.in_array and not self.ends_array:
            yield Rejected(CUT_ARRAY, b"")

    def _to_next(self) -> bool:
        """Skip to the next document; false at the end of the text."""
        while True:
            if len(self.text) - self.at < NEAR_END and self.more():
                continue
            start = self.at
            self.at = _BLANKS.match(self.text, self.at).end()  # type: ignore[union-attr]
            if self._pass_punctuation() or self._pass_comment():
                continue
            if self.at < len(self.text):
                return True
            if self.at == start and not self.more():
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
        while end < 0 and self.more_within_limit():
            end = self._comment_end()
        self.at = end if end >= 0 else self.at
        return end >= 0

    def _comment_end(self) -> int:
        """Return where the comment that begins here ends; -1 if not in the window."""
        start = max(self.at + 2, self.no_end_before - self.passed)
        end = self.text.find("*/", start)
        if end < 0:  # the last character may be the first half of an end
            self.no_end_before = self.passed + len(self.text) - 1
        return end + 2 if end >= 0 else end

    def _next(self) -> Line | Rejected:
        parsed, printed = self.document(0), 0
        if not self._is_whole(parsed):
            text, printed = self.text, self._printed()
            if printed or self.text is not text:  # else the window has not moved
                parsed = self.document(printed)
        if self._is_whole(parsed, printed):
            return self._take(parsed, printed)
        key = _OTHER_KEY.match(self.text, self.at + printed)
        if key:
            return self._key_and_value("null", key.end() - self.at)
        return self._take_broken(parsed, printed)

    def _printed(self) -> int:
        """Return the length of what a console printed before the document; 0 if it did not."""
        self.read_line(0)
        printed = None if self.in_array else _PRINTED.match(self.text, self.at)
        self.ends.printed = self.ends.printed or printed is not None
        return printed.end() - self.at if printed else 0

    def _is_whole(self, parsed: Document, offset: int = 0) -> bool:
        return parsed.found and self._is_delimited(offset, parsed.end)

    def _is_delimited(self, offset: int, end: int) -> bool:
        """Whether a parsed part is a document and not the beginning of something else.

        A bare word or number is one only if nothing follows on its line, an element of an array
        only if nothing follows that may be part of it.
        """
        if _KEY_END.match(self.text, end):
            return True
        if self.in_array:
            return bool(FOLLOWS.match(self.text, end) or STRAY.match(self.text, end))
        return self.text[self.at + offset] == "{" or not self.line_from(end).strip()

    def _take(self, parsed: Document, offset: int) -> Line | Rejected:
        key = self.text[self.at + offset : parsed.end]
        if self.text[parsed.end : parsed.end + 1] == "^":
            return self._key_and_value(key, parsed.end + 1 - self.at)
        other = None if self.in_array else _OTHER_SEPARATOR.match(self.text, parsed.end)
        if other and self._is_of_key(parsed.value, value_at := other.end() - self.at):
            return self._key_and_value(key, value_at)
        self.ends.learn(parsed.value, key)
        text = self.pass_to(self.at + offset + len(key))
        return self._unless_large(text, _line(key, is_lossy(key)))

    def _is_of_key(self, key: Any, offset: int) -> bool:
        """Whether `key` is the key of the record at `offset`, and not a record itself.

        A record taken for a key would be lost. So a key shares no field's name with its record,
        one before a null nests no fields, and if keys are dropped an object is a key only by the
        fields that Maxwell's keys have.
        """
        if not isinstance(key, (dict, list)):
            return True
        if isinstance(key, dict) and not self.keys:
            return self._is_of_maxwell(key, offset)
        parsed = self.document(offset)
        if parsed.found and parsed.value is None:
            return not any(isinstance(part, (dict, list)) for part in _inner(key).values())
        return parsed.found and set(_inner(key)).isdisjoint(_inner(parsed.value))

    def _is_of_maxwell(self, key: dict[str, Any], offset: int) -> bool:
        own = {name for name in key if name == _UUID or name.startswith(_OF_A_KEY)}
        parsed = self.document(offset) if own else None
        record = parsed.value if parsed and parsed.found else None
        return isinstance(record, dict) and own.isdisjoint(record)

    def _key_and_value(self, key: str, offset: int) -> Line | Rejected:
        self.read_line(offset)
        if not self.line_from(self.at + offset).strip():
            if self.cut and self.line_end(self.at + offset) == len(self.text):
                return self._cut_off()  # the value may have been lost with the end of the file
            whole = self.pass_to(self.at + offset)
            return self._unless_large(whole, _line(self._pair(key, "null")))
        blanks = _BLANKS.match(self.text, self.at + offset)
        value_at = blanks.end() - self.at if blanks else offset
        parsed = self.document(value_at)
        if not parsed.found:
            return self._take_broken(parsed, value_at)
        whole = self.pass_to(parsed.end)
        value = whole[value_at:]
        pair = self._pair(key, value)
        return self._unless_large(whole, _line(pair, is_lossy(pair)))

    def _unless_large(self, whole: str, part: Line | Rejected) -> Line | Rejected:
        """Return the part if its text is within the limit, which a window may exceed."""
        may_be_large = 4 * len(whole) > self.limit  # a character has up to four bytes
        if may_be_large and len(raw := as_bytes(whole)) > self.limit:
            return Rejected(TOO_LARGE, raw)
        return part

    def _pair(self, key: str, value: str) -> str:
        return f'{{"key":{key},"value":{value}}}' if self.keys else value

    def _take_broken(self, parsed: Document, offset: int = 0) -> Line | Rejected:
        """Take the broken document at `offset`, up to its own end or else up to where the next
        one may begin."""
        if parsed.incomplete and self.ended and self.cut:
            return self._cut_off()
        # Before more is looked for: that may move the window, and with it what `parsed.end` is.
        error_at = parsed.end - self.at if parsed.found else offset + parsed.error_at
        end = self.ends.own(offset, parsed.too_deep)
        if end < 0 and self.in_array:
            end = self.ends.by_the_next()
        if end >= 0:
            text = self._pass_part(end)
            return self._unless_large(text, _rejected(text))
        end = self.line_end(self.at)
        if not self.within_limit() and (parsed.incomplete or end == len(self.text)):
            return self._too_large(offset)
        if error_at <= end - self.at and not (self.in_array and self._goes_on(end - self.at)):
            return _line(self._pass_part(self.line_end(self.at)))
        return self._take_many(offset)

    def _goes_on(self, offset: int) -> bool:
        """Whether the line that ends at `offset` opens a list, or the next one begins a field."""
        line = self.text[self.at + 1 : self.at + offset]
        if line.count("[") > line.count("]"):
            return True
        while True:
            blanks = _BLANKS.match(self.text, self.at + offset)
            end = blanks.end() if blanks else len(self.text)
            if end < len(self.text) or not self.more_within_limit():
                return self.text.startswith('"', end)

    def _pass_part(self, end: int) -> str:
        """Pass to `end`; note whether the broken part also closes the array around it."""
        text = self.pass_to(end)
        self.ends_array = ends_another(text.rstrip())
        return text

    def _cut_off(self) -> Rejected:
        reason, self.cut = self.cut, ""
        return Rejected(reason, as_bytes(self.pass_to(len(self.text))))

    def _take_many(self, offset: int) -> Line | Rejected:
        starts = self.ends.next_start(offset)
        start = starts.search(self.text, self.at + 1)
        while start is None and self.more_within_limit():
            start = starts.search(self.text, self.at + 1)
        if start is None and not self.ended:
            return self._too_large(offset)
        return _rejected(self._pass_part(start.start() if start else len(self.text)))

    def _too_large(self, offset: int) -> Rejected:
        """Refuse the document's beginning; continue at the next line that begins a document.

        The window may end within that line.
        """
        starts, begin = self.ends.next_start(offset), self.passed + self.at
        first = self.text[self.at :]
        self.at = max(self.at + 1, len(self.text) - _LONGEST_KEY)
        while (start := starts.search(self.text, self.at)) is None:
            self.at = max(self.at, len(self.text) - _LONGEST_KEY)
            if not self.more():
                break
        end = start.start() if start else len(self.text)
        raw = as_bytes(first[: self.passed + end - begin])
        self.at = end
        return Rejected(TOO_LARGE, raw)


def _inner(document: Any) -> dict[str, Any]:
    """Return a document's fields, those of `payload` if it has a `schema`."""
    described = isinstance(document, dict) and "schema" in document
    inner = document.get("payload", document) if described else document
    return inner if isinstance(inner, dict) else {}


def as_bytes(text: str) -> bytes:
    """Return the bytes of a file's text."""
    return text.encode("utf-8", "surrogateescape")


def _rejected(text: str) -> Line | Rejected:
    """Return a broken part: one line for the reader to reject, several as Rejected."""
    text = text.strip()
    if "\n" in text or "\r" in text:
        return Rejected(UNPARSEABLE, as_bytes(text))
    return _line(text)


def _line(text: str, lossy: bool = False) -> Line | Rejected:
    if lossy:
        return Rejected(LONE_SURROGATE, as_bytes(text))
    if "\0" in text:  # not JSON, but Spark could take it for UTF-16 or UTF-32
        return Rejected(UNPARSEABLE, as_bytes(text))
    if "\n" in text or "\r" in text:
        text = _BETWEEN_TOKENS.sub(lambda token: token[1] or "", text)
    try:
        return Line(text.encode())
    except UnicodeEncodeError:
        return Rejected(INVALID_UTF8, as_bytes(text))
