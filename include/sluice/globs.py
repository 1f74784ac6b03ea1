"""Globs over object keys, and names that are always skipped."""

from __future__ import annotations

import re


def glob_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a glob over keys: `*` and `?` stay in a folder, `**/` is any number of folders.

    Raises re.error for a range that ends before it begins.
    """
    parts = re.findall(r"\*\*/|\*\*|\*|\?|\[!?[^\]]+\]|.", pattern, re.DOTALL)
    return re.compile("".join(map(_glob_part, parts)), re.DOTALL)


def _glob_part(part: str) -> str:
    special = {"**/": "(?:[^/]*/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if part in special:
        return special[part]
    if len(part) > 1:
        inner = part[1:-1].replace("\\", "\\\\")
        return f"[^{inner[1:]}]" if inner.startswith("!") else f"[{inner}]"
    return re.escape(part)


def is_hidden(key: str) -> bool:
    """Whether an object is skipped, as Spark skips it: a part of the key begins with `.`, or
    with `_` without being `_name=value`, or the key ends in `._COPYING_`, as Hadoop names
    unfinished files."""
    parts = key.split("/")
    hidden = any(p.startswith(".") or (p.startswith("_") and "=" not in p) for p in parts)
    return hidden or any(p.endswith("._COPYING_") for p in parts)


def matches_nothing(pattern: str) -> bool:
    """Whether a folder or name in a glob, such as `_in`, is one that is always skipped."""
    parts = pattern.split("/")
    literal = (part for part in parts if not re.search(r"[*?\[]", part))
    return any(part.startswith(".") for part in parts) or any(map(is_hidden, literal))
