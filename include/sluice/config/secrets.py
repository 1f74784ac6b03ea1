"""Secrets are not the configuration's: they are refused in it, and not told in what is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

SECRET_NAMES: Final = (
    r"secret|passw|passphrase|pwd|token|credential|keytab|(?:access|api|private).?key"
    r"|account.?key(?!provider)|encryption.?key(?![a-z]|\.material)|azure\.sas\b|\bsig\b"
    r"|user.?info\b(?!\.)"
)
"""What names of secrets have in them, in whatever case; Java reads the pattern, too."""
_SECRET: Final = re.compile(SECRET_NAMES, re.IGNORECASE)
# The name of a class, the path of a store that is encrypted or of a file: where secrets are, not
# what.
_PROVIDER: Final = re.compile(
    r"(credentials?\.provider(\.path)?|sas\.token\.provider\.type(\..+)?"
    r"|^spark\.ssl\.(\w+\.)?privateKey)$",
    re.IGNORECASE,
)
_USER_INFO: Final = re.compile(r"://([^:/@\s]*):.*@")
# A port that is no number: where the host is left out, a password.
_NO_PORT: Final = re.compile(r"://([^:/?#@\[\s]*):(?!\d*(?:[^\w%.~-]|$))[^/?#@\s'\"]*")
_PARAMETER: Final = re.compile(rf"((?:{_SECRET.pattern})[^=&?\s]*=)[^&\s'\"]*", re.IGNORECASE)
_NAMED: Final = re.compile(r"([^\s=&?;,'\"]+)=")
_SHOWN: Final = 80


def is_secret(name: str) -> bool:
    """Whether a setting or parameter of this name holds a secret."""
    return bool(_SECRET.search(name)) and not _PROVIDER.search(name)


def holds_secret(uri: str) -> bool:
    """Whether an address has a password before its host, or a secret among its parameters."""
    address, _, query = uri.partition("?")
    return bool(_USER_INFO.search(address)) or any(is_secret(name) for name, _ in parse_qsl(query))


def is_clear(uri: str) -> bool:
    """Whether everybody finds the same host in an address: a password with @ / ? # as they are
    ends for one reader where it goes on for another, who would show the rest of it. So does one
    that stands where the port belongs, for the host is left out."""
    try:
        _ = urlsplit(uri).port
    except ValueError:
        return False
    return uri.count("@") == urlsplit(uri).netloc.count("@") <= 1


def refuse_secret_settings(conf: Any) -> Any:
    """Raise ValueError for settings of Spark that would show a secret on its command line."""
    settings = conf.items() if isinstance(conf, Mapping) else ()
    found = [str(key) for key, _ in settings if is_secret(str(key))]
    found += [f"what {key} holds" for key, value in settings if _tells_secret(value)]
    if found:
        raise ValueError(
            f"no secret: {', '.join(sorted(found))} would be on spark-submit's command line; give "
            "it in the environment (AWS_…, PG…, SLUICE_CATALOG_…), or in a file that SPARK_CONF_DIR"
            " names"
        )
    return conf


def _tells_secret(value: Any) -> bool:
    """Whether a setting's value has `-Dpassword=…` or its like in it, or such an address."""
    words = value.split() if isinstance(value, str) else []
    named = (name for word in words for name in _NAMED.findall(word))
    return any(map(is_secret, named)) or any(map(holds_secret, words))


def shortened(value: Any) -> str:
    """A refused value for an error: of a mapping its keys alone, of an address no secret."""
    address = _NO_PORT.sub(r"://\1:…", _USER_INFO.sub(r"://\1:…@", _described(value)))
    text = _PARAMETER.sub(r"\1…", address)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "…"


def _described(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"a mapping of {', '.join(map(str, value)) or 'nothing'}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_described, value))}]"
    return repr(value)
