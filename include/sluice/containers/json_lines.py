"""Check whether Spark reads a file's JSON lines correctly as they are.

Spark's reader silently ignores what follows the first document of a line, splits lines at a bare
carriage return, and replaces bytes that are not UTF-8. So each line has to be one valid document,
or text that Spark rejects whole. DuckDB checks all lines of a block at once, some hundred megabytes
a second; the few that it does not accept are checked one by one.
"""

from __future__ import annotations

from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa

from sluice.containers.broken_json import may_go_on
from sluice.containers.json_documents import BOM
from sluice.containers.json_text import is_lossy, read_document

BLOCK_BYTES: Final = 4 << 20
_SMALL: Final = 1 << 15
_NEWLINE: Final = ord("\n")
_BRACE: Final = ord("{")
_SPLIT_BEGINNINGS: Final = ("[", "/*", BOM)


class LineCheck:
    """Takes a file's bytes piece by piece; sets `split_needed` once Spark could misread them.

    A line above `limit` sets it too, because the splitter has to reject it.
    """

    def __init__(self, limit: int) -> None:
        self.split_needed = False
        self._limit = limit
        self._waiting: list[bytes] = []
        self._size = 0
        self._judge: duckdb.DuckDBPyConnection | None = None

    def add(self, piece: bytes) -> None:
        """Take the file's next bytes."""
        if self.split_needed:
            return
        self._waiting.append(piece)
        self._size += len(piece)
        if self._size >= BLOCK_BYTES:
            self._check_whole_lines()

    def finish(self) -> None:
        """Check the rest at the file's end; the last line may lack its line end."""
        self._check_whole_lines()
        rest = b"".join(self._waiting)
        if rest and not self.split_needed:
            self.split_needed = len(rest) > self._limit or _is_odd(rest, last=True)
        if self._judge is not None:
            self._judge.close()

    def _check_whole_lines(self) -> None:
        data = b"".join(self._waiting)
        end = data.rfind(b"\n") + 1
        self._waiting = [data[end:]]
        self._size = len(data) - end
        if not self.split_needed:
            self.split_needed = self._size > self._limit or (end > 0 and self._odd(data[:end]))

    def _odd(self, block: bytes) -> bool:
        if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
            return True
        if len(block) <= _SMALL:
            lines = block.split(b"\n")[:-1]
            return any(len(line) > self._limit or _is_odd(line) for line in lines)
        return self._odd_in_large(block)

    def _odd_in_large(self, block: bytes) -> bool:
        data = np.frombuffer(block, dtype=np.uint8)
        offsets = np.concatenate(([0], np.flatnonzero(data == _NEWLINE) + 1)).astype(np.int64)
        if np.diff(offsets).max() - 1 > self._limit:
            return True
        suspects = ~self._valid(block, offsets) | (data[offsets[:-1]] != _BRACE)
        return any(
            _is_odd(block[offsets[n] : offsets[n + 1] - 1]) for n in np.flatnonzero(suspects)
        )

    def _valid(self, block: bytes, offsets: Any) -> Any:
        if self._judge is None:
            self._judge = duckdb.connect(config={"threads": 1})
        lines = pa.LargeStringArray.from_buffers(
            len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(block)
        )
        self._judge.register("block", pa.table({"line": lines}))
        try:
            answer = self._judge.execute("SELECT json_valid(line) AS valid FROM block").fetchnumpy()
        except duckdb.OutOfMemoryException as error:
            raise MemoryError(str(error)) from error  # the machine's fault, not the file's
        return np.asarray(answer["valid"], dtype=bool)


def _is_odd(line: bytes, last: bool = False) -> bool:
    """Whether the splitter has to see a line; one that Spark rejects whole may stay."""
    if not line.strip():
        return False
    try:
        text = line.decode().strip()
    except UnicodeDecodeError:
        return True
    if text.startswith(_SPLIT_BEGINNINGS) or "\r" in text or "\0" in text:
        return True
    parsed = read_document(f"{text} ", 0)
    if parsed.found:
        return bool(text[parsed.end :].strip()) or is_lossy(text)
    # A string cut by the line's end cannot go on.
    goes_on = parsed.too_deep or parsed.error_at >= len(text)
    return "^" in text or "\t" in text or (goes_on and not last) or may_go_on(text)
