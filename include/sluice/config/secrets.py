"""Refuse secrets in the configuration, without showing them in errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from sluice.environment import ENV_CATALOG_URI, ENV_REST_CREDENTIAL, ENV_REST_TOKEN, SECRETS
from sluice.errors import ConfigError

SECRET_NAMES: Final = (
    r"secret|passw|passphrase|pwd|token|credential|keytab|(?:access|api|private).?key"
    r"|account.?key(?!provider)|encryption.?key(?![a-z]|\.material)|azure\.sas\b|\bsig\b"
    r"|user.?info\b(?!\.)|authorization(?![.-]|\w)|bearer"
)
"""Pattern of names of secrets, case-insensitive; Java reads it too."""
_SECRET: Final = re.compile(SECRET_NAMES, re.IGNORECASE)
# Class names and paths of keystores or files show where secrets are, and a switch whether there are
# any; none of them is a secret.
_PROVIDER: Final = re.compile(
    r"(credentials?\.provider(\.path)?|sas\.token\.provider\.type(\..+)?"
    r"|^spark\.ssl\.(\w+\.)?privateKey|(security|azure)\.authorization"
    r"|^token-(exchange|refresh)-enabled|^token-expires-in-ms)$",
    re.IGNORECASE,
)
_USER_INFO: Final = re.compile(r"://([^:/@\s]*):.*@")
# A port that is not a number: it is a password, if the host is missing.
_NO_PORT: Final = re.compile(r"://([^:/?#@\[\s]*):(?!\d*(?:[^\w%.~-]|$))[^/?#@\s'\"]*")
_PARAMETER: Final = re.compile(rf"((?:{_SECRET.pattern})[^=&?\s]*=)[^&\s'\"]*", re.IGNORECASE)
_NAMED: Final = re.compile(r"([^\s=&?;,'\"]+)=")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_HEADER: Final = re.compile(r"header\..*(auth|cookie)", re.IGNORECASE)
_SHOWN: Final = 80
_OF_S3: Final = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
IN_ENVIRONMENT: Final = (
    "secrets are in the environment: the catalog's address with its password in "
    f"{ENV_CATALOG_URI}, those of S3 in {_OF_S3}, others as in docs/security.md"
)


def is_secret(name: str) -> bool:
    """Whether a setting or parameter of this name holds a secret."""
    return bool(_SECRET.search(name)) and not _PROVIDER.search(name)


def holds_secret(uri: str) -> bool:
    """Whether an address has a password before its host, or a secret among its parameters."""
    address, _, query = uri.partition("?")
    return bool(_USER_INFO.search(address)) or any(is_secret(name) for name, _ in parse_qsl(query))


def is_clear(uri: str) -> bool:
    """Whether every reader finds the same host in an address.

    Readers disagree on a password with an unescaped @ / ? #, and may show the rest of it; likewise
    on a password in place of the port if the host is missing.
    """
    try:
        _ = urlsplit(uri).port
    except ValueError:
        return False
    return uri.count("@") == urlsplit(uri).netloc.count("@") <= 1


def refuse_unsendable(environment: Mapping[str, str]) -> None:
    """Raise ConfigError for a secret with a control character.

    No header and no password has one, and clients show what they refuse to send.
    """
    for name in SECRETS:
        if _CONTROL.search(environment.get(name, "")):
            raise ConfigError(f"{name} has a control character, such as a line end behind it")


def refuse_secret_settings(conf: Any) -> Any:
    """Raise ValueError for Spark settings that would show a secret on its command line."""
    if leaks := _leaks(conf):
        raise ValueError(
            f"no secret: {leaks} would be on spark-submit's command line; give "
            "it in the environment (AWS_…, PG…, SLUICE_CATALOG_…), or in spark-defaults.conf of a "
            "folder that SPARK_CONF_DIR names"
        )
    return conf


def refuse_secret_properties(properties: Any) -> Any:
    """Raise ValueError for properties of a catalog that hold a secret."""
    if leaks := _leaks(properties):
        raise ValueError(
            f"no secret, without {leaks}; the catalog's is in {ENV_REST_TOKEN} or "
            f"{ENV_REST_CREDENTIAL}, those of S3 in {_OF_S3}, and there is no place for others"
        )
    return properties


def _leaks(given: Any) -> str:
    """Name the settings that hold a secret; '' if none does."""
    settings = given.items() if isinstance(given, Mapping) else ()
    leaks = [str(k) for k, _ in settings if is_secret(str(k)) or _HEADER.match(str(k))]
    leaks += [f"what {key} holds" for key, value in settings if _shows_secret(value)]
    return ", ".join(sorted(leaks))


def _shows_secret(value: Any) -> bool:
    """Whether a value holds a secret such as `-Dpassword=…`, or a password in an address."""
    words = value.split() if isinstance(value, str) else []
    named = (name for word in words for name in _NAMED.findall(word))
    return any(map(is_secret, named)) or any(map(holds_secret, words))


def shortened(value: Any) -> str:
    """Return a refused value for an error: only the keys of a mapping, no secret of an address."""
    address = _NO_PORT.sub(r"://\1:…", _USER_INFO.sub(r"://\1:…@", _described(value)))
    text = _PARAMETER.sub(r"\1…", address)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "…"


def _described(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"a mapping of {', '.join(map(str, value)) or 'nothing'}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_described, value))}]"
    return repr(value)
